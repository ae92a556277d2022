"""`peer revoke WHO`: shut a certificate out of the cluster, for good."""

from pathlib import Path

import click

from peer.options import data_option, output_option, verb
from peer.output import facts, show


@verb("revoke")
@click.argument("who", metavar="NAME|SERIAL")
@click.option(
    "--through",
    type=click.Path(file_okay=False, path_type=Path),
    help="The data folder of a running peer that shall spread the news.  [default: DATA]",
)
@data_option
@output_option
def command(who: str, through: Path | None, data: Path, output: str) -> None:
    """Shut a certificate out of the cluster.

    The CA signs a new denylist and the running peer gossips it; peers that are away now hear of it when they
    come back. A name stands for every certificate that it was issued.
    """
    import time

    from peer.complaint import Complaint
    from peer.control import ask
    from peer.registrar import Registrar

    revoked, signed = Registrar.load(data).revoke(who, time.time())
    carrier = through or data
    try:
        ask(carrier, "deny", denylist=signed.hex())
        spread = True
    except Complaint:
        spread = False
    result = {"who": who, "serials": revoked, "spread": spread}
    hint = (
        ""
        if spread
        else (
            f"\n\nThe denylist is signed, but no peer runs in {carrier} to spread it."
            "\nRepeat with: peer revoke NAME --through DATA_OF_A_RUNNING_PEER"
        )
    )
    show(result, output=output, table=facts(result) + hint)
