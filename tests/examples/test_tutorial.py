"""docs/apps.md keeps its promises: its files are written, its commands are run, its output is compared.

A python block whose first line is `# NAME.py` is that file. Console blocks run in order, in one folder that also
holds examples/. Rates and random tails differ from run to run; everything else must be printed as it is shown, in
order, but for what `...` stands for.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "apps.md").read_text()
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", TEXT, re.DOTALL))
BLOCKS = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
GAP = "..."


def steps(block):
    """Each command of a block with the lines shown under it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


STEPS = [step for block in BLOCKS for step in steps(block)]


def shape(line):
    line = re.sub(r"[\d,]+ rows/s", "N rows/s", line)
    return " ".join(line.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "examples").symlink_to(ROOT / "examples")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def run(command, folder):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )


def matches(shown, printed):
    """Whether the shown lines are the printed ones; a gap stands for any number of them."""
    if not shown:
        return not printed
    if shown[0] == GAP:
        return any(matches(shown[1:], printed[at:]) for at in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and matches(shown[1:], printed[1:])


def test_the_tutorial_writes_validates_runs_and_connects():
    assert sorted(FILES) == ["ticks.py", "warm_rooms.py"]
    commands = " ".join(command for command, _ in STEPS)
    assert [word for word in ("validate", "explain", "launch", "ticks.py") if word not in commands] == []


@pytest.mark.parametrize("step", STEPS, ids=[command[:60] for command, _ in STEPS])
def test_the_tutorial_shows_what_happens(step, folder):
    command, shown = step
    ended = run(command, folder)
    assert ended.returncode == 0, ended.stdout
    assert matches([shape(it) for it in shown], [shape(it) for it in ended.stdout.splitlines()]), ended.stdout


def test_the_file_of_the_last_chapter_is_an_app(folder):
    assert run("peer validate ticks.py", folder).stdout.startswith("ok: app ticks")
    (folder / "ticks.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    assert run("peer launch --local ticks.py --source ticks=file:ticks.jsonl", folder).stdout.startswith("N\n1\n")
