"""Print what a verb found: columns for people, JSON for programs.

Rejected: rich's tables. They wrap to the width of the terminal, so that `grep` and `awk` find half a line,
and their import takes longer than all the rest of `peer status`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click


def columns(rows: Sequence[Mapping[str, Any]], *, only: Iterable[str] | None = None) -> str:
    """Rows as aligned columns under their names; numbers to the right.

    >>> print(columns([{"peer": "ab12", "rtt_ms": 1.25}, {"peer": "ef", "rtt_ms": None}]))
    PEER  RTT_MS
    ab12    1.25
    ef         -
    """
    names = list(only) if only is not None else list(rows[0]) if rows else []
    numeric = {name: any(type(row.get(name)) in (int, float) for row in rows) for name in names}
    lines = [[name.upper() for name in names]] + [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if numeric[name] else cell.ljust(width)
            for cell, width, name in zip(line, widths, names, strict=True)
        ).rstrip()
        for line in lines
    )


def facts(values: Mapping[str, Any]) -> str:
    """One thing as `name  value` lines.

    >>> print(facts({"peer": "ab12", "joined": True}))
    peer    ab12
    joined  yes
    """
    width = max(map(len, values), default=0)
    return "\n".join(f"{name.ljust(width)}  {_cell(value)}" for name, value in values.items())


def _cell(value: Any) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.2f}"
        case dict():
            return ", ".join(f"{key} {_cell(each)}" for key, each in value.items()) or "-"
        case list() | tuple():
            return " ".join(map(_cell, value)) or "-"
    return str(value)


def show(value: Any, *, output: str, table: str) -> None:
    """Print `value` as JSON, or the `table` that was made of it."""
    click.echo(json.dumps(value, indent=2) if output == "json" else table)
