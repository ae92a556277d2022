"""Open, accept and connect TCP sockets without blocking.

Plain sockets, not trio's: `streams_trio.py` receives into the buffers of bodies and lets OpenSSL read a
socket by itself, and trio's socket objects allow neither.
"""

import errno
import socket
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import trio

from overlay.admission import LOOPBACK_SUBNET, subnet_of
from overlay.links import Address

BACKLOG: Final = 128
"""Connections that the kernel holds for us while we are busy with a handshake."""

_ACCEPT_LATER: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ACCEPT_PAUSE_S: Final = 0.1
"""Out of file descriptors: somebody must close one first."""


def is_loopback(host: str) -> bool:
    return subnet_of(host) == LOOPBACK_SUBNET


def open_listener(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one (`getsockname` tells which)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


async def accept(listener: socket.socket, counters: Counter[str]) -> tuple[socket.socket, Address]:
    """The next connection that somebody opens to us, and from where."""
    while True:
        try:
            sock, address = listener.accept()
        except BlockingIOError:
            await trio.lowlevel.wait_readable(listener)
        except OSError as error:
            if error.errno not in _ACCEPT_LATER:
                continue  # that one gave up while it waited in the backlog
            counters["accept-failed"] += 1
            await trio.sleep(_ACCEPT_PAUSE_S)
        else:
            return sock, (address[0], address[1])


async def connect(address: Address) -> tuple[socket.socket, Address]:
    """A connected socket and where it leads; `OSError` if there is none. Tries each address of a name."""
    try:
        found: Iterable[Any] = await trio.socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    except ValueError:  # others tell us hosts: what IDNA cannot encode is their fault, and no reason to end
        raise OSError(f"{address[0]!r} is no host name") from None
    failure: OSError = OSError(f"{address[0]} has no address")
    for family, kind, protocol, _, target in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            code = sock.connect_ex(target)
            if code == errno.EINPROGRESS:
                await trio.lowlevel.wait_writable(sock)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0:
                return sock, (target[0], target[1])
            failure = OSError(code, errno.errorcode.get(code, "failed"))
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise failure
