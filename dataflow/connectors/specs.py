"""Connectors as one writes them on a command line.

file:rooms.csv            file:rooms.csv?speed=10      file:log?format=jsonl
stdin                     stdin?format=text            tcp:sensor.local:7000?format=csv
console                   file:out.parquet             null
"""

from __future__ import annotations

from pathlib import Path

from dataflow.connectors.files import KINDS, FileSource
from dataflow.connectors.lines import FORMATS, StdinLines, TcpLines
from dataflow.connectors.protocol import SinkConnector, SourceConnector
from dataflow.connectors.sinks import ArrowFile, Console, JsonFile, Nowhere
from dataflow.errors import AppError

SOURCE_HELP = "file:PATH[?speed=N][&format=csv|jsonl|parquet|text], stdin[?format=...], tcp:HOST:PORT[?format=...]"
SINK_HELP = "console, file:PATH.csv|.jsonl|.parquet, null"


def parse_source(spec: str) -> SourceConnector:
    kind, rest, options = _parse(spec)
    wanted = options.pop("format", None)
    speed = options.pop("speed", None)
    if options:
        raise AppError(f'source "{spec}": unknown option "{next(iter(options))}"; write {SOURCE_HELP}')
    if wanted is not None and wanted not in (*FORMATS, "parquet"):
        raise AppError(f'source "{spec}": unknown format "{wanted}"; there is csv, jsonl, parquet, text')
    if kind == "file" and rest:
        return FileSource(rest, kind=wanted, speed=_speed(spec, speed))
    if kind == "stdin" and not rest:
        return StdinLines(wanted or "jsonl")
    if kind == "tcp":
        host, _, port = rest.rpartition(":")
        if host and port.isdigit():
            return TcpLines(host, int(port), wanted or "jsonl")
    raise AppError(f'source "{spec}" is not understood; write {SOURCE_HELP}')


def parse_sink(spec: str, *, prefix: str = "") -> SinkConnector:
    kind, rest, options = _parse(spec)
    if kind == "console":
        return Console(prefix)
    if kind == "null":
        return Nowhere()
    if kind == "file" and rest:
        wanted = options.get("format") or KINDS.get(Path(rest).suffix.lower(), "")
        if wanted == "jsonl":
            return JsonFile(rest)
        if wanted in ("csv", "parquet"):
            return ArrowFile(rest, wanted)
    raise AppError(f'sink "{spec}" is not understood; write {SINK_HELP}')


def _parse(spec: str) -> tuple[str, str, dict[str, str]]:
    head, _, query = spec.partition("?")
    kind, _, rest = head.partition(":")
    pairs = (part.partition("=") for part in query.split("&") if part)
    return kind, rest, {name: value for name, _, value in pairs}


def _speed(spec: str, text: str | None) -> float | None:
    if text is None or text == "max":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise AppError(f'source "{spec}": speed "{text}" is not a number') from error
