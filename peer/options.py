"""The flags that several verbs share, and the checks of what a person types into any of them."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from peer.addresses import parse_address
from peer.places import default_data

if TYPE_CHECKING:
    from peer.control import Where

F = TypeVar("F", bound=Callable[..., Any])

ZONE_BYTES_MAX = 64


class Address(click.ParamType[str]):
    name = "host:port"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parse_address(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value


def zone_fault(zone: str) -> str | None:
    """What a zone should be, if this is none."""
    if len(zone.encode()) > ZONE_BYTES_MAX or not zone.isprintable() or any(map(str.isspace, zone)):
        return f"at most {ZONE_BYTES_MAX} bytes, no spaces, such as attic or eu-west"
    return None


class Zone(click.ParamType[str]):
    name = "zone"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if fault := zone_fault(value):
            self.fail(f"{value!r} is no zone: {fault}", param, ctx)
        return value


class Verb(click.Command):
    """A verb whose help names the environment variable of every flag."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:
            if isinstance(param, click.Option):
                param.show_envvar = True
                param.show_default = param.show_default or bool(param.default)


def verb(name: str) -> Callable[[Callable[..., Any]], Verb]:
    return click.command(name, cls=Verb)


as_option = click.option(
    "--as",
    "operator",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="SHOAL_OPERATOR",
    help="The folder of the operator (or viewer) who asks: what `peer enroll --role` wrote.  [default: DATA]",
)
at_option = click.option(
    "--at",
    type=Address(),
    metavar="ADDR",
    envvar="SHOAL_AT",
    help="Ask the peer at this address, as the operator or viewer of --as, and not the one of --data.",
)
data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_data,
    envvar="SHOAL_DATA",
    show_default="$XDG_STATE_HOME/shoal or ~/.local/state/shoal",
    help="The peer's folder: certificate, control socket, cached contacts.",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    envvar="SHOAL_OUTPUT",
    help="A table for people, or JSON for programs.",
)


def where_of(data: Path, at: str | None, operator: Path | None) -> "Where":
    """Whom to ask: the peer of a folder, or the one at an address."""
    if at is None:
        return data
    from peer.far import Far  # TLS and all that; whoever asks at home does not wait for it

    return Far(at, operator or data)


def where_options(function: F) -> F:
    """--data, or --at with --as. The verb is handed `where`."""

    @wraps(function)
    def asked(*args: Any, data: Path, at: str | None, operator: Path | None, **more: Any) -> Any:
        return function(*args, where=where_of(data, at, operator), **more)

    return at_option(as_option(data_option(asked)))  # type: ignore[return-value]
