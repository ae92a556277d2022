"""`peer enroll NAME`: let a device, an operator or a viewer into the cluster."""

from pathlib import Path

import click

from peer.complaint import Complaint
from peer.options import data_option, output_option, verb
from peer.output import facts, show

CERTIFICATE_DAYS = 365


@verb("enroll")
@click.argument("name")
@click.option("--role", type=click.Choice(["device", "operator", "viewer"]), default="device", help="What it may do.")
@click.option("--virtual", type=click.IntRange(1, 16), default=1, help="Ids on the ring: more for a bigger device.")
@click.option("--days", type=click.IntRange(1, 3650), default=CERTIFICATE_DAYS, help="How long it is valid.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to write it.  [default: DATA/enrolled/NAME]",
)
@click.option("--force", is_flag=True, help="Issue a new certificate where there is one already.")
@data_option
@output_option
def command(
    name: str, role: str, virtual: int, days: int, out: Path | None, force: bool, data: Path, output: str
) -> None:
    """Issue a certificate to a device, an operator or a viewer.

    Carry the folder that this writes to the device, and start there: peer run --data FOLDER
    """
    import time

    from peer.registrar import Registrar

    registrar = Registrar.load(data)
    try:
        made = registrar.enroll(name, role, time.time(), virtual=virtual, days=days, out=out, force=force)
    except ValueError as error:
        raise Complaint(f"Cannot enrol {name!r}: {error}.", "See: peer enroll --help") from None
    show(made, output=output, table=f"{facts(made)}\n\nNext, on the device: peer run --data {made['folder']}")
