"""`peer peers`: the ring, as the running peer knows it."""

from pathlib import Path

import click

from peer.control import ask
from peer.options import data_option, output_option, verb
from peer.output import columns, show


@verb("peers")
@click.option("--zone", help="Only those of this zone.")
@data_option
@output_option
def command(zone: str | None, data: Path, output: str) -> None:
    """The peers that the running peer knows, nearest id first."""
    rows = [row for row in ask(data, "peers") if zone is None or row["zone"] == zone]
    shown = [row | {"peer": row["peer"][:8]} for row in rows]
    show(rows, output=output, table=columns(shown) if shown else "This peer knows no other.")
