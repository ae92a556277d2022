"""The README's commands do what the README shows.

Every ```console block is run by bash, in an empty folder, line by line. What it prints must be what the
README prints, but for ids, numbers, the order of rows, and what `...` stands for. Two things are replaced:
`make demo` by what it runs, and the port by a free one.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCKS = re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL) if README.exists() else []
PORT = "4000"
GAP = "..."


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def shape(text):
    """The lines that are the same in every run: without ids, numbers and hops, in no order."""
    text = re.sub(r"\b[0-9a-f]{8}([0-9a-f]{32})?\b", "ID", text)
    text = re.sub(r" -(?= |$)", " 0", text, flags=re.MULTILINE)  # a number that was not measured yet
    lines = (re.sub(r"[-\s]+", " ", re.sub(r"[\d.,]+", "N", line)).strip() for line in text.splitlines())
    return sorted(line for line in lines if line and not line.startswith("N "))


def commands_of(block):
    return [line[2:] for line in block.splitlines() if line.startswith("$ ")]


def output_of(block):
    return "\n".join(line for line in block.splitlines() if not line.startswith("$ ") and line != GAP)


def has_gaps(block):
    return GAP in block.splitlines()


def run(block, folder):
    script = "\n".join(commands_of(block)).replace("make demo", "peer demo").replace(PORT, free_port())
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = subprocess.Popen(
        ["bash", "-euc", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = shell.communicate(timeout=180)
    finally:
        try:
            os.killpg(shell.pid, signal.SIGKILL)  # its own group, and only if something is left of it
            left = True
        except ProcessLookupError:
            left = False
    assert shell.returncode == 0, output
    assert not left, "a process outlived the README"
    return output


def test_there_is_something_to_run():
    assert any("make demo" in block for block in BLOCKS)
    assert any("peer run" in block for block in BLOCKS)


def test_the_app_in_the_readme_is_the_example():
    assert f"```python\n{(ROOT / 'examples/hot_rooms.py').read_text()}```" in README.read_text()


def test_make_demo_is_peer_demo():
    assert re.search(r"^demo:.*\n\t@\$\(BIN\)/peer demo$", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS, ids=[commands_of(it)[0] for it in BLOCKS])
def test_the_readme_shows_what_happens(block, tmp_path):
    output = run(block, tmp_path)
    promised, seen = Counter(shape(output_of(block))), Counter(shape(output))
    missing, unexpected = promised - seen, Counter() if has_gaps(block) else seen - promised
    assert not missing and not unexpected, f"missing {[*missing]}, unexpected {[*unexpected]} in:\n{output}"
