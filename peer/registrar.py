"""Keep the cluster's CA on disk: make it, issue with it, revoke with it.

    DATA/authority/ca.pem ca-key.pem    the CA; its key is what an attacker would want most
    DATA/authority/issued.jsonl         name, role, serial and end of each certificate: `peer revoke NAME`
    DATA/authority/denylist             the newest signed denylist, in the bytes that peers gossip

The decisions are `overlay.certificates` and `overlay.denylist`; this is only their folder.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from overlay.certificates import Authority, Credential, read_credential, to_der
from overlay.denylist import Denylist, DenylistError, read_denylist, sign_denylist
from overlay.ids import to_hex
from peer import places
from peer.complaint import Complaint
from peer.identity import save_identity


class Registrar:
    def __init__(self, data: Path, authority: Authority) -> None:
        self.folder = places.authority(data)
        self._data = data
        self._authority = authority

    @classmethod
    def create(cls, data: Path, cluster: str, now: float, *, days: float) -> "Registrar":
        folder = places.authority(data)
        if (folder / "ca-key.pem").exists():
            raise Complaint(
                f"There is a cluster's CA in {folder} already, and a new one would shut out all its peers.",
                "Go on with `peer enroll NAME`, or make another cluster elsewhere with --data.",
            )
        authority = Authority.create(cluster, now, days=days)
        places.make_folder(folder)
        places.write(folder / "ca.pem", authority.certificate_pem, mode=places.PUBLIC_MODE)
        places.write(folder / "ca-key.pem", authority.key_pem, mode=places.SECRET_MODE)
        return cls(data, authority)

    @classmethod
    def load(cls, data: Path) -> "Registrar":
        folder = places.authority(data)
        if not (folder / "ca-key.pem").exists():
            raise Complaint(
                f"There is no cluster's CA in {folder}.",
                "Make one with `peer init`, or name the folder where you did with --data.",
            )
        try:
            authority = Authority.load(places.read(folder / "ca.pem"), places.read(folder / "ca-key.pem"))
        except ValueError as error:
            raise Complaint(
                f"The CA in {folder} is damaged: {error}.", "Restore it from your backup."
            ) from None
        return cls(data, authority)

    def enroll(
        self, name: str, role: str, now: float, *, virtual: int, days: float, out: Path | None, force: bool
    ) -> dict[str, Any]:
        """Issue a certificate, write what the device needs, and remember it. Bad names are `ValueError`s."""
        if out is None and (name in {".", ".."} or "/" in name):
            raise ValueError("a name with a / in it needs a folder of its own: say --out FOLDER")
        folder = out if out is not None else places.enrolled(self._data, name)
        if (folder / "cert.pem").exists() and not force:
            raise Complaint(
                f"There is a certificate in {folder} already.",
                "Use it, choose another folder with --out, or replace it with --force.",
            )
        issued = self._authority.issue(name, role, now, virtual_peers=virtual, days=days)
        credential = self._check(issued.certificate_pem, now)
        entry = {
            "name": name,
            "role": role,
            "serial": credential.serial,
            "until": datetime.fromtimestamp(credential.not_after_s, UTC).date().isoformat(),
            "peers": [to_hex(peer) for peer in credential.peers],
        }
        self._remember(entry)  # before it exists anywhere: what is not remembered cannot be revoked by name
        save_identity(folder, ca_pem=self._authority.certificate_pem, issued=issued)
        denylist = self.denylist()
        if denylist.raw:
            places.write(folder / "denylist", denylist.raw, mode=places.PUBLIC_MODE)
        return entry | {"folder": str(folder)}

    def revoke(self, who: str, now: float) -> tuple[list[int], bytes]:
        """Deny every certificate of that name, or the one of that serial. Returns both, signed."""
        issued = self._issued()
        serials = [it["serial"] for it in issued if it["name"] == who or str(it["serial"]) == who]
        if not serials:
            names = sorted({it["name"] for it in issued})
            known = f"It issued to: {', '.join(names[:20])}." if names else "It has issued none yet."
            raise Complaint(f"This CA has issued no certificate to {who!r}, nor one of that serial.", known)
        before = self.denylist()
        today = datetime.fromtimestamp(now, UTC).date().isoformat()
        expired = {it["serial"] for it in issued if it["until"] < today}
        denylist = sign_denylist(
            self._authority, (before.serials - expired) | set(serials), version=before.version + 1
        )
        places.write(self.folder / "denylist", denylist.raw, mode=places.PUBLIC_MODE)
        return serials, denylist.raw

    def _check(self, certificate_pem: bytes, now: float) -> Credential:
        """Read what we have just issued as any peer will."""
        der = to_der(certificate_pem)
        return read_credential(der, authority_certificate=self._authority.certificate, now=now)

    def denylist(self) -> Denylist:
        path = self.folder / "denylist"
        raw = places.read(path) if path.exists() else b""
        try:
            return read_denylist(raw, authority_public_key=self._authority.public_key)
        except DenylistError as error:
            raise Complaint(f"{path} is damaged: {error}.", "Restore it from your backup.") from None

    def _issued(self) -> list[dict[str, Any]]:
        path = self.folder / "issued.jsonl"
        return [json.loads(line) for line in places.read(path).splitlines()] if path.exists() else []

    def _remember(self, entry: dict[str, Any]) -> None:
        lines = [json.dumps(it) for it in [*self._issued(), entry]]
        places.write(
            self.folder / "issued.jsonl", ("\n".join(lines) + "\n").encode(), mode=places.SECRET_MODE
        )
