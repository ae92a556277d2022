"""Speak to the peer that runs on this machine.

One question, one answer, one connection, over a Unix socket that only its owner can open. Both are JSON
with a length of four bytes in front:

    {"verb": "route", "arguments": {"key": "alerts"}}
    {"ok": true, "result": ...}  or  {"ok": false, "error": ..., "way_out": ...}

This is the asking side, on the standard library alone, so that `peer status` starts fast; `control_trio.py`
answers. Rejected: HTTP (a parser on a socket for one local user), and the peers' own TLS port (a person at
the device needs no certificate to look at it).
"""

import json
import socket
from pathlib import Path
from typing import Any, Protocol

from peer.complaint import Complaint, about_file
from peer.places import control_socket

LENGTH_BYTES = 4
QUESTION_BYTES_MAX = 8 * 1024 * 1024
"""A question is a verb and a few flags; the largest is the bundle of an app, in base64."""
ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""An answer lists at most some thousand peers."""
SOCKET_PATH_BYTES_MAX = 107
"""What a Unix address can hold, on Linux, without its closing zero."""
PATIENCE_S = 5.0
"""A healthy peer answers within milliseconds, a busy one within a second."""


def pack(value: Any, *, bytes_max: int) -> bytes:
    """
    >>> pack({"ok": True}, bytes_max=100)
    b'\\x00\\x00\\x00\\x0b{"ok":true}'
    """
    body = json.dumps(value, separators=(",", ":")).encode()
    if len(body) > bytes_max:
        raise ValueError(f"{len(body)} bytes, at most {bytes_max}")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def length_of(head: bytes, *, bytes_max: int) -> int:
    """How many bytes follow: checked before a single one of them is read."""
    length = int.from_bytes(head, "big")
    if len(head) != LENGTH_BYTES or length > bytes_max:
        raise ValueError(f"{length} bytes announced, at most {bytes_max}")
    return length


def unpack(body: bytes) -> dict[str, Any]:
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {type(value).__name__}")
    return value


class Distant(Protocol):
    """A peer on another machine: `far.py`."""

    def ask(self, verb: str, *, patience_s: float, arguments: dict[str, Any]) -> Any: ...


Where = Path | Distant
"""Whom to ask: the peer that runs with its data in a folder, or one that is far."""


def ask(where: Where, verb: str, *, patience_s: float = PATIENCE_S, **arguments: Any) -> Any:
    """The running peer's answer; a `Complaint` if there is no such peer, or if it says no."""
    if isinstance(where, Path):
        answer = _ask_here(where, verb, patience_s, arguments)
    else:
        answer = where.ask(verb, patience_s=patience_s, arguments=arguments)
    if not answer.get("ok"):
        raise Complaint(
            str(answer.get("error", "The peer refused.")), str(answer.get("way_out", "See its log."))
        )
    return answer.get("result")


def _ask_here(data: Path, verb: str, patience_s: float, arguments: dict[str, Any]) -> dict[str, Any]:
    path = control_socket(data)
    check_length(path)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(patience_s)
            stream.connect(str(path))
            stream.sendall(pack({"verb": verb, "arguments": arguments}, bytes_max=QUESTION_BYTES_MAX))
            head = receive(stream, LENGTH_BYTES)
            return unpack(receive(stream, length_of(head, bytes_max=ANSWER_BYTES_MAX)))
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        raise Complaint(
            f"No peer is running with its data in {data}.",
            f"Start one with: peer run --data {data}   (or name another folder with --data).",
        ) from None
    except PermissionError as error:
        raise about_file(error, path) from None
    except TimeoutError:
        raise Complaint(
            f"The peer with its data in {data} did not answer within {patience_s:g} s.",
            "It may be stopped or very busy: look at its log, or try again.",
        ) from None
    except (OSError, ValueError) as error:
        raise Complaint(
            f"The peer with its data in {data} broke off: {error}.", "It may be ending: look at its log."
        ) from None


def is_answered(data: Path) -> bool:
    """Does anybody listen on the control socket? A stopped process still does: its socket is not stale."""
    path = control_socket(data)
    check_length(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(PATIENCE_S)
        try:
            stream.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:  # a full queue, or no permission: somebody is there
            return True
        return True


def check_length(path: Path) -> None:
    if len(str(path).encode()) > SOCKET_PATH_BYTES_MAX:
        raise Complaint(
            f"The path {path} is too long for a Unix socket, which takes {SOCKET_PATH_BYTES_MAX} bytes.",
            "Choose a shorter folder with --data.",
        )


def receive(stream: socket.socket, size: int) -> bytes:
    """Exactly so many bytes; a `ValueError` if the far end closes before."""
    received = bytearray()
    while len(received) < size:
        part = stream.recv(min(size - len(received), 65536))
        if not part:
            raise ValueError("the connection was closed in the middle of an answer")
        received += part
    return bytes(received)
