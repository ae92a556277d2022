"""Who signs a launch: the operator whose certificate this person holds.

An operator's folder is what `peer enroll NAME --role operator` wrote; it needs no running peer. On a ring of
`--insecure` peers everybody is an operator, as everybody is everything there.
"""

from __future__ import annotations

import time
from pathlib import Path

from overlay.certificates import Credential, CredentialError, Issued, load_certificate, read_credential, to_der
from overlay.signing import Signer
from peer import places
from peer.complaint import Complaint

WAY_OUT = "Name an operator's folder with --as: the one that `peer enroll NAME --role operator` wrote."


def load_operator(folder: Path) -> tuple[Signer, Credential]:
    """Key and certificate of an operator; a `Complaint` if the folder holds another's, or none."""
    if not (folder / "cert.pem").exists():
        raise Complaint(f"Nobody's certificate is in {folder}, and a launch must be signed.", WAY_OUT)
    try:
        authority = load_certificate(places.read(folder / "ca.pem"))
        certificate = to_der(places.read(folder / "cert.pem"))
        credential = read_credential(certificate, authority_certificate=authority, now=time.time())
        signer = Signer.load(places.read(folder / "key.pem"))
    except (CredentialError, ValueError) as error:
        raise Complaint(f"The certificate in {folder} is of no use: {error}.", WAY_OUT) from None
    return signer, credential


def insecure_operator() -> tuple[Signer, Credential]:
    from peer.identity import insecure_authority  # with it comes all of trio, which a signed launch has no use for

    now = time.time()
    authority = insecure_authority()
    issued: Issued = authority.issue("anybody", "operator", now, days=1)
    credential = read_credential(to_der(issued.certificate_pem), authority_certificate=authority.certificate, now=now)
    return Signer.load(issued.key_pem), credential
