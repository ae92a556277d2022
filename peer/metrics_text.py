"""Metrics as text, in the form that Prometheus reads (version 0.0.4).

    # HELP shoal_queued_rows Rows that wait in front of an instance.
    # TYPE shoal_queued_rows gauge
    shoal_queued_rows{app="hot-rooms",instance="1.0"} 12

Pure. Rejected: prometheus_client, whose registry of global counters is a second place to count in, for a page of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from peer.histogram import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})

Labels = Mapping[str, str]


@dataclass(slots=True)
class Family:
    """One metric: all its samples stand together under one HELP and one TYPE.

    >>> rows = Family("shoal_rows_total", "counter", "Rows.")
    >>> rows.add(3, app='a "b"')
    >>> print(page([rows]), end="")
    # HELP shoal_rows_total Rows.
    # TYPE shoal_rows_total counter
    shoal_rows_total{app="a \\"b\\""} 3
    """

    name: str
    kind: str
    help: str
    _lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert _NAME.match(self.name) and self.kind in ("counter", "gauge", "histogram"), self
        assert (self.kind == "counter") == self.name.endswith("_total"), self.name

    def add(self, value: float, **labels: str) -> None:
        self._lines.append(f"{self.name}{_braces(labels)} {_number(value)}")

    def add_histogram(self, it: Histogram, **labels: str) -> None:
        for bound, count in it.cumulated():
            self._lines.append(f"{self.name}_bucket{_braces(labels | {'le': _number(bound)})} {count}")
        self._lines.append(f"{self.name}_bucket{_braces(labels | {'le': '+Inf'})} {it.count}")
        self._lines.append(f"{self.name}_sum{_braces(labels)} {_number(it.sum_s)}")
        self._lines.append(f"{self.name}_count{_braces(labels)} {it.count}")

    def text(self) -> str:
        head = f"# HELP {self.name} {self.help.translate(_HELP_ESCAPES)}\n# TYPE {self.name} {self.kind}\n"
        return head + "".join(line + "\n" for line in self._lines)


def page(families: Iterable[Family]) -> str:
    return "".join(family.text() for family in families)


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    assert all(map(_LABEL.match, labels)), labels
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    """
    >>> _number(3), _number(0.25), _number(2.0), _number(1e16)
    ('3', '0.25', '2', '10000000000000000')
    """
    return str(int(value)) if float(value).is_integer() else repr(float(value))
