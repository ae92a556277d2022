"""One running copy of an operator, with its inputs: alignment of tokens, merging of watermarks, ends.

A token is held until every live input has brought it; what comes behind it on its own input waits. Then the
token goes out, and the host may snapshot before it calls `release`. A later epoch subsumes an unfinished one.
The watermark is the lowest of all inputs that are neither idle nor ended.

On peers an input may have several channels, one from each copy of the stage that writes it. To marks, a channel is an
input like any other; the operator sees only which of its own inputs the rows belong to.

What an instance knows beside its operator's state are its *marks*: how far each channel has come, who is idle or has
ended, what was said downstream. A restored instance takes them over, so that it neither repeats a watermark nor
waits for an input that has ended.

Pure: messages in, messages out. `waiting` tells the host which inputs not to read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import cast

import msgpack
import numpy as np

from dataflow.behind import Behind
from dataflow.errors import AppError
from dataflow.messages import TIME_MAX_US, TIME_MIN_US, Data, End, Idle, Message, Token, Watermark, in_turn
from dataflow.operators.base import Operator, Output

MARKS_FORMAT = 1
_Channel = tuple[int, int, bool, bool]  # its input, watermark, idle, ended


class Instance:
    def __init__(self, operator: Operator, channels: int | Sequence[int], ports: int) -> None:
        """`channels`: how many inputs there are, or, for each channel, the input of the operator that it belongs to."""
        self.operator = operator
        self._input_of = tuple(range(channels)) if isinstance(channels, int) else tuple(channels)
        inputs = len(self._input_of)
        self._ports = range(ports)
        self._watermark_us = [TIME_MIN_US] * inputs
        self._idle = [False] * inputs
        self._ended = [False] * inputs
        self._token: list[int | None] = [None] * inputs
        self._held: list[deque[Message]] = [deque() for _ in range(inputs)]
        self._sent_us = TIME_MIN_US
        self._aligned: int | None = None
        self._said_idle = False
        self.is_short = False
        """Is a writer of ours away, who will come back with more? Then the end of the others is not ours."""

    @property
    def waiting(self) -> set[int]:
        """Inputs whose token is here while others' are not."""
        return {at for at, token in enumerate(self._token) if token is not None}

    def is_waiting(self, channel: int) -> bool:
        return self._token[channel] is not None

    @property
    def ended(self) -> bool:
        return all(self._ended) and not self.is_short

    def marks(self) -> bytes:
        """For a snapshot: at an aligned token, before `release`, or after the end. What is held lies behind it."""
        channels = zip(self._input_of, self._watermark_us, self._idle, self._ended, strict=True)
        return cast(bytes, msgpack.packb([MARKS_FORMAT, self._sent_us, self._said_idle, list(channels)]))

    def restore_marks(self, packed: bytes) -> None:
        """Into an instance that is new. If its inputs have other channels than before, each begins with the least that
        was known of any channel of its input: that may hold a watermark up, and is never wrong."""
        try:
            version, sent_us, said_idle, channels = msgpack.unpackb(packed)
            if version != MARKS_FORMAT:
                raise ValueError(f"format {version}")
            before = [(int(at), int(us), bool(idle), bool(ended)) for at, us, idle, ended in channels]
            self._sent_us, self._said_idle = int(sent_us), bool(said_idle)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise AppError(f"these bytes are not the marks of an instance: {error}") from error
        if tuple(at for at, *_ in before) != self._input_of:
            before = [_least(at, before) for at in self._input_of]
        self._watermark_us = [us for _, us, _, _ in before]
        self._idle = [idle for _, _, idle, _ in before]
        self._ended = [ended for _, _, _, ended in before]

    @property
    def watermark_us(self) -> int | None:
        """How far event time has come here: None before the first watermark, and when all input has ended."""
        return self._sent_us if TIME_MIN_US < self._sent_us < TIME_MAX_US else None

    def mark_ended(self, channel: int) -> None:
        """Of one that is restored: its writer has ended, though our marks may be from a time when it was not there."""
        self._ended[channel] = True

    def feed(self, source: int, message: Message) -> list[Output]:
        """Take one message of one input; give what follows from it."""
        if self._token[source] is not None:
            self._held[source].append(message)
            return []
        return self._take(source, message)

    def release(self) -> list[Output]:
        """After a token has gone out (and the host has snapshotted): go on with what was held."""
        if self._aligned is None:
            return []
        self._aligned = None
        self._token = [None] * len(self._token)
        return self._drain()

    def _drain(self) -> list[Output]:
        out: list[Output] = []
        for source, held in enumerate(self._held):
            while held and self._token[source] is None and self._aligned is None:
                out += self._take(source, held.popleft())
        return out

    def _take(self, source: int, message: Message) -> list[Output]:
        if isinstance(message, Data):
            self._idle[source] = False
            self._said_idle = False
            return self._rows(source, message)
        if isinstance(message, Watermark):
            self._idle[source] = False
            self._said_idle = False
            self._watermark_us[source] = max(self._watermark_us[source], message.time_us)
            return self._advance()
        if isinstance(message, Idle):
            self._idle[source] = True
            return self._rest()
        if isinstance(message, Token):
            self._token[source] = message.epoch
            return self._align()
        return self._end(source)

    def _rows(self, source: int, data: Data) -> list[Output]:
        if not data.batch.num_rows:
            return []
        if data.behind is None:
            return self.operator.on_batch(self._input_of[source], data.batch)
        at = self._input_of[source]
        behind = self._among_inputs(at, data.behind)
        if self.operator.carries_behind:
            return self.operator.carry(at, data.batch, behind)
        out, batch, torn = self.operator.settle(at, data.batch, behind)
        while torn and self.operator.settles_again:
            row, watermark_us = torn.cuts()[0]
            out += self._take(source, Data(batch.slice(0, row)))
            out += self._take(source, Watermark(watermark_us))
            batch, torn = batch.slice(row), torn.after_cut(row, watermark_us)
            if torn:
                more, batch, torn = self.operator.settle(at, batch, torn)
                out += more
        for message in in_turn(Data(batch, torn)):
            out += self._take(source, message)
        return out

    def _among_inputs(self, at: int, behind: Behind) -> Behind:
        """Rows of one input are behind only as far as the other inputs have come, too."""
        others = [
            us
            for us, idle, ended, other in zip(self._watermark_us, self._idle, self._ended, self._input_of, strict=True)
            if other != at and not (idle or ended)
        ]
        return Behind(behind.rows, np.minimum(behind.watermarks_us, min(others))) if others else behind

    def _advance(self) -> list[Output]:
        active = [
            us
            for us, idle, ended in zip(self._watermark_us, self._idle, self._ended, strict=True)
            if not (idle or ended)
        ]
        if not active:
            return []
        return self._forward(min(active))

    def _forward(self, watermark_us: int) -> list[Output]:
        if watermark_us <= self._sent_us:
            return []
        self._sent_us = watermark_us
        out = self.operator.on_watermark(watermark_us)
        held_us = self.operator.held_watermark(watermark_us) if watermark_us < TIME_MAX_US else watermark_us
        return [*out, *self._to_all(Watermark(held_us))]

    def _rest(self) -> list[Output]:
        out = self._advance()
        quiet = all(idle or ended for idle, ended in zip(self._idle, self._ended, strict=True))
        if quiet and not self._said_idle and not self.ended:
            self._said_idle = True
            out += self._to_all(Idle())
        return out

    def _align(self) -> list[Output]:
        epoch = max(token for token in self._token if token is not None)
        for source, token in enumerate(self._token):
            if token is not None and token < epoch:
                self._token[source] = None  # subsumed: read on to the later token
        ready = all(ended or token == epoch for token, ended in zip(self._token, self._ended, strict=True))
        if not ready:
            return self._drain()
        self._aligned = epoch
        return self._to_all(Token(epoch))

    def _end(self, source: int) -> list[Output]:
        if self._ended[source]:
            return []  # a source that rewinds may say so again
        self._ended[source] = True
        if self.ended:
            out = self._forward(TIME_MAX_US)
            return [*out, *self._to_all(End())]
        out = self._rest()
        if any(token is not None for token in self._token):
            out += self._align()
        return out

    def _to_all(self, message: Message) -> list[Output]:
        return [(port, message) for port in self._ports]


def _least(at: int, channels: Sequence[_Channel]) -> _Channel:
    same = [channel for channel in channels if channel[0] == at]
    if not same:
        return at, TIME_MIN_US, False, False
    ended = all(channel[3] for channel in same)
    open_ = [channel for channel in same if ended or not channel[3]]
    return at, min(us for _, us, _, _ in open_), all(idle for _, _, idle, _ in open_), ended
