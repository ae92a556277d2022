"""Real peer processes on this machine: for the demo, the benchmarks and the tests.

Each peer is `peer run` in a process of its own, with a certificate of a throw-away cluster, on a loopback
port that the kernel chose, and logs JSON to a file. What *happened* is read from those logs, because an
event's own time is exact, and asking twenty peers twenty times a second would disturb what is measured. What
*is so now* is asked over the control sockets.

Promise: after `end`, or the `with` block, no process of the fleet is left, whatever happened. Every one is
ended by its pid. They run in sessions of their own, so a Ctrl-C reaches only us, and we end them in order.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from peer.complaint import Complaint
from peer.control import ask
from peer.registrar import Registrar

START_S_MAX = 60.0
"""Twenty interpreters starting at once on two cores take ten seconds; a slow machine may take longer."""
LEAVE_S_MAX = 10.0
POLL_S = 0.05


class FleetError(RuntimeError):
    """The peers did not do what was awaited. Their logs tell more: the message says where they are."""


class Member:
    """One peer process."""

    def __init__(self, name: str, zone: str, data: Path, command: Sequence[str]) -> None:
        self.name = name
        self.zone = zone
        self.data = data
        self.log = data / "log.jsonl"
        self.command = [*command]
        self.peer = ""
        self.address = ""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def ask(self, verb: str, **arguments: Any) -> Any:
        return ask(self.data, verb, **arguments)

    def events(self) -> Iterator[dict[str, Any]]:
        """What the peer has logged, also in earlier lives. Whatever else is in there is no event."""
        for line in self.log.read_text().splitlines():
            if line.startswith("{"):
                yield json.loads(line)

    def leaves(self) -> set[str]:
        return {row["peer"] for row in self.ask("peers") if row["leaf"]}

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> float:
        """`kill -9`. Returns when, on the clock of the logs."""
        at = time.time()
        self.process.kill()
        self.process.wait()
        return at

    def wait(self, within_s: float = LEAVE_S_MAX) -> int:
        return self.process.wait(within_s)


class Fleet:
    """A cluster of its own in `folder`, and its running peers.

    with Fleet(folder) as fleet:
        first = fleet.start("lamp", zone="attic")
        fleet.start("heater", zone="cellar", join=[first])
        fleet.await_ring()
    """

    def __init__(
        self,
        folder: Path,
        *,
        on_wait: Callable[[], None] = lambda: None,
        program: Sequence[str] = (sys.executable, "-m", "peer"),
    ) -> None:
        self.folder = folder
        self._program = program
        self.members: list[Member] = []
        self._on_wait = on_wait
        self._registrar = Registrar.create(folder, "fleet", time.time(), days=2)

    def __enter__(self) -> Self:
        self._on_term = signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        signal.signal(signal.SIGTERM, self._on_term)

    @property
    def running(self) -> list[Member]:
        return [it for it in self.members if it.is_running]

    def enroll(self, name: str, *, virtual: int = 1, role: str = "device") -> Path:
        made = self._registrar.enroll(name, role, time.time(), virtual=virtual, days=1, out=None, force=False)
        return Path(made["folder"])

    def start(
        self,
        name: str,
        *,
        zone: str = "",
        join: Iterable[Member] = (),
        flags: Iterable[str] = (),
        virtual: int = 1,
    ) -> Member:
        """Start a peer, enrolled if it is new. It is listening once `await_listening` says so."""
        data = self.folder / "enrolled" / name
        if not (data / "cert.pem").exists():
            self.enroll(name, virtual=virtual)
        joins = [word for other in join for word in ("--join", other.address)]
        command = [*self._program, "run", "--data", str(data), "--zone", zone, "--log", "json"]
        member = Member(name, zone, data, [*command, *joins, *flags])
        self.members.append(member)
        return member

    def await_listening(self, members: Iterable[Member]) -> None:
        for member in members:
            self.until(partial(_introduce, member), f"{member.name} to listen", within_s=START_S_MAX)

    def await_ring(self, *, within_s: float = START_S_MAX) -> None:
        """Until every running peer has joined and has all the others in its leaf set (which holds 24)."""
        self.await_listening(self.running)
        peers = {it.peer for it in self.running}
        for member in self.running:
            self.until(
                partial(_knows, member, peers - {member.peer}),
                f"{member.name} to know the other {len(peers) - 1} peers",
                within_s=within_s,
            )

    def until(self, condition: Callable[[], bool], what: str, *, within_s: float) -> None:
        """Wait for `condition`; a `FleetError` tells what did not come about in time."""
        deadline = time.monotonic() + within_s
        while True:
            dead = [it for it in self.members if it.process.poll() not in (None, 0, -signal.SIGKILL)]
            if dead:
                raise FleetError(f"{dead[0].name} ended with {dead[0].process.returncode}: see {dead[0].log}")
            try:
                if condition():
                    return
            except Complaint as complaint:
                reason = f": {complaint.message}"
            else:
                reason = ""
            if time.monotonic() > deadline:
                raise FleetError(f"Waited {within_s:g} s for {what}{reason}. The logs are in {self.folder}.")
            self._on_wait()
            time.sleep(POLL_S)

    def end(self) -> None:
        """End every process of the fleet: politely, then at once."""
        for member in self.running:
            member.send(signal.SIGTERM)
            member.send(signal.SIGCONT)  # a stopped process hears nothing before
        deadline = time.monotonic() + LEAVE_S_MAX
        for member in self.members:
            try:
                member.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.kill()
        assert not self.running


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM ends us as Ctrl-C does, so that the `with` block ends the peers."""
    raise KeyboardInterrupt


def _introduce(member: Member) -> bool:
    """Has the peer, in this life, begun to listen? Then note who and where it is."""
    status = member.ask("status")
    member.peer, member.address = status["peer"], status["address"]
    return bool(member.address)


def _knows(member: Member, peers: set[str]) -> bool:
    return bool(member.ask("status")["joined"]) and member.leaves() == peers


def is_alive(pid: int) -> bool:
    """Is there a process of that pid? For those who check that none was left."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
