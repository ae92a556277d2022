"""Keep other peers' fragments, within a quota, and give a receipt only for what is on disk.

    answer   a question comes in: the reply, or what the disk shall do first (`Store`, `Load`, `Delete`)
    stored, loaded, deleted   the disk has done it, or not: the reply

A receipt is a promise: it leaves only after `Disk.put` has returned. One name holds one fragment for ever: the same
again is receipted again, another under the same name is refused. What is read back is checked against its digest
before it is sent; what is damaged is reported, does not count, and makes room for the same fragment, written anew.

Drops name what must stay (release.py) and are forgotten at once. Files whose deletion a crash cut short are found
again after the restart, count towards the quota, and fall to the next drop. Any admitted peer may ask anything: who
may be on the ring is the certificate's business, and fragments are sealed.

Pure: the index is here, the bytes are the shell's. `serve` is the whole of it on a blocking disk, for one thread
and for the simulator. Rejected: one call that blocks (a slow disk would hold up the answers that need none).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from overlay.frames import Buffer
from recovery.coding.slices import FRAGMENT_BYTES_MAX
from recovery.custody.files import (
    HEADER_BYTES_MAX,
    PREFIX,
    Damaged,
    file_name,
    file_of,
    file_prefix,
    header_of,
    read_file,
    read_header,
)
from recovery.custody.messages import (
    LATEST,
    PAGE_MAX,
    DropFragments,
    Dropped,
    Fragment,
    Fragments,
    GetFragment,
    Held,
    Kept,
    ListFragments,
    NoFragment,
    Place,
    PutFragment,
    Refused,
    Reply,
    Request,
    sentence_of,
)
from recovery.disk import Disk, DiskError
from recovery.naming import FragmentId, digest_of

FRAGMENTS_MAX: Final = 65_536
"""Fragments that one peer keeps, however small: each is a file and a line in the index."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply, and the bytes that go along."""

    reply: Reply
    body: Buffer = b""


@dataclass(frozen=True, slots=True)
class Store:
    """Put `data` on the disk as `name`, then call `stored`."""

    ask: int
    held: Held
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Load:
    """Get `name` from the disk, then call `loaded`."""

    ask: int
    held: Held
    name: str
    is_probe: bool


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete these from the disk, then call `deleted`."""

    ask: int
    names: tuple[str, ...]
    fragments: int


class Holder:
    def __init__(self, *, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._held: dict[FragmentId, Held] = {}
        self._by_instance: dict[tuple[str, str], set[FragmentId]] = {}
        self._bytes_held = 0
        self._storing: dict[FragmentId, Store] = {}
        self._deleting: set[str] = set()
        self._damaged: dict[str, tuple[str, int]] = {}

    # What a person may want to know.

    @property
    def bytes_used(self) -> int:
        """Headers too, what is being written, and what is damaged: a quota is about the disk."""
        damaged = sum(size for _, size in self._damaged.values())
        return self._bytes_held + damaged + sum(len(it.data) for it in self._storing.values())

    @property
    def damaged(self) -> dict[str, str]:
        """Files that do not hold what they should, with the reason. They stay until they are written anew."""
        return {name: reason for name, (reason, _) in self._damaged.items()}

    def apps(self) -> list[str]:
        """Apps of which something is kept: whoever knows that one has ended may drop it."""
        return sorted({app for app, _ in self._by_instance})

    # After a restart.

    def found(self, name: str, start: bytes, size: int) -> None:
        """A file was there, with these first bytes and this size. Its fragment is checked when it is asked for."""
        try:
            header = read_header(start)
            if header.file_bytes != size:
                raise Damaged(f"it has {size} bytes where {header.file_bytes} were written")
            if file_name(header.held.fragment) != name:
                raise Damaged(f"it holds the {header.held.fragment}")
        except Damaged as damage:
            self._damaged[name] = (str(damage), size)
        else:
            self._add(header.held)

    # Questions.

    def answer(self, request: Request, body: Buffer = b"") -> Answer | Store | Load | Delete:
        if isinstance(request, PutFragment):
            return self._put(request, body)
        if isinstance(request, GetFragment):
            held = self._held.get(request.fragment)
            if held is None:
                return Answer(NoFragment(request.ask, "it was never kept here, or was dropped"))
            return Load(request.ask, held, file_name(request.fragment), request.is_probe)
        if isinstance(request, DropFragments):
            return self._drop(request)
        return self._list(request)

    def _put(self, request: PutFragment, body: Buffer) -> Answer | Store:
        held = Held(request.fragment, len(body), request.digest)
        known = self._held.get(request.fragment)
        if digest_of(body) != request.digest:
            return self._refuse(request, "the fragment was changed on its way; send it again")
        if known is not None and known != held:
            return self._refuse(request, "another fragment is kept under this name, and stays")
        if known is not None:
            return Answer(Kept(request.ask, known.digest))
        if len(body) > FRAGMENT_BYTES_MAX:
            return self._refuse(request, f"{len(body)} bytes, and a fragment has at most {FRAGMENT_BYTES_MAX}")
        if request.fragment in self._storing or file_name(request.fragment) in self._deleting:
            return self._refuse(request, "a fragment of this name is just being written or deleted; ask again")
        if len(self._held) + len(self._storing) >= FRAGMENTS_MAX:
            return self._refuse(request, f"{FRAGMENTS_MAX} fragments are kept already")
        data = file_of(held, body)
        if self.bytes_used + len(data) > self.bytes_max:
            left = self.bytes_max - self.bytes_used
            return self._refuse(request, f"the quota of {self.bytes_max} bytes leaves {left}, {len(data)} are needed")
        store = self._storing[request.fragment] = Store(request.ask, held, file_name(request.fragment), data)
        return store

    def stored(self, store: Store, problem: DiskError | None = None) -> Answer:
        """`Disk.put` has returned, or raised."""
        self._storing.pop(store.held.fragment, None)
        if problem is not None:
            return Answer(Refused(store.ask, sentence_of(str(problem))))
        self._add(store.held)
        self._damaged.pop(store.name, None)
        return Answer(Kept(store.ask, store.held.digest))

    def loaded(self, load: Load, data: bytes | None, problem: DiskError | None = None) -> Answer:
        """`Disk.get` has returned, or raised. Hashes the fragment."""
        fragment = load.held.fragment
        if self._held.get(fragment) is not load.held:
            return Answer(Refused(load.ask, "it was dropped or written while it was read; ask again"))
        if problem is not None:  # it may be readable again tomorrow
            return Answer(Refused(load.ask, sentence_of(str(problem))))
        try:
            if data is None:
                raise Damaged("it is gone")
            body = read_file(data, fragment)
        except Damaged as damage:
            self._remove(fragment)
            self._damaged[load.name] = (str(damage), len(data or b""))
            return Answer(NoFragment(load.ask, sentence_of(f"its file is damaged: {damage}")))
        reply = Fragment(load.ask, load.held.digest)
        return Answer(reply) if load.is_probe else Answer(reply, body)

    def deleted(self, step: Delete) -> Answer:
        """They are gone; what could not be deleted is found again after a restart."""
        self._deleting.difference_update(step.names)
        return Answer(Dropped(step.ask, step.fragments))

    def _drop(self, request: DropFragments) -> Delete:
        floor = (request.generation, request.epoch)
        keep = set(request.keep)
        gone = [
            it
            for it in self._of(request.app, request.instance)
            if (it.generation, it.epoch) < floor and Place(it.generation, it.epoch, it.number) not in keep
        ]
        for it in gone:
            self._remove(it)
        names = {file_name(it) for it in gone}
        if not request.instance and floor == (LATEST, LATEST):
            wrecks = [name for name in self._damaged if name.startswith(file_prefix(request.app))]
            names.update(wrecks)
            for name in wrecks:
                del self._damaged[name]
        self._deleting |= names
        return Delete(request.ask, tuple(sorted(names)), len(gone))

    def _list(self, request: ListFragments) -> Answer:
        mine = sorted(self._of(request.app))
        page = mine[request.skip : request.skip + PAGE_MAX]
        is_more = request.skip + PAGE_MAX < len(mine)
        held = tuple(self._held[it] for it in page)
        return Answer(Fragments(request.ask, held, is_more, self.bytes_used, self.bytes_max))

    def _of(self, app: str, instance: str = "") -> list[FragmentId]:
        """Those of one instance, or of all."""
        if instance:
            return list(self._by_instance.get((app, instance), ()))
        return [it for (of_app, _), its in self._by_instance.items() if of_app == app for it in its]

    def _refuse(self, request: PutFragment, reason: str) -> Answer:
        return Answer(Refused(request.ask, sentence_of(reason)))

    def _add(self, held: Held) -> None:
        if held.fragment not in self._held:
            self._bytes_held += len(header_of(held)) + held.size
        self._held[held.fragment] = held
        self._by_instance.setdefault((held.fragment.app, held.fragment.instance), set()).add(held.fragment)

    def _remove(self, fragment: FragmentId) -> None:
        held = self._held.pop(fragment)
        theirs = self._by_instance[(fragment.app, fragment.instance)]
        theirs.discard(fragment)
        if not theirs:
            del self._by_instance[(fragment.app, fragment.instance)]
        self._bytes_held -= len(header_of(held)) + held.size


def open_holder(disk: Disk, *, bytes_max: int) -> Holder:
    """The holder that was here before the restart. Blocks: it reads the header of every file."""
    holder = Holder(bytes_max=bytes_max)
    for name in disk.names(PREFIX):
        holder.found(name, disk.read(name, 0, HEADER_BYTES_MAX), disk.size(name))
    return holder


def serve(holder: Holder, disk: Disk, request: Request, body: Buffer = b"") -> tuple[Reply, Buffer]:
    """Answer one question on a disk that blocks."""
    step = holder.answer(request, body)
    answer = step if isinstance(step, Answer) else carry_out(holder, disk, step)
    return answer.reply, answer.body


def carry_out(holder: Holder, disk: Disk, step: Store | Load | Delete) -> Answer:
    problem: DiskError | None = None
    data: bytes | None = None
    try:
        if isinstance(step, Store):
            disk.put(step.name, step.data)
        elif isinstance(step, Load):
            data = disk.get(step.name)
        else:
            for name in step.names:
                disk.delete(name)
    except DiskError as error:
        problem = error
    if isinstance(step, Store):
        return holder.stored(step, problem)
    return holder.loaded(step, data, problem) if isinstance(step, Load) else holder.deleted(step)
