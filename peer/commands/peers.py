"""`peer peers`: the ring, as the running peer knows it."""

import click

from peer.control import Where, ask
from peer.options import output_option, verb, where_options
from peer.output import columns, show


@verb("peers")
@click.option("--zone", help="Only those of this zone.")
@where_options
@output_option
def command(zone: str | None, where: Where, output: str) -> None:
    """The peers that the running peer knows, nearest id first."""
    rows = [row for row in ask(where, "peers") if zone is None or row["zone"] == zone]
    shown = [row | {"peer": row["peer"][:8]} for row in rows]
    show(rows, output=output, table=columns(shown) if shown else "This peer knows no other.")
