"""What must be known to restore one snapshot of an instance, and nothing else.

A snapshot is a base and the deltas that build on it, in order; each may come in slices. Every part says under which
(generation, epoch, number) it was stored, in what shape it is coded, who holds which fragment and what each digest
is. So a delta's snapshot repeats the parts that it builds on: a manifest stands alone.

    [app, instance, generation, epoch, [part, ...]]      in msgpack

Bytes that are no manifest, or one that contradicts itself, are a `WireError`. Pure.
Rejected: a pointer to the snapshot before (a chain breaks at its weakest link, and trimming would have to follow it).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Final

import msgpack

from overlay.frames import Buffer
from overlay.ids import PeerId
from overlay.wire import U16, U32, U64, Name, WireError, WirePeers, listed, one_of, struct
from recovery.coding.coded import Shape
from recovery.naming import DIGEST, TOTAL_MAX, App, Digest, PartId, digest_of
from recovery.survival import losses_survived

PARTS_MAX: Final = 256
"""Whoever takes snapshots compacts long before; a gigabyte in slices of 16 MiB is 64 parts."""
MANIFEST_BYTES_MAX: Final = 1024 * 1024

PartKind = Annotated[str, one_of("base", "delta", "more")]
"""`more` is the next slice of the part before."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part, as it is stored. `size` is that of the sealed bytes."""

    generation: U64
    epoch: U64
    number: U32
    kind: PartKind
    size: U64
    needed: U16
    digest: Digest
    holders: WirePeers
    digests: Annotated[tuple[bytes, ...], listed(DIGEST, TOTAL_MAX)]

    @property
    def total(self) -> int:
        return len(self.holders)

    @property
    def shape(self) -> Shape:
        return Shape(self.size, self.needed, self.total, self.digest, self.digests)

    @property
    def place(self) -> tuple[int, int, int]:
        return (self.generation, self.epoch, self.number)

    def id_in(self, app: str, instance: str) -> PartId:
        return PartId(app, instance, self.generation, self.epoch, self.number)

    def losses_survived(self, gone: Collection[PeerId] = ()) -> int:
        """How many more holders may be lost at once, when those in `gone` are lost already; -1: it is lost now."""
        return losses_survived([it for it in self.holders if it not in gone], needed=self.needed)


def part_of(part: PartId, kind: PartKind, shape: Shape, holders: tuple[PeerId, ...]) -> Part:
    assert len(holders) == shape.total
    return Part(
        part.generation, part.epoch, part.number, kind, shape.size, shape.needed, shape.digest, holders, shape.digests
    )


@dataclass(frozen=True, slots=True)
class Manifest:
    app: App
    instance: Name
    generation: U64
    epoch: U64
    parts: Annotated[tuple[Part, ...], listed(struct(Part), PARTS_MAX)]

    def ids(self) -> Iterator[PartId]:
        for part in self.parts:
            yield part.id_in(self.app, self.instance)

    def whole_parts(self) -> list[tuple[Part, ...]]:
        """The base, then each delta; each with all its slices, in order."""
        wholes: list[list[Part]] = []
        for part in self.parts:
            if part.kind == "more":
                wholes[-1].append(part)
            else:
                wholes.append([part])
        return [tuple(it) for it in wholes]

    def holders(self) -> list[PeerId]:
        return sorted({peer for part in self.parts for peer in part.holders})

    def losses_survived(self, gone: Collection[PeerId] = ()) -> int:
        """A snapshot is as safe as its weakest part. One without parts has nothing to lose: also 0."""
        return min((part.losses_survived(gone) for part in self.parts), default=0)

    def with_part(self, part: Part) -> Manifest:
        """The same snapshot, with one part held by others."""
        assert part.place in {it.place for it in self.parts}
        return replace(self, parts=tuple(part if it.place == part.place else it for it in self.parts))

    def pack(self) -> bytes:
        raw: bytes = msgpack.packb(_MANIFEST.pack(self))
        return raw

    def digest(self) -> bytes:
        return digest_of(self.pack())


_MANIFEST: Final = struct(Manifest)


def unpack_manifest(raw: Buffer) -> Manifest:
    if len(raw) > MANIFEST_BYTES_MAX:
        raise WireError("bad-manifest", f"{len(raw)} bytes, at most {MANIFEST_BYTES_MAX}")
    try:
        value = msgpack.unpackb(
            raw,
            raw=False,
            max_array_len=PARTS_MAX,
            max_map_len=0,
            max_ext_len=0,
            max_str_len=256,
            max_bin_len=64,
        )
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise WireError("bad-manifest", str(error)[:80] or type(error).__name__) from None
    manifest = _MANIFEST.unpack(value)
    for problem in _contradictions(manifest):
        raise WireError("bad-manifest", problem)
    return manifest


def _contradictions(it: Manifest) -> Iterator[str]:
    places = [part.place for part in it.parts]
    if len(set(places)) < len(places):
        yield "one part twice"
    if it.parts and it.parts[0].kind != "base":
        yield f"it begins with a {it.parts[0].kind}, not with a base"
    if any(part.kind == "base" for part in it.parts[1:]):
        yield "two bases"
    for part in it.parts:
        if not 1 <= part.needed <= part.total or len(part.digests) != part.total:
            yield f"{part.needed} of {part.total} fragments with {len(part.digests)} digests"
        if (part.generation, part.epoch) > (it.generation, it.epoch):
            yield "a part that is later than the snapshot"
