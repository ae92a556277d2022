"""`peer cancel APP`: end an app at once."""

import click

from peer.control import Where, ask
from peer.options import output_option, verb, where_options
from peer.output import show

PATIENCE_S = 30.0


@verb("cancel")
@click.argument("app")
@where_options
@output_option
def command(app: str, where: Where, output: str) -> None:
    """End an app at once: what is under way is dropped. APP is its name or id, or the beginning of either.

    `peer stop` lets what was read reach the sinks first; `peer stop --drain` also closes open windows.
    """
    answer = ask(where, "end", patience_s=PATIENCE_S, app=app, how="cancel")
    silent = "".join(f"\nNo answer from {each}" for each in answer["silent"])
    show(answer, output=output, table=f"App {answer['name']} ({answer['app'][:8]}) is cancelled.{silent}")
