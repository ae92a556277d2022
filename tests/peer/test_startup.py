"""What a person types often starts fast: it imports nothing heavy. (Modules are counted; clocks are noisy.)"""

import os
import subprocess
import sys

import pytest

HEAVY = {"trio", "cryptography", "msgpack", "kademlia", "numpy", "pyarrow", "narwhals", "rich", "asyncio", "overlay"}


@pytest.mark.parametrize("typed", [["--help"], ["status"], ["peers"], ["route", "alerts"], ["run", "--help"]])
def test_light_verbs_import_nothing_heavy(tmp_path, typed):
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "peer", *typed],
        env={**os.environ, "SHOAL_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    told = [line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if line.startswith("import time:")]
    loaded = {name.partition(".")[0] for name in told}
    assert "click" in loaded
    assert not loaded & HEAVY
