"""`peer tail APP/STREAM`: the rows of streams, as they come."""

import click

from peer.complaint import Complaint
from peer.control import Where, ask
from peer.options import output_option, verb, where_options

APP_S_MAX = 20.0


@verb("tail")
@click.argument("streams", metavar="APP/STREAM...", nargs=-1, required=True)
@click.option("--from-now", is_flag=True, help="Only rows that come from now on, not those that are still kept.")
@where_options
@output_option
def command(streams: tuple[str, ...], from_now: bool, where: Where, output: str) -> None:
    """Print the rows of streams until they end, or until Ctrl-C. The app does not mind either.

    APP alone means all its streams. Apps and streams may be named by the beginning of their names.
    """
    from peer.ring_run import print_streams

    wanted = [pair for each in streams for pair in _streams_of(each, where)]
    read = print_streams(where, list(dict.fromkeys(wanted)), form=output, from_now=from_now)
    if read.missed:
        click.echo(f"{read.missed:,} rows were no longer kept when this began.", err=True)


def _streams_of(text: str, where: Where) -> list[tuple[str, str]]:
    app, slash, name = text.partition("/")
    if not app or bool(slash) is not bool(name):
        raise Complaint(f"{text!r} is neither APP/STREAM nor APP.", "Write for example: peer tail hot-rooms/alerts")
    if name:
        return [(app, name)]
    status = ask(where, "app", app=app, patience_s=APP_S_MAX)
    return [(status["app"], stream) for stream in status["rows"]]
