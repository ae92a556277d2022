"""`peer explain APP`: what an app is made of, before it runs."""

from pathlib import Path

import click

from peer.apps import Pair, app_argument, load, param_option
from peer.options import verb


@verb("explain")
@app_argument
@param_option
@click.option("--dot", is_flag=True, help="As a Graphviz picture: peer explain APP --dot | dot -Tsvg")
def command(app: Path, param: tuple[Pair, ...], dot: bool) -> None:
    """The stages of an app, who feeds them, and what they give; * marks those that keep state."""
    loaded = load(app, param)
    from dataflow.explain import explain, explain_dot

    click.echo(explain_dot(loaded) if dot else explain(loaded))
