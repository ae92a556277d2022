"""`peer status`: how the running peer, or an app, is doing."""

import time
from typing import Any

import click

from peer.complaint import Complaint
from peer.control import Where, ask
from peer.options import output_option, verb, where_options
from peer.output import columns, facts, show

POLL_S = 0.1
APP_S_MAX = 20.0
INSTANCE = ("instance", "name", "peer", "rows_in", "rows_out", "queued_rows", "queued_bytes", "watermark")


@verb("status")
@click.argument("app", required=False)
@click.option("--wait", "wait_s", type=click.FloatRange(0), metavar="SECONDS", help="Wait until the peer has joined.")
@where_options
@output_option
def command(app: str | None, wait_s: float | None, where: Where, output: str) -> None:
    """How the running peer is doing, or an app: its state, rows, queues and hosts.

    APP is the name or id of an app, or the beginning of either. With --wait, and without APP: once the peer is in the
    ring, for scripts that start peers.
    """
    if app is not None:
        if wait_s is not None:
            raise click.UsageError("--wait is for the peer; an app is waited for with: peer launch --wait")
        status = ask(where, "app", app=app, patience_s=APP_S_MAX)
        show(status, output=output, table=_app_table(status))
        return
    status = ask(where, "status") if wait_s is None else _joined(where, wait_s)
    show(status, output=output, table=facts(status))


def _app_table(status: dict[str, Any]) -> str:
    hosts = status["hosts"]
    head = {name: value for name, value in status.items() if name != "hosts"} | {"app": status["app"][:8]}
    told = [{"host": peer, **{name: it.get(name) for name in ("zone", "state", "load", "slots", "reason")}}
            for peer, it in hosts.items()]
    from peer.app_summary import time_text

    instances = [
        it | {"peer": peer, "watermark": time_text(it["watermark_us"])}
        for peer, facts_ in hosts.items()
        for it in facts_["instances"]
    ]
    parts = [facts(head), columns(told)] + ([columns(instances, only=INSTANCE)] if instances else [])
    return "\n\n".join(parts)


def _joined(where: Where, wait_s: float) -> Any:
    deadline = time.monotonic() + wait_s
    while True:
        complaint = Complaint(
            f"The peer in {where} has not joined within {wait_s:g} s.", "Is --join right? See its log."
        )
        try:
            status = ask(where, "status")
        except Complaint as error:  # it may be about to start
            complaint = error
        else:
            if status["joined"]:
                return status
        if time.monotonic() >= deadline:
            raise complaint
        time.sleep(POLL_S)
