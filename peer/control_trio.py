"""Answer the local command line: the other end of `control.py`.

The socket belongs to its owner alone, from its first moment on: the umask is set before it is bound. A
socket left by a killed peer is replaced, but only if nobody answers on it: two peers never share one folder.

A question that is malformed, too large or too slow ends its own connection and nothing else.
"""

import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from peer.complaint import Complaint, about_file
from peer.control import (
    ANSWER_BYTES_MAX,
    LENGTH_BYTES,
    QUESTION_BYTES_MAX,
    check_length,
    is_answered,
    length_of,
    pack,
    unpack,
)
from peer.places import control_socket, make_folder

Answers = Mapping[str, Callable[[dict[str, Any]], Awaitable[Any]]]
"""For each verb, who answers it. A `Complaint` goes back to the asker as it is."""

ASKERS_MAX = 16
"""A person and some scripts; further ones wait in the socket's queue."""
QUESTION_S_MAX = 5.0
"""An asker that is slower than this is gone."""
SOCKET_UMASK = 0o177


def bind(data: Path) -> trio.SocketListener:
    """The control socket of `data`, mode 0600, or a `Complaint`."""
    make_folder(data)
    path = control_socket(data)
    check_length(path)
    if is_answered(data):
        raise Complaint(
            f"A peer already runs with its data in {data}.",
            "Let it go on, end it with `peer leave`, or give this one another folder with --data.",
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(SOCKET_UMASK)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        listener.listen(ASKERS_MAX)
    except OSError as error:
        listener.close()
        raise about_file(error, path) from None
    finally:
        os.umask(umask)
    listener.setblocking(False)
    return trio.SocketListener(trio.socket.from_stdlib_socket(listener))


async def serve(data: Path, answers: Answers, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Answer until cancelled, then take the socket away."""
    path = control_socket(data)
    listener = bind(data)
    ours = path.stat().st_ino
    limit = trio.CapacityLimiter(ASKERS_MAX)

    async def answer(stream: trio.SocketStream) -> None:
        async with limit, stream:
            await _answer_one(stream, answers)

    try:
        task_status.started()
        await trio.serve_listeners(answer, [listener])
    finally:
        if path.exists() and path.stat().st_ino == ours:
            path.unlink()


async def _answer_one(stream: trio.SocketStream, answers: Answers) -> None:
    try:
        with trio.fail_after(QUESTION_S_MAX):
            head = await _receive(stream, LENGTH_BYTES)
            question = unpack(await _receive(stream, length_of(head, bytes_max=QUESTION_BYTES_MAX)))
        reply = await reply_to(question, answers)
        with trio.fail_after(QUESTION_S_MAX):
            await stream.send_all(pack(reply, bytes_max=ANSWER_BYTES_MAX))
    except (ValueError, RecursionError, trio.TooSlowError, trio.BrokenResourceError):
        return  # the asker's fault or the asker's end: he sees a closed connection


async def reply_to(question: dict[str, Any], answers: Answers) -> dict[str, Any]:
    verb, arguments = question.get("verb"), question.get("arguments", {})
    if not isinstance(verb, str) or verb not in answers or not isinstance(arguments, dict):
        known = ", ".join(sorted(answers))
        return {
            "ok": False,
            "error": f"This peer has no answer to {verb!r}.",
            "way_out": f"It knows: {known}.",
        }
    try:
        return {"ok": True, "result": await answers[verb](arguments)}
    except Complaint as complaint:
        fact, _, way_out = complaint.message.partition("\n")
        return {"ok": False, "error": fact, "way_out": way_out}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # Arguments come from whoever may ask, facts from other peers: neither shall end this one.
        what = f"{type(error).__name__}: {error}"[:200]
        return {
            "ok": False,
            "error": f"Something in that question or its answer is not as it should be ({what}).",
            "way_out": "Is everybody of one version? See `peer --version`.",
        }


async def _receive(stream: trio.SocketStream, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = await stream.receive_some(size - len(received))
        if not part:
            raise ValueError("the asker went away")
        received += part
    return bytes(received)
