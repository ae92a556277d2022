"""Three real peers in a row over TLS on loopback: source, operator, sink, each in a process of its own.

Every peer takes one instance (`peer run --slots 1`) and the app has three, so placement has no choice but a row: the
source where it is offered, the operator on one of the other two, the sink on the last.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.data import folder_of
from bench.environments import home
from bench.gate import Gate
from bench.workloads import ALL
from dataflow.bundles.limits import Limits
from peer.complaint import Complaint
from peer.fleet import Fleet, Member
from peer.ring_run import launch

APPS = Path(__file__).with_name("peer_apps")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
END_S_MAX = 30.0
FREE_S_MAX = 30.0
PROGRAM = (sys.executable, "-m", "bench.peer_process")


@dataclass(frozen=True, slots=True)
class Run:
    """One run from the first row to the last."""

    wall_s: float
    cpu_s: dict[str, float]
    """What each peer spent, by name."""
    told: dict[str, Any]
    """What the sink told."""


class Row:
    def __init__(self, fleet: Fleet, gate: Gate) -> None:
        self.fleet = fleet
        self.gate = gate
        self._boss = fleet.folder / "enrolled" / "boss"

    @property
    def members(self) -> list[Member]:
        return self.fleet.members

    def launch(self, app: str) -> dict[str, Any]:
        """Peers hear from each other every few seconds that a slot is free again: until then, ask again."""
        until = time.monotonic() + FREE_S_MAX
        while True:
            try:
                where = self.members[1].data
                answer = launch(APPS / f"{app}.py", {}, Limits(), where=where, operator=self._boss, rehearse=False)
                break
            except Complaint as complaint:
                if "room" not in complaint.message or time.monotonic() > until:
                    raise
                time.sleep(0.5)
        peers = {place["peer"] for place in answer["places"]}
        assert len(peers) == 3, f"three instances on {len(peers)} peers"
        return answer

    def run(self, app: str, *, orders: dict[str, Any] | None = None, **how: Any) -> Run:
        """Launch it, let it run, and wait until nobody hosts anything of it."""
        self.gate.orders = orders or {}
        self.launch(app)
        self.gate.await_ready()
        cpu, begun = self.cpu_s(), time.monotonic()
        self.gate.go(**how)
        told = self.gate.await_end()
        spent = {name: each - cpu[name] for name, each in self.cpu_s().items()}
        self.await_idle()
        return Run(told["ended_at"] - begun, spent, told)

    def cpu_s(self) -> dict[str, float]:
        return {it.name: cpu_s_of(it.process.pid) for it in self.members}

    def peak_rss_mib(self) -> float:
        """The highest that all three ever held."""
        return sum(memory_kib(it.process.pid, "VmHWM") for it in self.members) / 1024

    def await_idle(self) -> None:
        def is_idle() -> bool:
            return all(app["state"] not in ("ready", "running") for app in self.members[0].ask("apps"))

        self.fleet.until(is_idle, "the app to end everywhere", within_s=END_S_MAX)


@contextmanager
def row_of_three(folder: Path, *, events: int, seed: int = 1) -> Iterator[Row]:
    """A row whose first peer offers `bids` and `readings` of so many rows."""
    inputs = {
        "bids": folder_of(home(), ALL["W1"], events, seed=seed) / "bids.arrow",
        "readings": folder_of(home(), ALL["W4"], events, seed=seed) / "readings.arrow",
    }
    with Gate() as gate, Fleet(folder, program=PROGRAM) as fleet:
        fleet.enroll("boss", role="operator")
        at_gate = f"?gate={gate.port}"
        sources = [word for name, path in inputs.items() for word in ("--source", f"{name}=bench:{path}{at_gate}")]
        sink = ["--sink", f"out=bench:{at_gate}"]
        first = fleet.start("first", flags=[*sources, "--slots", "1"])
        fleet.await_listening([first])
        for name in ("second", "third"):
            fleet.start(name, join=[first], flags=[*sink, "--slots", "1"])
        fleet.await_ring()
        yield Row(fleet, gate)


def cpu_s_of(pid: int) -> float:
    """CPU-seconds of a process and of those that it started and saw end."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_A_SECOND


def busy_s() -> float:
    """CPU-seconds that all cores of this machine have spent on anything."""
    numbers = [int(it) for it in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    idle = numbers[3] + numbers[4]
    return (sum(numbers[:8]) - idle) / TICKS_A_SECOND


def memory_kib(pid: int, what: str) -> int:
    """`VmRSS` or `VmHWM` of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1])
    return 0
