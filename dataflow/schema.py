"""What columns a stream has: names and Arrow types, written as short strings.

    {"room": "string", "celsius": "float64", "at": "timestamp[ms]"}

A schema is checked once, when an operator is added; batches are then trusted inside and checked at the edge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from dataflow.errors import AppError, Place, did_you_mean

SchemaLike: TypeAlias = Mapping[str, str] | Any  # or a pa.Schema

SIMPLE_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "int": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "string": pa.string(),
    "str": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "date32": pa.date32(),
}
_TIMESTAMP = re.compile(r"timestamp(?:\[(s|ms|us|ns)(?:\s*,\s*(?:tz=)?([^\]]+))?\])?$")
_LIST = re.compile(r"list<(.+)>$")


def parse_type(text: str | pa.DataType, *, column: str, place: Place | None = None) -> pa.DataType:
    """The Arrow type of a short string.

    >>> parse_type("timestamp[ms, UTC]", column="at")
    TimestampType(timestamp[ms, tz=UTC])
    """
    if isinstance(text, pa.DataType):
        return text
    if not isinstance(text, str):
        raise AppError(f'column "{column}" has {text!r} where a type name is expected', place=place)
    if text in SIMPLE_TYPES:
        return SIMPLE_TYPES[text]
    if match := _TIMESTAMP.match(text):
        return pa.timestamp(match[1] or "us", tz=match[2])
    if match := _LIST.match(text):
        return pa.list_(parse_type(match[1], column=column, place=place))
    known = [*SIMPLE_TYPES, "timestamp[ms]", "timestamp[us]"]
    raise AppError(f'column "{column}" has unknown type "{text}"; {did_you_mean(text, known)}', place=place)


def parse_schema(schema: SchemaLike, *, place: Place | None = None) -> pa.Schema:
    """An Arrow schema from a mapping of names to types (or one that is already there)."""
    if isinstance(schema, pa.Schema):
        return schema
    if not isinstance(schema, Mapping) or not schema:
        raise AppError("a schema is a dict of column names to type names, with at least one column", place=place)
    return pa.schema([(name, parse_type(kind, column=name, place=place)) for name, kind in schema.items()])


def require_columns(schema: pa.Schema, names: tuple[str, ...], *, operator: str, place: Place) -> None:
    """Every name is a column of the schema, or an AppError that says which is not."""
    for name in names:
        if not isinstance(name, str):
            raise AppError(f"{operator}: {name!r} is not a column name", place=place)
        if name not in schema.names:
            raise AppError(f'{operator}: no column "{name}"; {did_you_mean(name, schema.names)}', place=place)


def schema_text(schema: pa.Schema) -> str:
    """One line for people: `room string, celsius float64`."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)
