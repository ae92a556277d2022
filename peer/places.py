"""Where a peer keeps its things on this machine.

    DATA/ca.pem cert.pem key.pem    who we are: what `peer enroll` made
    DATA/lock                       held while a peer runs here
    DATA/control.sock               how the local command line speaks to the running peer
    DATA/authority/                 the cluster's CA, only where `peer init` ran: keep it off the devices
    DATA/enrolled/NAME/             what to carry to the device NAME, there to be its DATA

Folders that we make are open to their owner alone.
"""

import os
from pathlib import Path

from peer.complaint import about_file

FOLDER_MODE = 0o700
SECRET_MODE = 0o600
PUBLIC_MODE = 0o644


def default_data() -> Path:
    """`$XDG_STATE_HOME/shoal`, or `~/.local/state/shoal`."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "shoal"


def lock_file(data: Path) -> Path:
    return data / "lock"


def control_socket(data: Path) -> Path:
    return data / "control.sock"


def authority(data: Path) -> Path:
    return data / "authority"


def enrolled(data: Path, name: str) -> Path:
    return data / "enrolled" / name


def make_folder(path: Path) -> Path:
    """Make `path` and its missing parents, for our eyes only; an existing folder keeps its mode."""
    try:
        for folder in (*reversed(path.parents), path):
            if not folder.exists():
                folder.mkdir(mode=FOLDER_MODE)
        if not path.is_dir() or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError
    except OSError as error:
        raise about_file(error, path) from None
    return path


def write(path: Path, content: bytes, *, mode: int) -> None:
    """Write a whole file or nothing, with `mode` from its first moment on."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        scratch.rename(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise about_file(error, path) from None


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise about_file(error, path) from None
