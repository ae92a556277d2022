"""`peer status`: how the running peer is doing."""

import time
from pathlib import Path
from typing import Any

import click

from peer.complaint import Complaint
from peer.control import ask
from peer.options import data_option, output_option, verb
from peer.output import facts, show

POLL_S = 0.1


@verb("status")
@click.option("--wait", "wait_s", type=click.FloatRange(0), metavar="SECONDS", help="Wait until it has joined.")
@data_option
@output_option
def command(wait_s: float | None, data: Path, output: str) -> None:
    """How the running peer is doing. With --wait: once it is in the ring, for scripts that start peers."""
    status = ask(data, "status") if wait_s is None else _joined(data, wait_s)
    show(status, output=output, table=facts(status))


def _joined(data: Path, wait_s: float) -> Any:
    deadline = time.monotonic() + wait_s
    while True:
        complaint = Complaint(
            f"The peer in {data} has not joined within {wait_s:g} s.", "Is --join right? See its log."
        )
        try:
            status = ask(data, "status")
        except Complaint as error:  # it may be about to start
            complaint = error
        else:
            if status["joined"]:
                return status
        if time.monotonic() >= deadline:
            raise complaint
        time.sleep(POLL_S)
