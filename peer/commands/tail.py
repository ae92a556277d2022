"""`peer tail APP/STREAM`: the rows of a stream, as they come."""

from pathlib import Path

import click

from peer.complaint import Complaint
from peer.options import data_option, output_option, verb


@verb("tail")
@click.argument("stream", metavar="APP/STREAM")
@click.option("--from-now", is_flag=True, help="Only rows that come from now on, not those that are still kept.")
@data_option
@output_option
def command(stream: str, from_now: bool, data: Path, output: str) -> None:
    """Print the rows of a stream until it ends, or until Ctrl-C. The app does not mind either."""
    app, slash, name = stream.partition("/")
    if not app or not slash or not name:
        raise Complaint(f"{stream!r} is not APP/STREAM.", "Write for example: peer tail hot-rooms/alerts")
    from peer.ring_run import print_streams

    read = print_streams(data, app, [name], form=output, from_now=from_now)
    if read.missed:
        click.echo(f"{read.missed:,} rows were no longer kept when this began.", err=True)
