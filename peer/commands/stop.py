"""`peer stop APP`: end an app, wherever its instances are."""

from pathlib import Path

import click

from peer.control import ask
from peer.options import data_option, output_option, verb
from peer.output import show


@verb("stop")
@click.argument("app")
@click.option("--drain", is_flag=True, help="End its sources, and let what is under way reach the sinks.")
@data_option
@output_option
def command(app: str, drain: bool, data: Path, output: str) -> None:
    """End an app. APP is its name or id, or the beginning of either."""
    answer = ask(data, "halt", patience_s=30.0, app=app, is_drained=drain)
    done = "is draining" if drain else "is stopped"
    silent = "".join(f"\nNo answer from {each}" for each in answer["silent"])
    show(answer, output=output, table=f"App {answer['name']} ({answer['app'][:8]}) {done}.{silent}")
