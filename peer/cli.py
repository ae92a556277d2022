"""`peer`: one word, then a verb.

The verbs are a table of names and one-line helps, so that `peer --help` and `peer status` start without
importing the overlay, the TLS library or the simulator.

click, because it is mature and gives environment variables and shell completion; typer is click with more
imports, argparse has neither.
"""

from importlib import import_module

import click

VERBS = {
    "init": "Make a cluster: a CA of your own, on this machine.",
    "enroll": "Issue a certificate to a device, an operator or a viewer.",
    "run": "Run a peer on this device until Ctrl-C.",
    "launch": "Run an app: rows in, operators, rows out.",
    "validate": "Check an app without running it.",
    "explain": "The stages of an app; of a running one, where and why.",
    "apps": "The apps of the ring.",
    "tail": "The rows of streams, as they come.",
    "logs": "What has happened to an app, on all its hosts.",
    "stop": "End an app after what is under way.",
    "cancel": "End an app at once.",
    "offers": "The sources that devices offer to apps.",
    "status": "How the running peer, or an app, is doing.",
    "peers": "The peers that the running peer knows.",
    "metrics": "What the running peer counts, for Prometheus.",
    "route": "Send a probe to a key, and show the way it took.",
    "leave": "Let the running peer leave the ring and end.",
    "revoke": "Shut a certificate out of the cluster.",
    "doctor": "What is missing on this machine, and how to get it.",
    "sim": "The same peers in a simulator: thousands, on virtual time.",
    "demo": "Eight real peers, one kill -9, one repaired ring.",
    "completion": "Print the completion script of your shell.",
}


class Verbs(click.Group):
    """A group that imports a verb when it is used, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        found = import_module(f"peer.commands.{cmd_name}").command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


def _print_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"shoal {version('shoal')}")
        ctx.exit()


@click.group(
    cls=Verbs,
    context_settings={
        "auto_envvar_prefix": "SHOAL",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 110,
    },
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    allow_from_autoenv=False,
    callback=_print_version,
    help="Say which Shoal this is.",
)
def cli() -> None:
    """Shoal: a stream processor with no master. One peer runs on each device.

    Every flag may also come from the environment: --join of `peer run` is SHOAL_RUN_JOIN.
    """


def main() -> None:
    cli(prog_name="peer")
