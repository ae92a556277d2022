"""How long a launch takes on eight real peers: one at a time to its first row, then a hundred at once.

1. `peer launch` as a person types it, from the start of its process to the first row on its standard output. The app
   has four stages, and its source a thousand rows in a file.
2. A hundred apps, each of its own bundle, handed to all peers' control sockets in one moment: from there to the answer
   that the app runs. Their sources replay a file at its own pace, so that nobody ends before all have begun. Then: how
   many operators did each peer get?

All peers and whoever launches share this machine's cores.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import click

from bench.latency import percentile
from dataflow.bundles.collecting import collect
from dataflow.bundles.sealing import seal
from examples import rooms_data
from peer.complaint import Complaint
from peer.fleet import Fleet
from peer.operator import load_operator
from peer.output import columns, facts

PEERS = 8
APP = Path(__file__).with_name("peer_apps") / "rooms.py"
FIRST_ROW_S_AIM = 1.0
LAUNCH_S_MAX = 300.0
SETTLE_S = 6.0
"""Peers tell each other about their room every five seconds."""


@click.command()
@click.option("--launches", type=click.IntRange(1), default=10, show_default=True, help="One after the other.")
@click.option("--apps", type=click.IntRange(1, 120), default=100, show_default=True, help="At once.")
@click.option("--quick", is_flag=True, help="Three launches, twenty apps.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(launches: int, apps: int, quick: bool, output: str) -> None:
    """Measure launches on eight real peers."""
    say = partial(click.echo, err=True)
    if quick:
        launches, apps = 3, 20
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, Fleet(Path(folder)) as fleet:
        say(f"starting {PEERS} peers")
        start_peers(fleet, Path(folder))
        say(f"{launches} launches, one after the other")
        alone = [first_row_s(fleet) for _ in range(launches)]
        say(f"{apps} launches at once")
        together = launch_at_once(fleet, apps)
    report = summary(alone, together)
    met = [
        {
            "aim": f"first row under {FIRST_ROW_S_AIM:g} s for 4 stages",
            "found": f"{report['first_row_s_p50']:.2f} s",
            "met": report["first_row_s_p50"] < FIRST_ROW_S_AIM,
        }
    ]
    if output == "json":
        click.echo(json.dumps(report | {"aims": met}, indent=2))
    else:
        click.echo(f"{facts(report)}\n\n{columns(met)}")


def start_peers(fleet: Fleet, folder: Path) -> None:
    fleet.enroll("boss", role="operator")
    rooms = folder / "rooms.csv"
    with rooms.open("w") as file:
        file.writelines(line + "\n" for line in rooms_data.lines(1000, 1))
    for number in range(PEERS):
        flags = ["--source", f"paced{number}=file:{rooms}?speed=1"]
        if not number:
            flags += ["--source", f"readings=file:{rooms}"]
        fleet.start(f"p{number}", join=fleet.members[:1], flags=flags)
        fleet.await_listening(fleet.members[:1])
    fleet.await_ring()
    time.sleep(SETTLE_S)


def first_row_s(fleet: Fleet) -> float:
    """One launch by the command line, through a peer that has no part in it by itself."""
    boss, through = fleet.folder / "enrolled" / "boss", fleet.members[3].data
    begun = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "peer", "launch", str(APP), "--as", str(boss), "--data", str(through), "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        took = time.monotonic() - begun
        _, told = process.communicate()
    if not line or process.returncode:
        raise SystemExit(f"The launch failed: {told.strip()}")
    return took


def launch_at_once(fleet: Fleet, apps: int) -> list[dict[str, Any]]:
    """One thread an app: they wait for their peers' answers, and for one signal to begin."""
    signer, credential = load_operator(fleet.folder / "enrolled" / "boss")
    sealed = [
        seal(collect(APP, {"number": str(it), "source": f"paced{it % PEERS}"}), signer=signer, credential=credential)
        for it in range(apps)
    ]
    texts = [base64.b64encode(it.pack()).decode() for it in sealed]
    answers: list[dict[str, Any]] = []
    begin = threading.Barrier(apps)

    def launch(number: int) -> None:
        member = fleet.members[number % PEERS]
        begin.wait()
        begun = time.monotonic()
        try:
            answer = member.ask("launch", patience_s=LAUNCH_S_MAX, sealed=texts[number], is_rehearsal=False)
        except Complaint as complaint:
            answer = {"failed": complaint.message, "places": []}
        answers.append(answer | {"took_s": time.monotonic() - begun})

    threads = [threading.Thread(target=launch, args=(it,)) for it in range(apps)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def summary(alone: list[float], together: list[dict[str, Any]]) -> dict[str, Any]:
    took = [it["took_s"] for it in together if "failed" not in it]
    operators = Counter(place["peer"] for it in together for place in it["places"])
    hosts = [len({place["peer"] for place in it["places"]}) for it in together if it["places"]]
    failed = Counter(it["failed"][:120] for it in together if "failed" in it)
    return {
        "first_row_s_p50": round(percentile(alone, 50), 3),
        "first_row_s_max": round(max(alone), 3),
        "apps_at_once": len(together),
        "apps_failed": sum(failed.values()),
        "failures": dict(failed.most_common(3)),
        "launch_s_p50": round(percentile(took, 50), 3) if took else None,
        "launch_s_p99": round(percentile(took, 99), 3) if took else None,
        "operators": operators.total(),
        "operators_a_peer": sorted(operators.values()),
        "peers_without": PEERS - len(operators),
        "hosts_an_app_p50": percentile([float(it) for it in hosts], 50) if hosts else None,
    }


if __name__ == "__main__":
    main()
