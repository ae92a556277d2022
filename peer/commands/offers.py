"""`peer offers`: what devices offer to apps."""

import click

from peer.control import Where, ask
from peer.options import output_option, verb, where_options
from peer.output import columns, show


@verb("offers")
@click.option("--here", is_flag=True, help="What the running peer itself binds: sources and sinks, with their specs.")
@where_options
@output_option
def command(here: bool, where: Where, output: str) -> None:
    """The sources that the devices of the ring offer to apps, and who offers them.

    What is behind a source (a file, a topic, a port) is told on its own device only, with --here.
    """
    rows = ask(where, "offers", is_here=here)
    none = "This peer binds nothing." if here else "No device offers a source."
    table = columns(rows) if rows else f"{none} Bind one: peer run --source NAME=SPEC"
    show(rows, output=output, table=table)
