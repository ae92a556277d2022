"""How bytewax gets its rows and gives them back: lists that are in memory already, handed over in large batches."""

from collections.abc import Sequence
from typing import Any

from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from bench.engines.serve import Request


class Partition(StatelessSourcePartition[Any]):
    def __init__(self, items: Sequence[Any], batch: int, request: Request) -> None:
        self._items = items
        self._batch = batch
        self._at = 0
        self._request = request

    def next_batch(self) -> Sequence[Any]:
        if self._at == 0:
            self._request.begin()
        if self._at >= len(self._items):
            raise StopIteration
        self._at += self._batch
        return self._items[self._at - self._batch : self._at]


class FromList(DynamicSource[Any]):
    def __init__(self, items: Sequence[Any], request: Request, *, batch: int) -> None:
        self._items = items
        self._request = request
        self._batch = batch

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Partition:
        return Partition(self._items, self._batch, self._request)


class KeepPartition(StatelessSinkPartition[Any]):
    def __init__(self, kept: list[Any]) -> None:
        self._kept = kept

    def write_batch(self, items: list[Any]) -> None:
        self._kept += items


class ToList(DynamicSink[Any]):
    def __init__(self, kept: list[Any]) -> None:
        self._kept = kept

    def build(self, step_id: str, worker_index: int, worker_count: int) -> KeepPartition:
        return KeepPartition(self._kept)
