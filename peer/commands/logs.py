"""`peer logs APP`: what has happened to an app, on all its hosts."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from peer.control import Where, ask
from peer.options import output_option, verb, where_options

ASK_S_MAX = 20.0
FOLLOW_S = 0.5
"""Pause between two looks at the hosts."""


@verb("logs")
@click.argument("app")
@click.option("-f", "--follow", is_flag=True, help="Go on until the app is over, or until Ctrl-C.")
@where_options
@output_option
def command(app: str, follow: bool, where: Where, output: str) -> None:
    """What has happened to an app, on all its hosts, by time; also what its functions printed.

    APP is its name or id, or the beginning of either. Each host keeps the newest 500 lines of an app. With -o json each
    line is an object.
    """
    try:
        for page in _pages(where, app, follow):
            for peer in page["silent"]:
                click.echo(f"No answer from peer {peer}.", err=True)
            if page["missed"]:
                click.echo(f"{page['missed']:,} earlier lines are no longer kept.", err=True)
            for event in page["events"]:
                click.echo(json.dumps(event) if output == "json" else _line(event))
    except KeyboardInterrupt:
        return


def _pages(where: Where, app: str, follow: bool) -> Iterator[dict[str, Any]]:
    positions: dict[str, int] = {}
    while True:
        page = ask(where, "logs", patience_s=ASK_S_MAX, app=app, positions=positions)
        yield page
        app, positions = page["app"], page["positions"]
        if not page["is_all"]:
            continue
        if not follow or (page["state"] not in ("ready", "running") and not page["events"]):
            return
        time.sleep(FOLLOW_S)


def _line(event: dict[str, Any]) -> str:
    at = datetime.fromtimestamp(event["at_ms"] / 1000)
    where = f"{event['peer']} {event['zone']}".rstrip()
    return f"{at:%H:%M:%S}.{event['at_ms'] % 1000:03d}  {where}  {event['event']}: {event['sentence']}"
