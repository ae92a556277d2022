"""`peer completion SHELL`: so that Tab finishes verbs and flags."""

import click
from click.shell_completion import get_completion_class

from peer.options import verb


@verb("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of your shell.

    For bash: peer completion bash >> ~/.bashrc
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "peer", "_PEER_COMPLETE").source())
