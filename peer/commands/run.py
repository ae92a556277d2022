"""`peer run`: be a peer."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from peer.apps import Pair, Pairs, by_name
from peer.options import Address, Zone, data_option, verb

if TYPE_CHECKING:
    from peer.config_file import Settings


@verb("run")
@click.option("--join", type=Address(), multiple=True, metavar="ADDR", help="A peer to join through; may be repeated.")
@click.option("--zone", type=Zone(), default="", help="Which peers are close to this one, such as attic.")
@click.option("--listen", type=Address(), default="127.0.0.1:0", help="Where to listen; port 0 lets the system choose.")
@click.option("--advertise", default="", metavar="HOST[:PORT]", help="What others dial, if it is not --listen.")
@click.option("--insecure", is_flag=True, help="No certificates and no TLS; on loopback only.")
@click.option("--virtual", type=click.IntRange(1, 16), default=1, help="Ids on the ring, with --insecure.")
@click.option(
    "--source",
    type=Pairs("NAME=SPEC", "--source readings=file:rooms.csv"),
    multiple=True,
    metavar="NAME=SPEC",
    help="A source that this device offers to apps, and what is behind it. May be repeated.",
)
@click.option(
    "--sink",
    type=Pairs("NAME=SPEC", "--sink alerts=file:alerts.csv"),
    multiple=True,
    metavar="NAME=SPEC",
    help="Where the rows of a sink go, if it runs here. May be repeated.",
)
@click.option(
    "--slots",
    type=click.IntRange(1, 65535),
    help="How many instances of operators this device takes.  [default: 64 for each core]",
)
@click.option(
    "--memory",
    type=click.IntRange(16, 1 << 30),
    metavar="MIB",
    help="Memory for the Python functions of apps.  [default: three quarters of the device's]",
)
@click.option("--metrics", type=Address(), metavar="ADDR", help="Serve metrics over HTTP here; port 0 is allowed.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where the settings of this device are; flags win over them.  [default: DATA/peer.toml, if there is one]",
)
@click.option("--log", type=click.Choice(["text", "json"]), default="text", help="Lines for people, or JSON.")
@data_option
@click.pass_context
def command(
    ctx: click.Context,
    join: tuple[str, ...],
    zone: str,
    listen: str,
    advertise: str,
    insecure: bool,
    virtual: int,
    source: tuple[Pair, ...],
    sink: tuple[Pair, ...],
    slots: int | None,
    memory: int | None,
    metrics: str | None,
    config: Path | None,
    log: str,
    data: Path,
) -> None:
    """Run a peer on this device until Ctrl-C, which lets it leave in good order; another ends it at once.

    Needs what `peer enroll` wrote. Once it has been in a ring it finds its way back without --join.

    \b
    A file may say what the flags say, and what is behind the sources and sinks of this device:
        zone = "attic"
        listen = "0.0.0.0:4000"
        [sources]
        readings = "file:/var/log/rooms.csv"
    """
    import time

    from peer.log import Log
    from peer.process_trio import live
    from peer.runtime import PeerConfig

    kept = _settings(config, data)

    def chosen(name: str) -> Any:
        """What a flag or its variable says; else the file; else the flag's default."""
        is_default = ctx.get_parameter_source(name) is ParameterSource.DEFAULT
        return kept.values[name] if is_default and name in kept.values else ctx.params[name]

    peer_config = PeerConfig(
        data_dir=data,
        listen=chosen("listen"),
        join=chosen("join"),
        zone=chosen("zone"),
        insecure=chosen("insecure"),
        virtual_peers=chosen("virtual"),
        advertise=chosen("advertise"),
        sources={**kept.sources, **by_name(source, flag="--source")},
        sinks={**kept.sinks, **by_name(sink, flag="--sink")},
        slots=chosen("slots"),
        memory_mib=chosen("memory"),
        metrics=chosen("metrics") or "",
    )
    ctx.exit(live(peer_config, Log(sys.stdout, form=chosen("log"), clock=time.time)))


def _settings(config: Path | None, data: Path) -> "Settings":
    from peer.config_file import FILE_NAME, Settings, read_settings

    if config is None and not (data / FILE_NAME).exists():
        return Settings()
    return read_settings(config or data / FILE_NAME)
