"""Serve one page over HTTP: `GET /metrics`, and nothing else.

Everything that a client can make long is bounded: its request, its patience, the number of its kind. There is no
keep-alive; a scrape every few seconds may connect anew. Rejected: h11 or a web server for one page that takes no input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import trio

from overlay.links import address_text
from peer.addresses import parse_address
from peer.metrics_text import CONTENT_TYPE

REQUEST_BYTES_MAX: Final = 8 * 1024
"""Request line and headers. Prometheus sends some hundred bytes."""
REQUEST_S_MAX: Final = 5.0
ANSWER_S_MAX: Final = 10.0
CLIENTS_MAX: Final = 8
"""At once: a few scrapers. As many again are told to come back, the rest is hung up on."""
_PHRASES: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class MetricsServer:
    """`run` serves `page()` until cancelled; `started` gives the address, with the port that the system chose."""

    def __init__(self, listen: str, page: Callable[[], str], counters: Counter[str]) -> None:
        self._listen = listen
        self._page = page
        self._counters = counters
        self._clients = 0

    async def run(self, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        host, port = parse_address(self._listen)
        listeners = await trio.open_tcp_listeners(port, host=host)
        name = listeners[0].socket.getsockname()
        task_status.started(address_text((name[0], name[1])))
        await trio.serve_listeners(self._serve, listeners)

    async def _serve(self, stream: trio.SocketStream) -> None:
        self._clients += 1
        try:
            async with stream:
                if self._clients <= 2 * CLIENTS_MAX:
                    await self._answer(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            self._counters["refused.metrics-client"] += 1
        finally:
            self._clients -= 1

    async def _answer(self, stream: trio.SocketStream) -> None:
        if self._clients > CLIENTS_MAX:
            status, body = 503, "too many clients at once\n"
        else:
            with trio.fail_after(REQUEST_S_MAX):
                status, body = self._respond(await _request(stream))
        if status != 200:
            self._counters["refused.metrics-client"] += 1
        content = body.encode()
        allow = "Allow: GET\r\n" if status == 405 else ""
        head = (
            f"HTTP/1.1 {status} {_PHRASES[status]}\r\nContent-Type: {CONTENT_TYPE}\r\n{allow}"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        with trio.fail_after(ANSWER_S_MAX):
            await stream.send_all(head.encode() + content)
            await stream.send_eof()
            # Else bytes that the client still sends would make the kernel reset what it has not read.
            while await stream.receive_some(1024):
                pass

    def _respond(self, request: bytes | None) -> tuple[int, str]:
        if request is None:
            return 431, f"at most {REQUEST_BYTES_MAX} bytes\n"
        words = request.partition(b"\r\n")[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return 400, "no HTTP request\n"
        if words[0] != b"GET":
            return 405, "only GET\n"
        if words[1].partition(b"?")[0] != b"/metrics":
            return 404, "there is /metrics\n"
        return 200, self._page()


async def _request(stream: trio.SocketStream) -> bytes | None:
    """All up to the empty line; what a client says before it hangs up, or None if it says too much."""
    received = bytearray()
    while b"\r\n\r\n" not in received:
        if len(received) >= REQUEST_BYTES_MAX:
            return None
        part = await stream.receive_some(REQUEST_BYTES_MAX - len(received))
        if not part:
            break
        received += part
    return bytes(received)
