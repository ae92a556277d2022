"""What a device always runs with: DATA/peer.toml, or the file of `peer run --config`.

    zone = "attic"
    listen = "0.0.0.0:4000"
    join = ["10.0.0.7:4000"]

    [sources]
    readings = "mqtt://broker.local/house/+/celsius"

    [sinks]
    alerts = "file:/var/lib/shoal/alerts.jsonl"

Flags win over the file, one by one; of sources and sinks, name by name. A mistake is a sentence with the file, the line
and the key: also a spec that no connector understands, which would otherwise be noticed by the first launch.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from peer.addresses import parse_address
from peer.complaint import Complaint, about_file

FILE_NAME: Final = "peer.toml"
FILE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """What the file says; what it does not say is not in `values`."""

    values: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    sinks: Mapping[str, str] = field(default_factory=dict)


class _Wrong(Exception):  # noqa: N818 (becomes a Complaint)
    """What a value should be."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong(f"a text in quotes, not {value!r}")
    return value


def _address(value: Any) -> str:
    try:
        parse_address(_text(value))
    except ValueError as error:
        raise _Wrong(f"host:port; {error}") from None
    return str(value)


def _addresses(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _Wrong('a list of addresses, such as ["10.0.0.7:4000"]')
    return tuple(map(_address, value))


def _zone(value: Any) -> str:
    from peer.options import zone_fault

    if fault := zone_fault(_text(value)):
        raise _Wrong(fault)
    return str(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(f"true or false, not {value!r}")
    return value


def _whole(value: Any, *, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise _Wrong(f"a number from {low} to {high}, not {value!r}")
    return value


def _log(value: Any) -> str:
    if value not in ("text", "json"):
        raise _Wrong(f'"text" or "json", not {value!r}')
    return str(value)


KEYS: Final[dict[str, Callable[[Any], Any]]] = {
    "zone": _zone,
    "listen": _address,
    "advertise": _text,
    "join": _addresses,
    "insecure": _flag,
    "virtual": partial(_whole, low=1, high=16),
    "slots": partial(_whole, low=1, high=65535),
    "memory": partial(_whole, low=16, high=1 << 30),
    "metrics": _address,
    "log": _log,
}
"""Each is the flag of `peer run` of that name."""
TABLES: Final = ("sources", "sinks")


def read_settings(path: Path) -> Settings:
    """The settings in a file, all of them checked; a `Complaint` says where a mistake is."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise about_file(error, path) from None
    if len(raw) > FILE_BYTES_MAX:
        raise Complaint(f"{path} has {len(raw):,} bytes.", f"At most {FILE_BYTES_MAX:,} are read.")
    try:
        text = raw.decode()
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Complaint(f"{path} is no TOML: {error}.", "Mend that line.") from None
    return _checked(path, text, found)


def _checked(path: Path, text: str, found: dict[str, Any]) -> Settings:
    values: dict[str, Any] = {}
    for key, value in found.items():
        if key in TABLES:
            if not isinstance(value, dict):
                raise _complaint(path, text, "", key, f'a table: [{key}], then NAME = "SPEC" lines')
            continue
        if key not in KEYS:
            known = ", ".join([*KEYS, *(f"[{table}]" for table in TABLES)])
            raise Complaint(f'{_place(path, text, "", key)}: there is no setting "{key}".', f"There are: {known}.")
        try:
            values[key] = KEYS[key](value)
        except _Wrong as wrong:
            raise _complaint(path, text, "", key, str(wrong)) from None
    sources, sinks = (_specs(path, text, table, found.get(table, {})) for table in TABLES)
    return Settings(values, sources, sinks)


def _specs(path: Path, text: str, table: str, specs: dict[str, Any]) -> dict[str, str]:
    from dataflow.connectors.specs import parse_sink, parse_source
    from dataflow.errors import AppError

    parse: Callable[[str], Any] = parse_source if table == "sources" else parse_sink
    for name, spec in specs.items():
        try:
            parse(_text(spec))
        except _Wrong as wrong:
            raise _complaint(path, text, table, name, str(wrong)) from None
        except AppError as error:
            raise Complaint(f"{_place(path, text, table, name)}: {error}.", "Mend that line.") from None
    return dict(specs)


def _complaint(path: Path, text: str, table: str, key: str, wanted: str) -> Complaint:
    return Complaint(f'{_place(path, text, table, key)}: "{key}" is {wanted}.', "Mend that line.")


def _place(path: Path, text: str, table: str, key: str) -> str:
    return f"{path}, line {line_of(text, table, key)}"


def line_of(text: str, table: str, key: str) -> int:
    """The line on which a key stands. tomllib does not tell, so it is looked for; at worst it is the table's own.

    >>> line_of('zone = "a"\\n[sinks]\\nout = 1\\n[sources]\\n  "out" = 2\\n', "sources", "out")
    5
    """
    entry = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""")
    header = re.compile(r"""\s*\[+\s*["']?([^]"']*?)["']?\s*]""")
    here, best = "", 1
    for number, line in enumerate(text.splitlines(), 1):
        found = header.match(line)
        if found:
            here = found[1]
            if here == (table or key):
                best = number
        elif here == table and entry.match(line):
            return number
    return best
