"""`peer offers`: what this device offers to apps."""

from pathlib import Path

from peer.control import ask
from peer.options import data_option, output_option, verb
from peer.output import columns, show


@verb("offers")
@data_option
@output_option
def command(data: Path, output: str) -> None:
    """The sources that the running peer offers to apps, and what is behind them."""
    rows = ask(data, "offers")
    none = "This peer offers no source. Bind one: peer run --source NAME=SPEC"
    show(rows, output=output, table=columns(rows) if rows else none)
