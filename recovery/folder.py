"""The disk of a device: one folder, with fsync wherever a promise needs one.

`put` writes beside the file, syncs, renames over it and syncs the folder, so that after a crash either the old or
the new content is there. What a crash left beside is cleared away when the folder is opened.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from recovery.disk import DiskError, DiskFull

_HALF: Final = ".half"
_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT}
F = TypeVar("F", bound=Callable[..., Any])


def _told(method: F) -> F:
    """Turn what the system says into a sentence."""

    @wraps(method)
    def wrapped(self: Folder, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except OSError as error:
            what = f"{self.path / str(arguments[0]) if arguments else self.path}: {error.strerror or error}"
            if error.errno in _NO_ROOM:
                raise DiskFull(f"{what}; free some room or raise the quota") from None
            raise DiskError(f"{what}; look after the disk, then start the peer again") from None

    return cast(F, wrapped)


class Folder:
    """
    >>> from tempfile import mkdtemp
    >>> folder = Folder(Path(mkdtemp()) / "state")
    >>> folder.put("a", b"one"); folder.put("a", b"two"); folder.append("log", b"x"); folder.sync("log")
    >>> folder.get("a"), folder.get("b"), folder.names(), folder.read("a", 1, 9)
    (b'two', None, ['a', 'log'], b'wo')
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open()

    @_told
    def _open(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        for half in self.path.glob(f"*{_HALF}"):
            half.unlink()

    @_told
    def put(self, name: str, data: bytes | memoryview) -> None:
        half = self.path / (name + _HALF)
        try:
            with half.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            half.replace(self.path / name)
        except OSError:
            half.unlink(missing_ok=True)
            raise
        self._sync_folder()

    @_told
    def get(self, name: str) -> bytes | None:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    @_told
    def read(self, name: str, start: int, size: int) -> bytes:
        try:
            with (self.path / name).open("rb") as file:
                file.seek(start)
                return file.read(size)
        except FileNotFoundError:
            return b""

    @_told
    def append(self, name: str, data: bytes | memoryview) -> None:
        is_new = not (self.path / name).exists()
        with (self.path / name).open("ab") as file:
            file.write(data)
        if is_new:
            self._sync_folder()

    @_told
    def sync(self, name: str) -> None:
        with (self.path / name).open("rb") as file:
            os.fsync(file.fileno())

    @_told
    def size(self, name: str) -> int:
        try:
            return (self.path / name).stat().st_size
        except FileNotFoundError:
            return 0

    @_told
    def truncate(self, name: str, size: int) -> None:
        with (self.path / name).open("r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    @_told
    def delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    @_told
    def names(self, prefix: str = "") -> list[str]:
        found = (it.name for it in self.path.iterdir() if it.name.startswith(prefix))
        return sorted(name for name in found if not name.endswith(_HALF))

    def _sync_folder(self) -> None:
        handle = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
