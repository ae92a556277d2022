"""What a source has read, on the device, until the epoch that holds it is committed.

A connector cannot be asked again for a message that it has acknowledged. So what it brings is appended here first, and
a new generation of the app reads it from the committed offset on. Offsets count units (rows and letters) from the
start of the app's life at this source. An entry is a batch as opaque bytes with the number of its units; one with none
is a *mark* (idle, end), which has no width: reading from its offset gives it, whether it was written before or after
somebody noted that offset. So a mark must be harmless to hear twice.

    append   to the end: bytes as they are, no row is looked at
    sync     one fsync; what was appended before is there for good
    trim     whole files below an offset go
    open     again after a crash: a tail that was not synced may be torn, and is cut

Files (`segments`) begin when the one before is full *and synced*, so that only the last can be torn.

Promises: what was synced is read again, in order, or the log says that it is damaged; nothing else is ever read as if
it had been appended. A log that is full, or a disk that is, refuses an append and is as it was before: the source
waits until something was trimmed. After a failed `sync` nothing more is taken: the system may have dropped what it
could not write, and would not say so twice.
One thread appends and trims; another may sync meanwhile.

Not told apart: damage to what the very last `sync` covered, and a torn tail (no entry behind it says that it was
synced). A log that then ends before what was `committed` is refused.
Rejected: one file that is overwritten in a ring (a torn wrap cannot be told from damage); a file with the synced end
(two more fsyncs an epoch, for the one case above); an index of all entries (small entries would fill the memory).
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Final

from recovery.disk import Disk, DiskError, DiskFull
from recovery.source_log.entry import HEADER_BYTES, KIND_MAX, Buffer, Entry, Header
from recovery.source_log.segment import Found, Segment, bytes_of, synced_beyond, walk

LOG_BYTES_MAX: Final = 1 << 30
"""Some minutes of a fast sensor hub; what an app that cannot commit may cost the device."""
SEGMENT_BYTES: Final = 1 << 26
"""Small against the log, so that trimming gives room back soon; large against an entry."""
PARTS_MIN: Final = 4
"""A log holds at least so many segments: else the last, which is never trimmed, could fill it."""

_DIGITS: Final = 10


class LogFull(DiskFull):
    """The log has reached its bound: the source has to wait until an epoch is committed."""


class LogDamaged(DiskError):  # noqa: N818 (it says what is)
    """Something that should be in the log is not. The sentence says what, and the way out."""


class SourceLog:
    """
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from recovery.folder import Folder
    >>> log = SourceLog(Folder(Path(mkdtemp())), "attic")
    >>> log.append(0, 3, b"abc"), log.append(0, 2, b"de"), log.sync()
    (3, 5, 5)
    >>> [(entry.start, entry.skip, bytes(entry.payload)) for entry in log.read_from(1, bytes_max=1000)]
    [(0, 1, b'abc'), (3, 0, b'de')]
    """

    def __init__(
        self,
        disk: Disk,
        name: str,
        *,
        committed: int = 0,
        bytes_max: int = LOG_BYTES_MAX,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """`committed`: the offset of the last committed epoch. An empty log begins there; any other must hold it."""
        self.synced = committed
        self._disk = disk
        self._name = name
        self._bytes_max = bytes_max
        self._entry_bytes_max = bytes_max // PARTS_MIN
        self._segment_bytes = min(segment_bytes, self._entry_bytes_max)
        self._is_torn = False  # the last append left something behind the end
        self._is_ahead = False  # the end is ahead of what was synced
        self._failed: str | None = None
        self._segments: list[Segment] = []
        self._open(committed)
        if not self.first <= committed <= self.end:
            raise LogDamaged(
                f'the source log "{name}" holds {self.first} to {self.end}, but {committed} was committed; '
                "it is not the log of this source, or a part was lost. Remove its files to go on from there"
            )

    @property
    def first(self) -> int:
        """The lowest offset that can be read from."""
        return self._segments[0].start

    @property
    def end(self) -> int:
        return self._segments[-1].end

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def append(self, kind: int, count: int, payload: Buffer) -> int:
        """To the end, of which it gives the new offset; `LogFull` or `DiskFull` if the source has to wait."""
        assert 0 <= kind <= KIND_MAX
        size = HEADER_BYTES + len(payload)
        self._require_room(size)
        self._mend()
        active = self._segments[-1]
        if active.size and active.size + size > self._segment_bytes:
            self.sync()
            active = Segment(active.number + 1, self._file(active.number + 1), active.end, active.end)
            self._segments.append(active)
        header = Header(kind, len(payload), count, active.end, self.synced, zlib.crc32(payload))
        self._is_torn = True  # until all of it is there
        try:
            self._disk.append(active.name, header.pack())
            if len(payload):
                self._disk.append(active.name, memoryview(payload))
        except DiskError:
            with suppress(DiskError):  # else before the next append
                self._mend()
            raise
        self._is_torn = False
        active.note(active.size, header)
        self._is_ahead = True
        return active.end

    def sync(self) -> int:
        """Everything appended so far is there for good; gives the offset up to which that is so."""
        self._require_sound()
        active = self._segments[-1]
        end = active.end
        if self._is_ahead:
            self._is_ahead = False  # an append that comes meanwhile sets it again
            try:
                self._disk.sync(active.name)
            except DiskError as error:
                self._failed = str(error)
                raise
        self.synced = max(self.synced, end)
        return self.synced

    def read_from(self, offset: int, *, bytes_max: int) -> list[Entry]:
        """Entries from an offset on: as many as fit, at least one if there is any."""
        if not self.first <= offset <= self.end:
            raise LogDamaged(
                f'the source log "{self._name}" holds {self.first} to {self.end}; {offset} cannot be read again'
            )
        out: list[Entry] = []
        room = bytes_max
        for segment in [it for it in self._segments if it.reaches(offset)]:
            after = segment.place(offset)
            for found in walk(self._disk, segment.name, after, segment.size):
                after = found.after
                if not found.header.is_behind(offset):
                    continue
                if out and found.header.size > room:
                    return out
                out.append(self._entry(segment, found, offset))
                offset = found.header.end
                room -= found.header.size
            if after != segment.size:
                raise self._damage(segment, after)
        return out

    def trim(self, offset: int) -> None:
        """Nobody will read below this offset again. The newest file that is synced stays, whatever it holds."""
        while len(self._segments) > 1 and self._segments[1].start < self.synced:
            if self._segments[0].reaches(offset):
                return
            self._disk.delete(self._segments[0].name)
            del self._segments[0]

    def _entry(self, segment: Segment, found: Found, offset: int) -> Entry:
        header = found.header
        payload = bytes_of(self._disk, segment.name, found)
        if payload is None or header.start > offset:
            raise self._damage(segment, found.position)
        return Entry(header.kind, header.start, header.count, payload, max(0, offset - header.start))

    def _require_room(self, size: int) -> None:
        self._require_sound()
        if size > self._entry_bytes_max:
            raise DiskError(
                f'{size} bytes at once are too many for the source log "{self._name}" of {self._bytes_max}; '
                "let the connector give smaller batches, or give the log more room"
            )
        if self.size_bytes + size > self._bytes_max:
            raise LogFull(
                f'the source log "{self._name}" is full: {self.size_bytes} of {self._bytes_max} bytes wait for an '
                "epoch to be committed. The source waits; give the log more room if that happens often"
            )

    def _require_sound(self) -> None:
        if self._failed is not None:
            raise DiskError(self._failed)

    def _mend(self) -> None:
        """An append was cut short: cut off what it left."""
        active = self._segments[-1]
        if self._is_torn and self._disk.size(active.name) > active.size:
            self._disk.truncate(active.name, active.size)
        self._is_torn = False

    # -- opening --

    def _open(self, committed: int) -> None:
        numbers = self._numbers()
        for number in numbers:
            segment = Segment(number, self._file(number), committed, committed)
            if self._segments:
                segment.start = segment.end = self._segments[-1].end
            self._load(segment, is_last=number == numbers[-1])
            self._segments.append(segment)
        if not numbers:
            self._segments.append(Segment(1, self._file(1), committed, committed))
        active = self._segments[-1]
        if active.size:
            self._disk.sync(active.name)  # a process that died left it to the system to write
        self.synced = active.end

    def _numbers(self) -> list[int]:
        """The newest files in a row. What a trim had deleted may come back in a crash: it goes again."""
        numbers = [int(name[-_DIGITS:]) for name in _files(self._disk, self._name)]
        begin = len(numbers) - 1
        while begin > 0 and numbers[begin - 1] == numbers[begin] - 1:
            begin -= 1
        for number in numbers[: max(0, begin)]:
            self._disk.delete(self._file(number))
        return numbers[max(0, begin) :]

    def _load(self, segment: Segment, *, is_last: bool) -> None:
        size = self._disk.size(segment.name)
        for found in walk(self._disk, segment.name, 0, size):
            header = found.header
            if not segment.size and not self._segments:
                segment.start = segment.end = header.start
            # Only the last file can be torn; the bytes of the others are checked when they are read.
            if header.start != segment.end or (is_last and bytes_of(self._disk, segment.name, found) is None):
                break
            segment.note(found.position, header)
        if segment.size == size and (size or is_last):
            return
        if not is_last or synced_beyond(self._disk, segment.name, segment.size, size) > segment.end:
            raise self._damage(segment, segment.size)
        self._disk.truncate(segment.name, segment.size)

    def _file(self, number: int) -> str:
        return f"{self._name}.{number:0{_DIGITS}d}"

    def _damage(self, segment: Segment, position: int) -> LogDamaged:
        return LogDamaged(
            f'the source log "{self._name}" is damaged: {segment.name} has no sound entry at byte {position}, though '
            "there was one. Look after the disk; to go on from what is committed, without the rest, remove its files"
        )


def remove(disk: Disk, name: str) -> None:
    """The app is over, or its log is given up."""
    for file in _files(disk, name):
        disk.delete(file)


def _files(disk: Disk, name: str) -> list[str]:
    prefix = f"{name}."
    return [it for it in disk.names(prefix) if len(it) == len(prefix) + _DIGITS and it[-_DIGITS:].isdigit()]
