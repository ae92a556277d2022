"""`peer doctor`: what is missing on this machine."""

from pathlib import Path

import click

from peer.options import Address, data_option, output_option, verb
from peer.output import columns, show


@verb("doctor")
@click.option("--listen", type=Address(), default="127.0.0.1:0", help="The address that `peer run` shall use.")
@data_option
@output_option
@click.pass_context
def command(ctx: click.Context, listen: str, data: Path, output: str) -> None:
    """What is missing on this machine, and how to get it. Exits with 1 if a peer could not run."""
    from peer.doctor import examine

    findings = [finding.as_row() for finding in examine(data, listen)]
    show(findings, output=output, table=columns(findings, only=("verdict", "check", "found", "way_out")))
    ctx.exit(any(finding["verdict"] == "missing" for finding in findings))
