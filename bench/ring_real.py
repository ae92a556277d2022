"""Measure a ring of real processes: how fast it heals, whom it believes dead, what idling costs.

1. Idle: CPU share of one core and resident memory of each peer, over a minute in which nothing happens.
2. Pause: peers are stopped (SIGSTOP) for less than the suspicion time; nobody may confirm their deaths.
3. Long pause: one is stopped until everybody confirms its death, as they should, then continued (SIGCONT); it
   must find its own way back into every leaf set.
4. Repair: `kill -9`, several times; from the kill to each survivor's repaired leaf set. The last survivor's
   time is the ring's.

Times are those of the peers' own logs, on one clock, so that asking does not disturb the answer.
"""

import json
import signal
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from peer.fleet import START_S_MAX, Fleet, Member
from peer.healing import heal
from peer.output import facts

SETTLE_S = 10.0
"""Rest after the ring is complete, so that joining is not measured as idling."""
DEATH_S_MAX = 120.0
RETURN_S_MAX = 120.0
ZONES = ("attic", "cellar", "garden", "street")

Say = Callable[[str], None]


@click.command()
@click.option("--peers", type=click.IntRange(4, 24), default=20, help="How many processes.")
@click.option("--kills", type=click.IntRange(1), default=5, help="How many of them are killed, one by one.")
@click.option("--pauses", type=click.IntRange(0), default=5, help="How many are stopped for a short time.")
@click.option("--pause-s", type=float, default=2.5, help="How long: less than the suspicion time.")
@click.option("--idle-s", type=float, default=60.0, help="How long to watch them idle.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def main(peers: int, kills: int, pauses: int, pause_s: float, idle_s: float, output: str) -> None:
    """Measure a ring of real peer processes on this machine."""
    if kills > peers - 3:
        raise click.BadParameter(f"of {peers} peers at most {peers - 3} can be killed", param_hint="--kills")
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, Fleet(Path(folder)) as fleet:
        report = measure(
            fleet,
            peers=peers,
            kills=kills,
            pauses=pauses,
            pause_s=pause_s,
            idle_s=idle_s,
            say=partial(click.echo, err=True),
        )
    click.echo(json.dumps(report, indent=2) if output == "json" else facts(report))


def measure(
    fleet: Fleet, *, peers: int, kills: int, pauses: int, pause_s: float, idle_s: float, say: Say
) -> dict[str, Any]:
    say(f"starting {peers} peers")
    started = time.monotonic()
    first = fleet.start("p0", zone=ZONES[0])
    fleet.await_listening([first])
    for number in range(1, peers):
        fleet.start(f"p{number}", zone=ZONES[number % len(ZONES)], join=[first])
    fleet.await_ring(within_s=2 * START_S_MAX)
    report: dict[str, Any] = {"peers": peers, "ring_complete_s": round(time.monotonic() - started, 1)}
    say(f"the ring is complete; idling for {idle_s:g} s")
    time.sleep(SETTLE_S)
    report |= idle(fleet, idle_s)
    say(f"pausing {pauses} peers for {pause_s:g} s each, one by one")
    report |= short_pauses(fleet, fleet.running[1 : pauses + 1], pause_s)
    say("pausing it until it is confirmed dead, then waking it")
    report |= long_pause(fleet, fleet.running[1])
    say(f"killing {kills} peers, one by one")
    return report | repairs(fleet, kills)


def idle(fleet: Fleet, idle_s: float) -> dict[str, Any]:
    before = {member.name: member.ask("status") for member in fleet.running}
    time.sleep(idle_s)
    shares, memory_mib = [], []
    for member in fleet.running:
        now = member.ask("status")
        then = before[member.name]
        shares.append(100 * (now["cpu_s"] - then["cpu_s"]) / (now["uptime_s"] - then["uptime_s"]))
        memory_mib.append(now["rss_mib"])
    return {
        "idle_cpu_percent_p50": round(percentile(shares, 50), 2),
        "idle_cpu_percent_max": round(max(shares), 2),
        "idle_rss_mib_p50": round(percentile(memory_mib, 50), 1),
        "idle_rss_mib_max": round(max(memory_mib), 1),
    }


def short_pauses(fleet: Fleet, sleepers: list[Member], pause_s: float) -> dict[str, Any]:
    """Short stops. To suspect a sleeper is right; whoever takes it for dead is wrong."""
    suspected, wrong = 0, 0
    for sleeper in sleepers:
        stopped_at = time.time()
        sleeper.send(signal.SIGSTOP)
        time.sleep(pause_s)
        sleeper.send(signal.SIGCONT)
        time.sleep(SETTLE_S)  # whoever is going to confirm its death has done so by then
        fleet.await_ring()
        others = [it for it in fleet.running if it is not sleeper]
        suspected += any(has_told(it, "suspected", sleeper.peer, stopped_at) for it in others)
        wrong += sum(has_told(it, "confirmed", sleeper.peer, stopped_at) for it in others)
    return {
        "pauses": len(sleepers),
        "pause_s": pause_s,
        "pauses_suspected": suspected,
        "false_confirmations": wrong,
    }


def long_pause(fleet: Fleet, sleeper: Member) -> dict[str, Any]:
    """A stop that is long enough to be dead, and the way back."""
    stopped_at = time.time()
    sleeper.send(signal.SIGSTOP)
    others = [it for it in fleet.running if it is not sleeper]
    for member in others:
        fleet.until(
            partial(has_told, member, "confirmed", sleeper.peer, stopped_at),
            f"{member.name} to confirm the death of the stopped {sleeper.name}",
            within_s=DEATH_S_MAX,
        )
    confirmed = [told_at(it, "confirmed", sleeper.peer, after=stopped_at) for it in others]
    woken_at = time.time()
    sleeper.send(signal.SIGCONT)
    fleet.await_ring(within_s=RETURN_S_MAX)
    took = [at - stopped_at for at in confirmed if at is not None]
    return {
        "stop_to_confirmed_s_min": round(min(took), 2),
        "stop_to_confirmed_s_p50": round(percentile(took, 50), 2),
        "stop_to_confirmed_s_max": round(max(took), 2),
        "woken_to_rejoined_s": round(time.time() - woken_at, 2),
    }


def repairs(fleet: Fleet, kills: int) -> dict[str, Any]:
    each_s: list[float] = []
    rings_s: list[float] = []
    for _ in range(kills):
        took = heal(fleet, fleet.running[-1])
        each_s += took
        rings_s.append(max(took))
    return {
        "kills": kills,
        "repair_s_p50": round(percentile(each_s, 50), 2),
        "repair_s_p95": round(percentile(each_s, 95), 2),
        "repair_s_of_ring_p50": round(percentile(rings_s, 50), 2),
        "repair_s_of_ring_p95": round(percentile(rings_s, 95), 2),
    }


def told_at(member: Member, event: str, peer: str, *, after: float) -> float | None:
    """When `member` first logged such an event about `peer`."""
    for it in member.events():
        if it["event"] == event and it.get("peer") == peer and it["at"] >= after:
            return float(it["at"])
    return None


def has_told(member: Member, event: str, peer: str, after: float) -> bool:
    return told_at(member, event, peer, after=after) is not None


def percentile(values: list[float], percent: float) -> float:
    """The value below which `percent` of all lie, by nearest rank."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * percent / 100))]


if __name__ == "__main__":
    main()
