"""Whoever interrupts the demo finds no process left, and is told where the logs are."""

import os
import signal
import subprocess
import sys

import pytest


def processes_of(folder):
    """Every process on this machine whose arguments name `folder`."""
    listing = subprocess.run(["ps", "-ewwo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if str(folder) in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_ends_its_peers(tmp_path_factory, number):
    folder = tmp_path_factory.mktemp("demo")
    demo = subprocess.Popen(
        [sys.executable, "-u", "-m", "peer", "demo", "--peers", "3"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert demo.stdout is not None
    with demo:
        for line in demo.stdout:
            if "The ring is complete" in line:
                assert len(processes_of(folder)) == 3
                demo.send_signal(number)
                break
        rest = demo.stdout.read()
    assert demo.returncode == 1
    assert "Interrupted; all peers are ended." in rest
    assert str(folder) in rest
    assert processes_of(folder) == []
