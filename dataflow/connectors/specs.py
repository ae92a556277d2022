"""Connectors as one writes them on a command line.

file:rooms.csv            file:rooms.csv?speed=10      file:log?format=jsonl
stdin                     stdin?format=text            tcp:sensor.local:7000?format=csv
mqtt://broker/house/+/celsius                          http://0.0.0.0:8080/readings (listens)
console                   file:out.parquet             null
mqtt://broker/alerts      http://host/hook (posts)     https://host/hook

    >>> parse_source("mqtt://broker.local/house/#?format=csv&client=attic").__class__.__name__
    'MqttSource'
    >>> parse_sink("https://hooks.local/alerts").__class__.__name__
    'WebhookSink'
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from dataflow.connectors.files import KINDS, FileSource
from dataflow.connectors.lines import FORMATS, StdinLines, TcpLines
from dataflow.connectors.payloads import MESSAGE_FORMATS
from dataflow.connectors.protocol import SinkConnector, SourceConnector
from dataflow.connectors.sinks import ArrowFile, Console, JsonFile, Nowhere
from dataflow.errors import AppError

SOURCE_HELP = (
    "file:PATH[?speed=N][&format=csv|jsonl|parquet|text], stdin[?format=...], tcp:HOST:PORT[?format=...], "
    "mqtt://HOST[:PORT]/TOPIC[?format=...][&client=NAME], http://HOST:PORT/PATH"
)
SINK_HELP = (
    "console, file:PATH.csv|.jsonl|.parquet, null, mqtt://HOST[:PORT]/TOPIC[?format=jsonl|csv], http[s]://HOST[:PORT]/PATH"
)

MORE_SOURCES: dict[str, Callable[[str, dict[str, str]], SourceConnector]] = {}
"""Kinds that a program adds before it runs a peer: (what follows the colon, the options) gives the connector."""
MORE_SINKS: dict[str, Callable[[str, dict[str, str]], SinkConnector]] = {}


def parse_source(spec: str) -> SourceConnector:
    kind, rest, options = _parse(spec)
    if kind in MORE_SOURCES:
        return MORE_SOURCES[kind](rest, options)
    if kind in ("mqtt", "mqtts", "http", "https"):
        return _remote_source(spec, kind, options)
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
    if kind in MORE_SINKS:
        return MORE_SINKS[kind](rest, options)
    if kind in ("mqtt", "mqtts", "http", "https"):
        return _remote_sink(spec, kind, options)
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


def _remote_source(spec: str, kind: str, options: dict[str, str]) -> SourceConnector:
    wanted = options.pop("format", "jsonl")
    if wanted not in MESSAGE_FORMATS:
        raise AppError(f'source "{spec}": unknown format "{wanted}"; there is {", ".join(MESSAGE_FORMATS)}')
    client = options.pop("client", None) if kind.startswith("mqtt") else None
    if options:
        raise AppError(f'source "{spec}": unknown option "{next(iter(options))}"; write {SOURCE_HELP}')
    url = spec.partition("?")[0]
    try:
        if kind.startswith("mqtt"):
            from dataflow.connectors.mqtt import MqttSource
            from dataflow.connectors.mqtt_address import MqttAddress

            return MqttSource(MqttAddress.parse(url, client=client), wanted)
        if kind == "http":
            from dataflow.connectors.http_ingest import HttpSource

            host, port, path = http_parts(url)
            return HttpSource(host, port, path, wanted)
    except ValueError as error:
        raise AppError(f'source "{spec}" is not understood: {error}; write {SOURCE_HELP}') from error
    raise AppError(f'source "{spec}": put a proxy that speaks TLS in front, and write http://HOST:PORT/PATH here')


def _remote_sink(spec: str, kind: str, options: dict[str, str]) -> SinkConnector:
    try:
        if kind.startswith("http"):  # what follows the ? is the receiver's
            from dataflow.connectors.webhook import WebhookSink

            http_parts(spec)
            return WebhookSink(spec)
        from dataflow.connectors.mqtt import SINK_FORMATS, MqttSink
        from dataflow.connectors.mqtt_address import MqttAddress

        wanted = options.pop("format", "jsonl")
        client = options.pop("client", None)
        if wanted not in SINK_FORMATS:
            raise AppError(f'sink "{spec}": unknown format "{wanted}"; there is {", ".join(SINK_FORMATS)}')
        if options:
            raise AppError(f'sink "{spec}": unknown option "{next(iter(options))}"; write {SINK_HELP}')
        return MqttSink(MqttAddress.parse(spec.partition("?")[0], client=client), wanted)
    except ValueError as error:
        raise AppError(f'sink "{spec}" is not understood: {error}; write {SINK_HELP}') from error


def http_parts(url: str) -> tuple[str, int, str]:
    """Host, port and path; `ValueError` with the reason if it is no such address.

    >>> http_parts("http://127.0.0.1:8080/rows"), http_parts("https://host")
    (('127.0.0.1', 8080, '/rows'), ('host', 443, '/'))
    """
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("it names no host")
    port = parts.port if parts.port is not None else 443 if parts.scheme == "https" else 80
    return parts.hostname, port, parts.path or "/"


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
