"""Ask a peer on another machine, over the port on which peers speak to each other: `--at ADDR --as FOLDER`.

    TLS with the person's certificate  ->  VISIT  ->  WELCOME or TURNED_AWAY  ->  one question, one answer

The folder is what `peer enroll NAME --role operator` (or viewer) wrote. The far end must show a certificate of the same
CA, and not that of a viewer, who runs no peer. Blocking and on the standard library's sockets, as `control.py` is.
"""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from overlay.certificates import Credential, CredentialError, load_certificate, read_credential, to_der
from overlay.connection_trio import session_frame
from overlay.frames import FrameReader
from overlay.messages.session import PROTOCOL_VERSION, TurnedAway, Visit, Welcome
from overlay.streams_trio import handshake_failure, tls_context
from overlay.wire import WireError, decode
from peer import places
from peer.addresses import parse_address
from peer.complaint import Complaint
from peer.control import ANSWER_BYTES_MAX, LENGTH_BYTES, QUESTION_BYTES_MAX, length_of, pack, receive, unpack

CONNECT_S: Final = 5.0
WAY_OUT: Final = "Name a folder that `peer enroll NAME --role operator` (or viewer) wrote, with --as."


@dataclass(frozen=True, slots=True)
class Far:
    """A peer at an address, and the folder of whoever asks it."""

    address: str
    folder: Path

    def __str__(self) -> str:
        return f"the peer at {self.address}"

    def ask(self, verb: str, *, patience_s: float, arguments: dict[str, Any]) -> Any:
        """What it answers, as `control.ask` gets it; a `Complaint` if it cannot be asked."""
        me, context = self._credential(), self._context()
        try:
            with socket.create_connection(parse_address(self.address), CONNECT_S) as plain:
                plain.settimeout(patience_s)
                with context.wrap_socket(plain) as stream:
                    self._introduce(stream, me)
                    stream.sendall(pack({"verb": verb, "arguments": arguments}, bytes_max=QUESTION_BYTES_MAX))
                    head = receive(stream, LENGTH_BYTES)
                    return unpack(receive(stream, length_of(head, bytes_max=ANSWER_BYTES_MAX)))
        except TimeoutError:
            raise Complaint(f"The peer at {self.address} did not answer in time.", "Is the address right?") from None
        except ssl.SSLError as error:
            raise self._refused(handshake_failure(error), str(error.reason or error)) from None
        except (OSError, ValueError) as error:
            raise Complaint(
                f"Cannot ask {self}: {getattr(error, 'strerror', None) or error}.",
                "Is that the address of a peer (`peer status` shows it), and does it run with certificates?",
            ) from None

    def _introduce(self, stream: ssl.SSLSocket, me: Credential) -> None:
        stream.sendall(session_frame(Visit(PROTOCOL_VERSION, me.cluster)))
        reader = FrameReader(body_bytes_max=0)
        frames: list[Any] = []
        while not frames:
            space = reader.space()
            count = stream.recv_into(space)
            if not count:
                raise ValueError("it hung up")
            frames = reader.advance(count)
        said = decode(frames[0].content)
        if isinstance(said, TurnedAway):
            raise self._refused(said.reason, said.detail)
        if not isinstance(said, Welcome):
            raise WireError("no-hello", f"{type(said).__name__} instead of a welcome")
        self._check(stream.getpeercert(binary_form=True))

    def _check(self, certificate: bytes | None) -> None:
        """Is it a peer that answers? TLS only knows that our CA has certified somebody."""
        try:
            authority = load_certificate(places.read(self.folder / "ca.pem"))
            far = read_credential(certificate or b"", authority_certificate=authority, now=time.time())
        except CredentialError as error:
            raise Complaint(f"Whoever listens at {self.address} shows a bad certificate: {error}.", WAY_OUT) from None
        if far.role == "viewer":
            raise Complaint(f"Whoever listens at {self.address} is a viewer, not a peer.", "Look who runs there.")

    def _credential(self) -> Credential:
        if not (self.folder / "cert.pem").exists():
            raise Complaint(f"Nobody's certificate is in {self.folder}, and a peer must know who asks.", WAY_OUT)
        try:
            authority = load_certificate(places.read(self.folder / "ca.pem"))
            der = to_der(places.read(self.folder / "cert.pem"))
            return read_credential(der, authority_certificate=authority, now=time.time())
        except (CredentialError, ValueError) as error:
            raise Complaint(f"The certificate in {self.folder} is of no use: {error}.", WAY_OUT) from None

    def _context(self) -> ssl.SSLContext:
        names = ("ca.pem", "cert.pem", "key.pem")
        ca, certificate, key = (self.folder / name for name in names)
        try:
            return tls_context(is_server=False, ca_file=ca, certificate_file=certificate, key_file=key)
        except (OSError, ssl.SSLError) as error:
            raise Complaint(f"The files in {self.folder} are of no use: {error}.", WAY_OUT) from None

    def _refused(self, reason: str, detail: str) -> Complaint:
        """Its verdict about us, or ours about it."""
        told = f"{reason}, {detail}" if detail else reason
        return Complaint(f"No talk with {self} as {self.folder.name}: {told}.", WAY_OUT)
