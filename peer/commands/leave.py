"""`peer leave`: end the running peer in good order."""

from pathlib import Path

from peer.control import ask
from peer.options import data_option, output_option, verb
from peer.output import show


@verb("leave")
@data_option
@output_option
def command(data: Path, output: str) -> None:
    """Let the running peer leave the ring and end. Returns once it has taken the word."""
    left = ask(data, "leave")
    show(left, output=output, table=f"Peer {left['peer'][:8]} is leaving.")
