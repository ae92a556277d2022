"""`peer route KEY`: the way to a key, hop by hop."""

import click

from peer.control import Where, ask
from peer.options import output_option, verb, where_options
from peer.output import columns, show

PATIENCE_S = 20.0
"""A route is tried four times for four seconds each before it fails."""


@verb("route")
@click.argument("key")
@where_options
@output_option
def command(key: str, where: Where, output: str) -> None:
    """Send a probe to KEY, and show the way it took.

    KEY is 40 hexadecimal digits, or a name, which is hashed to its key.
    """
    route = ask(where, "route", key=key, patience_s=PATIENCE_S)
    hops = [hop | {"peer": hop["peer"][:8]} for hop in route["hops"]]
    ending = f"key {route['key'][:8]} is owned by peer {route['owner'][:8]}, answered in {route['took_ms']:.2f} ms"
    show(route, output=output, table=f"{columns(hops)}\n{ending}")
