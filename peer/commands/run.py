"""`peer run`: be a peer."""

import sys
from pathlib import Path

import click

from peer.apps import Pair, Pairs, by_name
from peer.options import Address, Zone, data_option, verb


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
    log: str,
    data: Path,
) -> None:
    """Run a peer on this device until Ctrl-C, which lets it leave in good order; another ends it at once.

    Needs what `peer enroll` wrote. Once it has been in a ring it finds its way back without --join.
    """
    import time

    from peer.log import Log
    from peer.process_trio import live
    from peer.runtime import PeerConfig

    config = PeerConfig(
        data_dir=data,
        listen=listen,
        join=join,
        zone=zone,
        insecure=insecure,
        virtual_peers=virtual,
        advertise=advertise,
        sources=by_name(source, flag="--source"),
        sinks=by_name(sink, flag="--sink"),
        slots=slots,
        memory_mib=memory,
    )
    ctx.exit(live(config, Log(sys.stdout, form=log, clock=time.time)))
