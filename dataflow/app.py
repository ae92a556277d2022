"""What a user launches: a name, a graph, parameters.

An app is built by running its file. Parameters are read while it is built, so that a threshold can be part of
an expression; `app.param` therefore asks the loader, not the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from dataflow.bundles.limits import Limits
from dataflow.durations import Duration, duration_us
from dataflow.errors import AppError, did_you_mean, place_of_caller
from dataflow.generations.promise import promise_of
from dataflow.graph import Flow, Graph, check
from dataflow.operators import source
from dataflow.schema import SchemaLike, parse_schema, require_columns
from dataflow.stream import Stream
from dataflow.times import TimeColumn, is_time

# What the loader was given; an app built elsewhere sees its defaults.
GIVEN_PARAMS: ContextVar[Mapping[str, str]] = ContextVar("GIVEN_PARAMS", default={})  # noqa: B039 (never mutated)


class App:
    """A stream application. Begin with `source`, end streams with `sink`."""

    def __init__(
        self,
        name: str,
        *,
        limits: Limits | None = None,
        guarantee: str = "exactly-once",
        epoch: Duration = "1s",
    ) -> None:
        """`limits`: what its Python functions may use on each host; see bundles/limits.py.

        `guarantee` and `epoch`: what holds when a peer dies, and how often state is committed; see
        generations/promise.py.
        """
        place = place_of_caller()
        if not isinstance(name, str) or not name.strip():
            raise AppError(f"an app needs a name, not {name!r}", place=place)
        self.name = name
        if limits is not None and not isinstance(limits, Limits):
            raise AppError(f"limits are Limits(memory_mib=...), not {limits!r}", place=place)
        self.limits = limits or Limits()
        try:
            self.promise = promise_of(guarantee, duration_us(epoch, what="epoch"))
        except ValueError as error:
            raise AppError(f'app "{name}": {error}', place=place) from None
        self.file = place.file
        self.graph = Graph()
        self.params: dict[str, Any] = {}

    def source(self, name: str, *, schema: SchemaLike, event_time: str | None = None, lateness: Duration = 0) -> Stream:
        """Rows from outside. `lateness` is how far rows may be behind the newest one before they are late."""
        place = place_of_caller()
        if not isinstance(name, str) or not name:
            raise AppError(f"source: {name!r} is not a name", place=place)
        try:
            lateness_us = duration_us(lateness, what="lateness")
            columns = parse_schema(schema)
            if event_time is not None:
                require_columns(columns, (event_time,), operator="event_time", place=place)
        except AppError as error:
            raise AppError(f'source "{name}": {error.message}', place=place) from error
        time = None
        if event_time is not None:
            kind = columns.field(event_time).type
            if not is_time(kind):
                raise AppError(f'source "{name}": event time "{event_time}" is {kind}, not a timestamp', place=place)
            time = TimeColumn(event_time, kind)
        draft = source.draft(name, Flow(columns, time), lateness_us)
        return Stream(self, self.graph.add(name, draft, (), place))

    def param(self, name: str, default: Any) -> Any:
        """A setting of the app, given with --param; text is turned into the default's type."""
        given = GIVEN_PARAMS.get()
        value = default
        if name in given:
            try:
                value = _like(default, given[name])
            except ValueError as error:
                kind = type(default).__name__
                raise AppError(f'param "{name}": {given[name]!r} is not {kind}', place=place_of_caller()) from error
        self.params[name] = value
        return value

    def validate(self) -> None:
        """Everything that can be known before rows flow; raises AppError."""
        check(self.graph, self.name)
        for name in GIVEN_PARAMS.get():
            if name not in self.params:
                raise AppError(f'app "{self.name}" has no param "{name}"; {did_you_mean(name, self.params)}')


def _like(default: Any, value: Any) -> Any:
    if not isinstance(value, str) or default is None:
        return value
    if isinstance(default, bool):
        if value.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise ValueError(value)
        return value.lower() in ("true", "1", "yes")
    return type(default)(value)
