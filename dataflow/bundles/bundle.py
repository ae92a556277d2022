"""An app as it travels: source text, the local modules it imports, parameters, limits. Never a pickle.

    ["shoal-bundle", version, app file, [[file, source], ...], [[param, text], ...], [limits]]     in msgpack

The sha256 of these bytes is the app's id: whoever launches the same source with the same parameters launches the
same app, so a repeated launch is recognised by anybody. One bundle therefore has one form: files and parameters
are sorted, and bytes that would be written differently are refused.

Pure: bytes in, a value out; nothing is compiled here. Whatever is wrong with foreign bytes is a `BundleError`.
Rejected: a zip (two zips of the same files differ, and a small one may unpack to gigabytes); pickled functions (they
run code while they are read); data files beside the app (they belong behind a source, where they can change).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

import msgpack

from dataflow.bundles.limits import Limits
from dataflow.errors import AppError

BUNDLE_BYTES_MAX: Final = 4 << 20
"""An app is text that people wrote; four MiB is a hundred thousand lines, and a quarter of one frame's body."""
FILES_MAX: Final = 256
PARAMS_MAX: Final = 256
TEXT_CHARS_MAX: Final = 4096
"""Of a parameter, or of a file's name."""

_MAGIC = "shoal-bundle"
_VERSION = 1
_FILE = re.compile(r"(?:[^\W\d]\w*/)*[^\W\d]\w*\.py")
_APP_FILE = re.compile(r"[^/\\\0]+\.py")


class BundleError(AppError):
    """Bytes that are no bundle, or a bundle that is too large."""


@dataclass(frozen=True)
class Bundle:
    """
    >>> bundle = Bundle("hot.py", {"hot.py": "app = ..."}, params={"limit": "30"})
    >>> unpack(bundle.packed) == bundle, bundle.id == unpack(bundle.packed).id, len(bundle.id)
    (True, True, 64)
    """

    app_file: str
    """Where `app` is. It stands in the folder that all file names begin from."""
    files: Mapping[str, str]
    """Source text by name: hot.py, riot/table.py."""
    params: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for name in ("files", "params"):
            object.__setattr__(self, name, MappingProxyType(dict(sorted(getattr(self, name).items()))))
        _check_shape(self)

    def __hash__(self) -> int:
        return hash(self.id)

    @cached_property
    def packed(self) -> bytes:
        """The one form of it; `BundleError` if that is too long."""
        pairs = [[list(it) for it in mapping.items()] for mapping in (self.files, self.params)]
        try:
            raw = bytes(msgpack.packb([_MAGIC, _VERSION, self.app_file, *pairs, self.limits.pack()]))
        except UnicodeEncodeError as error:
            raise BundleError("a file or parameter of the app is not text that UTF-8 can write") from error
        if len(raw) > BUNDLE_BYTES_MAX:
            largest = max(self.files, key=lambda it: len(self.files[it]))
            raise BundleError(
                f"the app is {len(raw):,} bytes of source; a bundle holds {BUNDLE_BYTES_MAX:,} (the largest file is "
                f"{largest}). Put data behind a source or a table instead of into the source"
            )
        return raw

    @cached_property
    def id(self) -> str:
        """The app's id, in hex."""
        return sha256(self.packed).hexdigest()

    @property
    def hash(self) -> bytes:
        return bytes.fromhex(self.id)


def unpack(raw: bytes) -> Bundle:
    """The bundle in these bytes, or a `BundleError`."""
    if len(raw) > BUNDLE_BYTES_MAX:
        raise BundleError(f"a bundle of {len(raw):,} bytes; at most {BUNDLE_BYTES_MAX:,} are taken")
    try:
        made = msgpack.unpackb(raw, use_list=True, strict_map_key=True, max_map_len=0, max_ext_len=0, max_bin_len=0)
    except Exception as error:  # a parser of foreign bytes has many ways to say no
        raise BundleError(f"not a bundle: its bytes cannot be read ({type(error).__name__})") from None
    if type(made) is not list or len(made) != 6 or made[0] != _MAGIC:
        raise BundleError("not a bundle: its bytes are something else")
    _, version, app_file, files, params, limits = made
    if version != _VERSION:
        raise BundleError(f"a bundle of format {version!r}, but this peer reads {_VERSION}: update the older side")
    try:
        bundle = Bundle(_text(app_file), _pairs(files), _pairs(params), Limits.unpack(limits))
    except ValueError as error:
        raise BundleError(f"not a bundle: {error}") from None
    if bundle.packed != raw:
        raise BundleError("not a bundle: it is not written in the one form that bundles have")
    return bundle


def _check_shape(bundle: Bundle) -> None:
    if bundle.app_file not in bundle.files:
        raise BundleError(f"the bundle names {bundle.app_file[:80]!r} as its app, but has no such file")
    if not _APP_FILE.fullmatch(bundle.app_file):
        raise BundleError(f"{bundle.app_file[:80]!r} is not the name of a Python file")
    for what, count, most in (("files", len(bundle.files), FILES_MAX), ("params", len(bundle.params), PARAMS_MAX)):
        if count > most:
            raise BundleError(f"the app has {count} {what}; a bundle holds {most}")
    for name in bundle.files:
        if (name != bundle.app_file and not _FILE.fullmatch(name)) or len(name) > TEXT_CHARS_MAX:
            raise BundleError(f"{name[:80]!r} is not the name of a module's file, such as rooms.py or rooms/table.py")
    for name, value in bundle.params.items():
        if max(len(name), len(value)) > TEXT_CHARS_MAX:
            raise BundleError(f"param {name[:80]!r} is longer than {TEXT_CHARS_MAX} characters")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{type(value).__name__} where text is expected")
    return value


def _pairs(value: Any) -> dict[str, str]:
    if type(value) is not list or any(type(it) is not list or len(it) != 2 for it in value):
        raise ValueError("pairs of texts are expected")
    return {_text(name): _text(text) for name, text in value}
