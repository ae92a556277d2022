"""`peer init`: a cluster is a CA, and this makes one."""

from pathlib import Path

import click

from peer.complaint import Complaint
from peer.options import data_option, output_option, verb
from peer.output import facts, show

CLUSTER_DAYS = 3650


@verb("init")
@click.option("--cluster", default="shoal", help="The cluster's name, as certificates show it.")
@click.option("--days", type=click.IntRange(1, 36500), default=CLUSTER_DAYS, help="How long the CA is valid.")
@data_option
@output_option
def command(cluster: str, days: int, data: Path, output: str) -> None:
    """Make a cluster: a CA of your own, on this machine.

    Its key can let anybody in, so keep this folder off the devices: `peer enroll` makes what they need.
    """
    import time

    from peer.registrar import Registrar

    try:
        registrar = Registrar.create(data, cluster, time.time(), days=days)
    except ValueError as error:
        raise Complaint(f"Cannot make that cluster: {error}.", "Choose another name with --cluster.") from None
    made = {"cluster": cluster, "authority": str(registrar.folder)}
    show(made, output=output, table=f"{facts(made)}\n\nNext: peer enroll NAME")
