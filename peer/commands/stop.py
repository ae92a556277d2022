"""`peer stop APP`: end an app, wherever its instances are."""

import click

from peer.control import Where, ask
from peer.options import output_option, verb, where_options
from peer.output import show

PATIENCE_S = 45.0
"""More than a stop waits for what is under way, and for hosts that are silent."""


@verb("stop")
@click.argument("app")
@click.option("--drain", is_flag=True, help="End its sources as if no more was to come: open windows give results.")
@where_options
@output_option
def command(app: str, drain: bool, where: Where, output: str) -> None:
    """End an app once the rows that it has read are in its sinks. APP is its name or id, or the beginning of either.

    \b
    peer stop          its sources are closed; what was read goes on to the sinks; open windows give no result
    peer stop --drain  its sources end; what was read goes on, and open windows give the results that they have
    peer cancel        everything ends at once; what is under way is dropped

    Comes back when the app has ended; with --drain when it has been told, for a drain takes as long as it takes.
    """
    answer = ask(where, "end", patience_s=PATIENCE_S, app=app, how="drain" if drain else "stop")
    done = "is draining" if drain else "is stopped"
    lost = "" if answer["is_whole"] else "\nA host was silent, or rows were under way after 20 s: those are dropped."
    silent = "".join(f"\nNo answer from {each}" for each in answer["silent"])
    show(answer, output=output, table=f"App {answer['name']} ({answer['app'][:8]}) {done}.{lost}{silent}")
