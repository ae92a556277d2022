"""Show it at work, with real processes: a ring, an app on it, a kill -9 in its midst, and every row counted.

Everything happens in a temporary folder and on loopback. The folder is removed at the end, unless something
went wrong.
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from peer.complaint import Complaint
from peer.demo_app import ROWS, Tail, a_host, launched, numbered_rows
from peer.fleet import Fleet, FleetError, Member
from peer.output import columns

Say = Callable[[str], None]

NAMES = (
    "lamp",
    "heater",
    "kettle",
    "meter",
    "camera",
    "pump",
    "gate",
    "lock",
    "fan",
    "bell",
    "valve",
    "radio",
)
ZONES = ("attic", "cellar", "garden")
MEASURE_S_MAX = 60.0
"""One leaf is probed every second, so that all are measured after some ten."""


def demonstrate(*, peers: int, keep: bool, say: Say) -> None:
    """Run the demo. A `Complaint` if the ring did not form, or a row was lost."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-demo-"))
    logs = f"The peers' logs: {folder}/enrolled/*/log.jsonl"
    try:
        with Fleet(folder) as fleet:
            _tell_the_story(fleet, peers, say)
    except FleetError as error:
        raise Complaint(str(error), logs) from None
    except KeyboardInterrupt:
        raise Complaint("Interrupted; all peers are ended.", logs) from None
    if keep:
        say(logs)
    else:
        shutil.rmtree(folder)


def _tell_the_story(fleet: Fleet, peers: int, say: Say) -> None:
    say(f"Starting {peers} peers in {len(ZONES)} zones, each with a certificate of a cluster made just now.")
    started = time.monotonic()
    boss = fleet.enroll("boss", role="operator")
    source = ("--source", numbered_rows(fleet.folder / "numbers.csv"))
    first = fleet.start(_name(0), zone=ZONES[0], flags=source)
    fleet.await_listening([first])
    for number in range(1, peers):
        fleet.start(_name(number), zone=ZONES[number % len(ZONES)], join=[first])
    fleet.await_ring()
    took_s = time.monotonic() - started
    say(f"The ring is complete after {took_s:.1f} s: every peer knows the other {peers - 1}.\n")
    for member in fleet.running:
        fleet.until(partial(has_measured, member), f"{member.name}'s first round-trip times", within_s=MEASURE_S_MAX)
    say(ring_table(fleet.running))

    facts = launched(fleet.folder, first, boss)
    say(f"\nApp numbers runs: {ROWS:,} numbered rows from {first.name}, over filter and window, to two sinks.\n")
    say(columns([{"instance": it["name"], "peer": it["peer"]} for it in facts["places"]]))
    tail = Tail(first, "all")
    tail.read_until(ROWS // 4)
    victim = a_host(fleet, facts["places"], but=first) or fleet.running[-1]
    shown = len(tail.numbers)
    say(f"\n{shown:,} rows are committed.  kill -9 {victim.process.pid}   ({victim.name}, peer {victim.peer[:8]})")
    killed = time.monotonic()
    victim.kill()
    tail.read_until(shown + 1)
    say(f"The next rows were committed {time.monotonic() - killed:.1f} s after the kill.")
    tail.read_until()
    say(f"{ROWS:,} rows in, {len(tail.numbers):,} rows out: lost {tail.lost}, doubled {tail.doubled}.\n")
    if tail.lost or tail.doubled:
        raise FleetError("Rows were lost or doubled.")
    say(ring_table(fleet.running))
    fleet.end()
    say(f"\nAll {peers - 1} peers left in good order. No process is left.")


def has_measured(member: Member) -> bool:
    return all(row["rtt_ms"] is not None for row in member.ask("peers"))


def ring_table(members: list[Member]) -> str:
    """The ring in the order of ids, with what each peer holds of it."""
    rows = []
    for member in sorted(members, key=lambda it: it.peer):
        known = member.ask("peers")
        rtts = [row["rtt_ms"] for row in known if row["rtt_ms"] is not None]
        rows.append(
            {
                "peer": member.peer[:8],
                "name": member.name,
                "zone": member.zone,
                "address": member.address,
                "leaves": sum(row["leaf"] for row in known),
                "mean_rtt_ms": sum(rtts) / len(rtts) if rtts else None,
            }
        )
    return columns(rows)


def _name(number: int) -> str:
    turn, at = divmod(number, len(NAMES))
    return NAMES[at] + (str(turn + 1) if turn else "")
