"""A disk in memory that can be full, broken, or hit by a crash between two bytes of a promise."""

from recovery.disk import DiskError, DiskFull


class Crash(Exception):  # noqa: N818
    """The power is gone. What `put` promised before stays."""


class MemoryDisk:
    def __init__(self, bytes_max=10**9):
        self.files: dict[str, bytes] = {}
        self.bytes_max = bytes_max
        self.is_broken = False
        self.crash_at: str | None = None

    def put(self, name, data):
        self._try()
        if sum(map(len, self.files.values())) + len(data) > self.bytes_max:
            raise DiskFull(f"{name}: no space left; free some room or raise the quota")
        if self.crash_at == "before put":
            raise Crash
        self.files[name] = bytes(data)
        if self.crash_at == "after put":
            raise Crash

    def get(self, name):
        self._try()
        return self.files.get(name)

    def read(self, name, start, size):
        return self.files.get(name, b"")[start : start + size]

    def append(self, name, data):
        self.files[name] = self.files.get(name, b"") + bytes(data)

    def sync(self, name):
        self._try()

    def size(self, name):
        return len(self.files.get(name, b""))

    def truncate(self, name, size):
        self.files[name] = self.files[name][:size]

    def delete(self, name):
        self._try()
        if self.crash_at == "delete":
            raise Crash
        self.files.pop(name, None)

    def names(self, prefix=""):
        return sorted(it for it in self.files if it.startswith(prefix))

    def flip(self, name, at, bit=0):
        changed = bytearray(self.files[name])
        changed[at] ^= 1 << bit
        self.files[name] = bytes(changed)

    def _try(self):
        if self.is_broken:
            raise DiskError("input/output error; look after the disk, then start the peer again")
