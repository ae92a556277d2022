"""Two peers never share one folder, however close together they start."""

import os
import signal
import subprocess
import sys

import pytest

from peer.complaint import Complaint
from peer.control import ask
from peer.lock import hold


def test_a_folder_is_held_by_one_at_a_time(tmp_path):
    with hold(tmp_path / "new"):
        with pytest.raises(Complaint, match=f"already runs .* process {os.getpid()}"), hold(tmp_path / "new"):
            pass
        with hold(tmp_path / "another"):
            pass
    with hold(tmp_path / "new"):
        pass


def test_a_lock_ends_with_its_process_even_by_kill_9(tmp_path):
    script = f"from peer.lock import hold; from pathlib import Path; import time\nwith hold(Path({str(tmp_path)!r})):\n"
    holder = subprocess.Popen(
        [sys.executable, "-c", script + "    print('held', flush=True); time.sleep(600)"], stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Complaint, match=f"process {holder.pid}"), hold(tmp_path):
            pass
        holder.kill()
    with hold(tmp_path):
        pass


def test_of_two_peers_that_start_in_one_folder_at_once_one_runs_and_one_says_why_not(tmp_path):
    command = [sys.executable, "-m", "peer", "run", "--insecure", "--log", "json", "--data", str(tmp_path)]
    rivals = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        for _ in range(2)
    ]
    try:
        first_lines = {rival.pid: rival.stdout.readline() for rival in rivals if rival.stdout}
        (winner,) = (it for it in rivals if first_lines[it.pid])
        (loser,) = (it for it in rivals if not first_lines[it.pid])
        assert loser.wait(60) == 1
        assert loser.stderr is not None
        fact, way_out = loser.stderr.read().splitlines()
        assert fact.startswith(f"Error: A peer already runs with its data in {tmp_path}")
        assert "--data" in way_out
        assert ask(tmp_path, "status")["peer"] in first_lines[winner.pid]
        winner.send_signal(signal.SIGTERM)
        assert winner.wait(60) == 0
    finally:
        for rival in rivals:
            rival.kill()
            rival.communicate()
