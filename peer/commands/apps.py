"""`peer apps`: what runs on the ring."""

from pathlib import Path

from peer.control import ask
from peer.options import data_option, output_option, verb
from peer.output import columns, show


@verb("apps")
@data_option
@output_option
def command(data: Path, output: str) -> None:
    """The apps of the ring, whichever peer they were launched through."""
    rows = ask(data, "apps")
    shown = [row | {"app": row["app"][:8]} for row in rows]
    show(rows, output=output, table=columns(shown) if shown else "No app runs. Launch one: peer launch APP.py")
