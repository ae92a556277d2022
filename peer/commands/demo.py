"""`peer demo`: see it work, in a minute, with nothing set up."""

import click

from peer.options import verb


@verb("demo")
@click.option("--peers", type=click.IntRange(3, 24), default=8, help="How many peer processes.")
@click.option("--keep", is_flag=True, help="Keep the folder with all logs, also when all went well.")
def command(peers: int, keep: bool) -> None:
    """Eight real peers, an app, one kill -9: no row lost, none doubled. Leaves no process behind."""
    from peer.demo import demonstrate

    demonstrate(peers=peers, keep=keep, say=click.echo)
