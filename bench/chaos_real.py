"""Real peers, real `kill -9`: is every row in the finished stream once?

Twelve processes in three zones run an app with two paced, numbered sources. By a seeded schedule peers are killed and
started again with the same identity and disk, or stopped for some seconds (SIGSTOP). What the sinks finished is read
all along, by position, through a peer that is left alone. At the end an oracle compares it with a plain computation.

    kill    a host, a register member, the keeper, the sink's peer, or anybody; it returns some seconds later
    pause   anybody but the peer that is read through, also the device of the other source

Two limits, beyond which the design promises nothing: of the members of the app's register one is down at a time, and of
all peers two. A device with a source is not killed: its file would be read again by nobody else, which is no fault.

Promise: it ends by itself, and no process is left. The peers' logs stay if anything went wrong.
Not done: network namespaces, so links are never down here (`peer sim chaos` cuts them); disks are never full.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import click

from bench.chaos_oracle import Oracle, numbered_rows
from bench.chaos_reading import EventLog, StreamReader
from bench.latency import percentile
from dataflow.bundles.limits import Limits
from overlay.ids import short
from peer.complaint import Complaint
from peer.fleet import Fleet, FleetError, Member
from peer.output import facts
from peer.ring_run import launch

ZONES: Final = ("attic", "cellar", "garden")
SOURCES: Final = 2
ROWS_PER_S: Final = 200
RUN_SHARE: Final = 0.8
"""Rows last for so much of the time: a source that is rewound is paced anew, so each recovery costs its own length."""
FIRST_FAULT_S: Final = 5.0
FAULT_EVERY_S: Final = (4.0, 10.0)
DOWN_S: Final = (3.0, 12.0)
PAUSE_S: Final = (2.0, 8.0)
RETURN_S: Final = 8.0
"""After a restart or a pause a peer still counts as down for so long: it joins, and the others believe it again."""
DOWN_MAX: Final = 2
SILENCE_S: Final = 6.0
"""A silence that begins later than this after a kill is another fault's."""
AFTER_S_MAX: Final = 180.0
"""What the rest of the stream may take once the faults cease."""
KINDS: Final = {"kill-host": 4, "kill-keeper": 2, "kill-sink": 2, "kill-member": 2, "kill-any": 1, "pause": 4}
APP: Final = """\
from dataflow import App, col, count, tumbling

app = App("chaos", epoch="500ms")
schema = {"n": "int64", "room": "int64", "at": "timestamp[ms]"}
numbers = app.source("numbers", schema=schema, event_time="at", lateness="2s")
numbers.filter(col("n") >= 0).sink("all")
counts = numbers.key_by("room").window(tumbling("1s")).aggregate(readings=count(), total=col("n").sum())
counts.sink("counts")
counts.late().sink("late")
"""


@click.command()
@click.option("--minutes", type=click.FloatRange(0.2), default=5.0, show_default=True, help="How long faults happen.")
@click.option("--peers", type=click.IntRange(8, 24), default=12, show_default=True, help="How many processes.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the schedule of faults.")
@click.option("--keep", is_flag=True, help="Keep the logs, also if all went well.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(minutes: float, peers: int, seed: int, keep: bool, output: str) -> None:
    """Kill and pause real peers under a running app, and count its rows."""
    say = partial(click.echo, err=True)
    folder = Path(tempfile.mkdtemp(prefix="shoal-chaos-"))
    say(f"Seed {seed}, {peers} peers on loopback (no network namespaces). Logs: {folder}")
    try:
        with Fleet(folder) as fleet:
            report = Chaos(fleet, Random(seed), minutes=minutes, say=say).run(peers)
    except FleetError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        raise click.ClickException(f"Interrupted; all peers are ended. Logs: {folder}") from None
    failed = bool(report["lost"] or report["doubled"] or report["windows_wrong"] or not report["ended"])
    report = {"seed": seed, "minutes": minutes, **report, "verdict": "failed" if failed else "passed"}
    click.echo(json.dumps(report, indent=2) if output == "json" else facts(report))
    if failed or keep:
        say(f"Logs: {folder}/enrolled/*/log.jsonl, faults and the app's events: {folder}/*.jsonl")
    else:
        shutil.rmtree(folder)
    sys.exit(failed)


@dataclass(slots=True)
class Fault:
    kind: str
    name: str
    at: float
    was_host: bool


@dataclass(slots=True)
class Down:
    """A peer that is dead or stopped, or has just returned."""

    member: Member
    is_dead: bool
    until: float
    is_back: bool = False


@dataclass(slots=True)
class Roles:
    """Who does what for the app, as last heard: short ids."""

    hosts: set[str] = field(default_factory=set)
    sinks: set[str] = field(default_factory=set)
    members: list[str] = field(default_factory=list)
    generation: int = 0


class Chaos:
    def __init__(self, fleet: Fleet, rng: Random, *, minutes: float, say: Any) -> None:
        self._fleet = fleet
        self._rng = rng
        self._run_s = minutes * 60
        self._say = say
        self._down: dict[str, Down] = {}
        self._faults: list[Fault] = []
        self._roles = Roles()
        self._flags: dict[str, tuple[str, ...]] = {}
        self._members: dict[str, Member] = {}
        self._begun = 0.0

    def run(self, peers: int) -> dict[str, Any]:
        oracle = self._start(peers)
        reader = self._members["p0"]
        streams = {name: StreamReader(reader, "chaos", name) for name in ("all", "counts", "late")}
        events = EventLog(reader, "chaos", self._fleet.folder / "events.jsonl")
        for thread in (*streams.values(), events):
            thread.start()
        self._begun = time.monotonic()
        self._storm(streams["all"])
        self._calm()
        ended = self._await_end(list(streams.values()))
        took_s = time.monotonic() - self._begun
        last = self._last_word(reader)
        events.halt()
        for stream in streams.values():
            stream.halt()
        return oracle.judge({name: it.rows for name, it in streams.items()}) | {
            "ended": ended,
            "took_s": round(took_s, 1),
            "generations": self._roles.generation,
            "faults": dict(sorted(Counter(it.kind for it in self._faults).items())),
            "kills": sum(it.kind != "pause" for it in self._faults),
            **self._recoveries(streams["all"].arrivals),
            **({} if ended else {"last_word": last}),
        }

    # -- before --

    def _start(self, peers: int) -> Oracle:
        fleet, folder = self._fleet, self._fleet.folder
        rows = int(self._run_s * RUN_SHARE * ROWS_PER_S)
        boss = fleet.enroll("boss", role="operator")
        for number in range(peers):
            name = f"p{number}"
            if number < SOURCES:
                path = folder / f"numbers{number}.csv"
                numbered_rows(path, first=number * rows, count=rows, per_s=ROWS_PER_S)
                self._flags[name] = ("--slots", "1", "--source", f"numbers=file:{path}?speed=1")
            join = fleet.members[:1]
            member = fleet.start(name, zone=ZONES[number % len(ZONES)], join=join, flags=self._flags.get(name, ()))
            self._members[name] = member
            fleet.await_listening(fleet.members[:1])
        fleet.await_ring()
        (folder / "chaos.py").write_text(APP)
        launch(folder / "chaos.py", {}, Limits(), where=fleet.members[0].data, operator=boss, rehearse=False)
        self._say(f"The app runs: {SOURCES * rows:,} rows of {SOURCES} devices. Faults for {self._run_s:g} s.")
        return Oracle(rows=SOURCES * rows, per_source=rows, per_s=ROWS_PER_S)

    # -- the storm --

    def _storm(self, finished: StreamReader) -> None:
        next_at = self._begun + FIRST_FAULT_S
        while time.monotonic() < self._begun + self._run_s and not finished.is_ended:
            now = time.monotonic()
            self._bring_back(now)
            if now >= next_at:
                next_at = now + self._rng.uniform(*FAULT_EVERY_S)
                self._look()
                self._strike(now)
            time.sleep(0.1)

    def _bring_back(self, now: float) -> None:
        for name, it in list(self._down.items()):
            if now < it.until:
                continue
            if it.is_back:
                del self._down[name]
                continue
            if it.is_dead:
                self._restart(it.member)
            else:
                it.member.send(signal.SIGCONT)
            self._tell("restarted" if it.is_dead else "continued", name)
            it.is_back, it.until = True, now + RETURN_S

    def _restart(self, dead: Member) -> None:
        """With the identity and the disk that it had. Its port is a new one."""
        self._fleet.members.remove(dead)
        join = [it for it in self._fleet.members if it.address and it.name not in self._down][:2]
        member = self._fleet.start(dead.name, zone=dead.zone, join=join, flags=self._flags.get(dead.name, ()))
        member.peer = dead.peer
        self._members[dead.name] = member

    def _look(self) -> None:
        """Who does what now? If nobody tells, what was last heard stands."""
        try:
            told = self._members["p0"].ask("app", app="chaos", patience_s=20.0)
        except Complaint:
            return
        hosts = {peer: it for peer, it in told["hosts"].items() if it["state"] not in ("silent", "ended", "halted")}
        if not hosts:
            return
        newest = max(hosts.values(), key=lambda it: int(it["generation"]))
        self._roles = Roles(
            set(told["hosts"]),
            set(newest["sinks"].values()),
            [short(it[0]) for it in newest["members"]],
            int(newest["generation"]),
        )

    def _strike(self, now: float) -> None:
        possible = {kind: able for kind in KINDS if (able := self._able(kind))}
        if len(self._down) >= DOWN_MAX or not possible:
            return
        kind = self._rng.choices([*possible], weights=[KINDS[it] for it in possible])[0]
        able = possible[kind]
        name = self._rng.choice(able)
        member = self._members[name]
        is_kill = kind != "pause"
        fault = Fault(kind, name, time.monotonic(), member.peer[:8] in self._roles.hosts)
        if is_kill:
            member.kill()
        else:
            member.send(signal.SIGSTOP)
        self._faults.append(fault)
        self._down[name] = Down(member, is_kill, now + self._rng.uniform(*(DOWN_S if is_kill else PAUSE_S)))
        self._tell(kind, name)

    def _able(self, kind: str) -> list[str]:
        """Whom this fault may hit without a second register member being down."""
        roles = self._roles
        member_down = any(it.member.peer[:8] in roles.members for it in self._down.values())
        wanted = {
            "kill-host": roles.hosts,
            "kill-keeper": set(roles.members[:1]),
            "kill-sink": roles.sinks,
            "kill-member": set(roles.members[1:]),
        }.get(kind)
        safe = 1 if kind == "pause" else SOURCES
        return [
            name
            for number, (name, it) in enumerate(self._members.items())
            if number >= safe
            and name not in self._down
            and (wanted is None or it.peer[:8] in wanted)
            and not (member_down and it.peer[:8] in roles.members)
        ]

    def _tell(self, what: str, name: str) -> None:
        peer = self._members[name].peer[:8]
        roles = self._roles
        told = {"host": roles.hosts, "sink": roles.sinks, "keeper": roles.members[:1], "member": roles.members[1:]}
        parts = [part for part, peers in told.items() if peer in peers]
        at_s = time.monotonic() - self._begun
        self._say(f"{at_s:6.1f} s  {what:<11} {name:<4} {peer}  {' '.join(parts)}")
        line = {"at": time.time(), "what": what, "name": name, "peer": peer, "parts": parts}
        with (self._fleet.folder / "faults.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    # -- after --

    def _calm(self) -> None:
        """Everybody is brought back, dead or stopped."""
        for it in self._down.values():
            it.until = 0.0
        self._bring_back(time.monotonic())
        at_s = time.monotonic() - self._begun
        self._say(f"{at_s:6.1f} s  no more faults; the rest of the stream follows")

    def _await_end(self, streams: list[StreamReader]) -> bool:
        rest_s = max(0.0, self._run_s * (1 - RUN_SHARE))
        deadline = time.monotonic() + rest_s + AFTER_S_MAX
        while any(it.is_alive() for it in streams) and time.monotonic() < deadline:
            time.sleep(0.2)
        self._look()
        return all(it.is_ended for it in streams)

    def _last_word(self, reader: Member) -> Any:
        try:
            return reader.ask("app", app="chaos", patience_s=20.0)
        except Complaint as complaint:
            return complaint.message

    def _recoveries(self, arrivals: list[float]) -> dict[str, Any]:
        """From a kill of a host to the end of the longest silence that it began."""
        hits = [it for it in self._faults if it.kind != "pause" and it.was_host]
        took = []
        for it in hits:
            gaps = [
                (after - before, after)
                for before, after in pairwise(arrivals)
                if it.at <= after and before <= it.at + SILENCE_S
            ]
            if gaps:
                took.append(max(gaps)[1] - it.at)
        return {
            "kills_of_hosts": len(hits),
            "kills_survived": len(took),
            "recovery_s_p50": round(percentile(took, 50), 2) if took else None,
            "recovery_s_p95": round(percentile(took, 95), 2) if took else None,
            "recovery_s_max": round(max(took), 2) if took else None,
        }


if __name__ == "__main__":
    main()
