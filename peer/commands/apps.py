"""`peer apps`: what runs on the ring."""

from peer.control import Where, ask
from peer.options import output_option, verb, where_options
from peer.output import columns, show


@verb("apps")
@where_options
@output_option
def command(where: Where, output: str) -> None:
    """The apps of the ring, whichever peer they were launched through."""
    rows = ask(where, "apps")
    shown = [row | {"app": row["app"][:8]} for row in rows]
    show(rows, output=output, table=columns(shown) if shown else "No app runs. Launch one: peer launch APP.py")
