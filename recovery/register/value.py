"""What a register keeps: opaque bytes, and a header that makes changing them safe.

The header counts the changes and carries the marks of the latest ones. A proposal that was outvoted cannot know whether
its write was taken up by somebody else; it finds its own mark, or not, in what it reads next. So a change is applied
once, and a refusal is never our own success in disguise.

A value whose header names a next config is *sealed*: the last of its config, and the first of the next.

Rejected: asking every change to recognise its own result (forgotten once, it doubles an epoch); all marks for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Annotated, Final

from overlay.wire import U64, blob, listed, optional, struct, uint
from recovery.register.config import Config

MARKS_MAX: Final = 64
"""So many changes of others may pass before a proposal that lost contact can no longer tell: a minute of epochs."""
CONTENT_BYTES_MAX: Final = 4 * 1024 * 1024
"""A record of an app is some kilobytes, of a thousand instances a megabyte; every member stores it at every change."""
DIGEST_BYTES: Final = 16


class ContentTooLarge(ValueError):  # noqa: N818 (it says what is)
    def __init__(self, size: int) -> None:
        super().__init__(f"a register keeps {CONTENT_BYTES_MAX} bytes at most, not {size}: keep a digest instead")


@dataclass(frozen=True, slots=True)
class Header:
    """`size`: None as long as nothing was written."""

    version: U64
    marks: Annotated[tuple[int, ...], listed(uint(64), MARKS_MAX)]
    next: Annotated[Config | None, optional(struct(Config))]
    size: Annotated[int | None, optional(uint(32))]
    digest: Annotated[bytes, blob(DIGEST_BYTES)]


@dataclass(frozen=True, slots=True)
class Value:
    """
    >>> value = EMPTY.changed(b"a", mark=7).changed(b"b", mark=8)
    >>> EMPTY.content, value.content, value.header.version, value.is_marked(7)
    (None, b'b', 2, True)
    """

    header: Header
    content: bytes | None

    @property
    def body(self) -> bytes:
        """The content, as it travels beside the header."""
        return self.content or b""

    def is_marked(self, mark: int) -> bool:
        return mark in self.header.marks

    def changed(self, content: bytes, *, mark: int) -> Value:
        if len(content) > CONTENT_BYTES_MAX:
            raise ContentTooLarge(len(content))
        header = self._marked(mark)
        return Value(replace(header, size=len(content), digest=digest_of(content)), content)

    def sealed(self, next_config: Config, *, mark: int) -> Value:
        """The same content, for the last time in this config."""
        return Value(replace(self._marked(mark), next=next_config), self.content)

    def opened(self) -> Value:
        """What the next config starts with."""
        return Value(replace(self.header, next=None), self.content)

    def _marked(self, mark: int) -> Header:
        marks = (*self.header.marks, mark)[-MARKS_MAX:]
        return replace(self.header, version=self.header.version + 1, marks=marks)


def digest_of(content: bytes | bytearray | memoryview) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES, person=b"shoal-register").digest()


def value_of(header: Header, body: bytes | bytearray | memoryview) -> Value | None:
    """Header and body together again; None if they do not belong together."""
    if len(body) != (header.size or 0) or digest_of(body) != header.digest:
        return None
    return Value(header, None if header.size is None else bytes(body))


EMPTY: Final = Value(Header(0, (), None, None, digest_of(b"")), None)
