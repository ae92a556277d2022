"""Two byte streams with one face: plain TCP for loopback, TLS 1.3 for everything else.

Both work on a non-blocking socket directly: a body is received into the buffer it will live in, and buffers
are sent as they lie in memory. TLS drives an `ssl.SSLSocket`, so OpenSSL reads and writes the socket by
itself.

Measured on loopback, 1 MiB bodies, two processes, MB per CPU-second of the sender / receiver:

    PlainStream    2,700 / 3,300
    TlsStream      1,200 / 1,200
    trio.SSLStream   700 / 350     (OpenSSL 3.0 with AES-NI)

Promises: `receive_exactly_into` fills the view or raises; `send_buffers` sends all or raises. After any
exception, or a cancellation in the middle, the stream is only good for closing. One task may receive while
another sends. Neither starves other tasks: there is a scheduling point at least every `TURN_BYTES`. To make a
stream of a socket whose far end has hung up already is an `OSError`, and the socket is still the caller's to close.

Rejected: `trio.SSLStream`, which copies everything through two memory BIOs (see above).
"""

import contextlib
import socket as stdlib_socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import trio

from overlay.frames import Buffer

UNSENT_BYTES_MAX: Final = 128 * 1024
"""What the kernel may hold unsent. More queues a ping behind it; less makes a fat link wait for us."""
SILENCE_MS_MAX: Final = 30_000
"""How long sent bytes may stay unacknowledged before the kernel gives the connection up (else 15 minutes)."""
BUFFERS_PER_SEND_MAX: Final = 64
"""Buffers of one `sendmsg`: the kernel takes 1,024; a frame has a handful."""
TURN_BYTES: Final = 256 * 1024
"""What one direction carries before other tasks get a turn: about 0.2 ms. A turn costs as much as 20 KiB."""
CALL_BYTES: Final = 16 * 1024
"""What a call counts for at least, however little it carries."""
RECORD_BYTES: Final = 16 * 1024
"""A TLS record holds no more. Smaller buffers are joined up to here: a record of its own costs more."""


class StreamBrokenError(Exception):
    """The far end is gone, or the stream was closed. Says how, for the log."""


class Stream(Protocol):
    """What `connection_trio.py` needs of a stream."""

    async def receive_exactly_into(self, view: memoryview) -> None:
        """Fill `view`; `StreamBrokenError` if the stream ends before."""

    async def send_buffers(self, buffers: Sequence[Buffer]) -> None:
        """Send all the buffers, in order; `StreamBrokenError` if the far end is gone."""

    async def handshake(self) -> None:
        """First of all: `ssl.SSLError` for what TLS dislikes, `StreamBrokenError` if the far end left."""

    def close(self) -> None:
        """At once, and without a word: frames carry their lengths, so a cut stream is noticed anyway."""

    def peer_certificate(self) -> bytes | None:
        """The certificate of the far end in DER, if this stream knows one."""


def _tune(sock: stdlib_socket.socket) -> None:
    sock.setsockopt(stdlib_socket.IPPROTO_TCP, stdlib_socket.TCP_NODELAY, 1)
    # Only a lower delay is lost where an option does not exist.
    with contextlib.suppress(AttributeError, OSError):
        sock.setsockopt(stdlib_socket.IPPROTO_TCP, stdlib_socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
        sock.setsockopt(stdlib_socket.IPPROTO_TCP, stdlib_socket.TCP_USER_TIMEOUT, SILENCE_MS_MAX)


class PlainStream:
    """TCP without protection. Whoever opens one must make sure that both ends are on this machine."""

    def __init__(self, sock: stdlib_socket.socket) -> None:
        sock.setblocking(False)
        _tune(sock)
        self._sock = trio.socket.from_stdlib_socket(sock)

    async def receive_exactly_into(self, view: memoryview) -> None:
        while len(view):
            try:
                received_bytes = await self._sock.recv_into(view)
            except (OSError, trio.ClosedResourceError) as error:
                raise StreamBrokenError(str(error)) from None
            if not received_bytes:
                raise StreamBrokenError("the far end closed")
            view = view[received_bytes:]

    async def send_buffers(self, buffers: Sequence[Buffer]) -> None:
        rest = [memoryview(each) for each in buffers if len(each)]
        try:
            while rest:
                sent_bytes = await self._sock.sendmsg(rest[:BUFFERS_PER_SEND_MAX])
                while rest and sent_bytes >= len(rest[0]):
                    sent_bytes -= len(rest.pop(0))
                if sent_bytes:
                    rest[0] = rest[0][sent_bytes:]
        except (OSError, trio.ClosedResourceError) as error:
            raise StreamBrokenError(str(error)) from None

    async def handshake(self) -> None:
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        self._sock.close()

    def peer_certificate(self) -> bytes | None:
        return None


class TlsStream:
    """Mutual TLS 1.3 over a non-blocking socket."""

    def __init__(self, sock: stdlib_socket.socket, context: ssl.SSLContext, *, is_server: bool) -> None:
        sock.setblocking(False)
        _tune(sock)
        sock.getpeername()  # if it is not connected any more, `wrap_socket` would fail and keep the socket
        self._sock = context.wrap_socket(sock, server_side=is_server, do_handshake_on_connect=False)
        self._received_bytes = 0  # in this turn
        self._sent_bytes = 0

    async def handshake(self) -> None:
        await trio.lowlevel.checkpoint()
        while True:
            try:
                self._sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._wait_readable()
            except ssl.SSLWantWriteError:
                await self._wait_writable()
            except ssl.SSLEOFError:
                raise StreamBrokenError("the far end closed during the handshake") from None
            except ssl.SSLError:
                raise
            except OSError as error:
                raise StreamBrokenError(str(error)) from None

    async def receive_exactly_into(self, view: memoryview) -> None:
        self._received_bytes += max(len(view), CALL_BYTES)
        while len(view):
            try:
                received_bytes = self._sock.recv_into(view)
            except ssl.SSLWantReadError:
                await self._wait_readable()
                self._received_bytes = 0
                continue
            except ssl.SSLWantWriteError:  # an answer to a key update finds the socket full
                await self._wait_writable()
                self._received_bytes = 0
                continue
            except (OSError, ValueError) as error:  # ValueError: closed under our feet
                raise StreamBrokenError(str(error)) from error
            if not received_bytes:
                raise StreamBrokenError("the far end closed")
            view = view[received_bytes:]
        if self._received_bytes >= TURN_BYTES:
            self._received_bytes = 0
            await trio.lowlevel.checkpoint()

    async def send_buffers(self, buffers: Sequence[Buffer]) -> None:
        for each in _joined(buffers):
            self._sent_bytes += max(len(each), CALL_BYTES)
            if self._sent_bytes >= TURN_BYTES:
                self._sent_bytes = 0
                await trio.lowlevel.checkpoint()
            await self._send(each)

    async def _send(self, buffer: Buffer) -> None:
        # OpenSSL wants the very same buffer again until it took it all, so there is no slicing here.
        while True:
            try:
                sent_bytes = self._sock.send(buffer)
                assert sent_bytes == len(buffer)
                return
            except ssl.SSLWantWriteError:
                await self._wait_writable()
            except ssl.SSLWantReadError:
                await self._wait_readable()
            except (OSError, ValueError) as error:
                raise StreamBrokenError(str(error)) from error

    async def _wait_readable(self) -> None:
        try:
            await trio.lowlevel.wait_readable(self._sock)
        except (trio.ClosedResourceError, trio.BusyResourceError, OSError, ValueError) as error:
            raise StreamBrokenError(repr(error)) from None

    async def _wait_writable(self) -> None:
        try:
            await trio.lowlevel.wait_writable(self._sock)
        except (trio.ClosedResourceError, trio.BusyResourceError, OSError, ValueError) as error:
            raise StreamBrokenError(repr(error)) from None

    def close(self) -> None:
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()

    def peer_certificate(self) -> bytes | None:
        return self._sock.getpeercert(binary_form=True)


def _joined(buffers: Sequence[Buffer]) -> list[Buffer]:
    """The same bytes in fewer buffers: neighbours that fit one TLS record together are joined."""
    result: list[Buffer] = []
    small: list[Buffer] = []
    small_bytes = 0
    for each in buffers:
        if small and small_bytes + len(each) > RECORD_BYTES:
            result.append(b"".join(small))
            small, small_bytes = [], 0
        if len(each) >= RECORD_BYTES:
            result.append(each)
        elif len(each):
            small.append(each)
            small_bytes += len(each)
    if small:
        result.append(b"".join(small))
    return result


def tls_context(*, is_server: bool, ca_file: Path, certificate_file: Path, key_file: Path) -> ssl.SSLContext:
    """TLS 1.3, both sides show a certificate, and only the cluster's CA vouches.

    No hostname is checked: who a peer is follows from the key and the nonce in its certificate, not from
    where it happens to be today.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cafile=ca_file)
    context.load_cert_chain(certificate_file, key_file)
    if is_server:
        context.num_tickets = 0  # resumption would skip the certificate, and with it a revocation
    return context


_EXPIRED, _NOT_YET_VALID = 10, 9  # X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID


def handshake_failure(error: ssl.SSLError) -> str:
    """The counted reason for a handshake that TLS ended."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return {_EXPIRED: "expired", _NOT_YET_VALID: "not-yet-valid"}.get(error.verify_code, "foreign-ca")
    reason = error.reason or ""
    if "ALERT" in reason:
        return "turned-away"  # the far end dislikes *our* certificate
    return {
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no-certificate",
        "UNSUPPORTED_PROTOCOL": "version",
    }.get(reason, "not-tls")
