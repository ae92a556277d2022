"""The flags that several verbs share, and the checks of what a person types into any of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from peer.addresses import parse_address
from peer.places import default_data

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


class Zone(click.ParamType[str]):
    name = "zone"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if len(value.encode()) > ZONE_BYTES_MAX or not value.isprintable() or any(map(str.isspace, value)):
            self.fail(
                f"{value!r} is no zone: at most {ZONE_BYTES_MAX} bytes, no spaces, such as attic or eu-west",
                param,
                ctx,
            )
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
