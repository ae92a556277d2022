"""The demo's app: numbered rows over the ring, a kill -9 in their midst, and a count at the end.

Rows are numbered, so that what is lost or doubled can be counted. The stream is read by position through one peer,
while the peers that keep it may change.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from dataflow.bundles.limits import Limits
from peer.complaint import Complaint
from peer.fleet import Fleet, FleetError, Member
from peer.ring_run import launch

ROWS: Final = 6000
SPEED: Final = 0.8
"""Six thousand rows, two milliseconds apart, take fifteen seconds."""
READ_S_MAX: Final = 90.0
APP: Final = """\
from dataflow import App, col, count, tumbling

app = App("numbers", epoch="500ms")
numbers = app.source("numbers", schema={"n": "int64", "room": "int64", "at": "timestamp[ms]"}, event_time="at")
numbers.filter(col("n") >= 0).sink("all")
numbers.key_by("room").window(tumbling("1s")).aggregate(readings=count()).sink("counts")
"""


def numbered_rows(path: Path) -> str:
    """Write them; what `--source` needs to replay them."""
    lines = (f"{at},{at % 7},{1_767_225_600_000 + 2 * at}\n" for at in range(ROWS))
    path.write_text("n,room,at\n" + "".join(lines))
    return f"numbers=file:{path}?speed={SPEED}"


def launched(folder: Path, through: Member, operator: Path) -> dict[str, Any]:
    path = folder / "numbers.py"
    path.write_text(APP)
    return launch(path, {}, Limits(), where=through.data, operator=operator, rehearse=False)


def a_host(fleet: Fleet, places: Iterable[dict[str, Any]], *, but: Member) -> Member | None:
    """Some peer that runs instances, but not the one whose source nobody else can read."""
    hosts = {place["peer"] for place in places}
    return next((it for it in fleet.running if it.peer[:8] in hosts and it is not but), None)


@dataclass(slots=True)
class Tail:
    """A finished stream, read by position."""

    member: Member
    stream: str
    numbers: list[int] = field(default_factory=list)
    is_ended: bool = False
    _position: int = 0

    def read_until(self, rows: int | None = None) -> None:
        """Until there are so many rows, or the stream ends. Silence for a while is a peer that is being replaced."""
        deadline = time.monotonic() + READ_S_MAX
        while not self.is_ended and (rows is None or len(self.numbers) < rows):
            try:
                self._read()
            except Complaint as complaint:
                if time.monotonic() > deadline:
                    raise FleetError(f"The stream did not go on: {complaint.message}") from None
                time.sleep(0.2)
        if time.monotonic() > deadline:
            raise FleetError(f"The stream did not end within {READ_S_MAX:g} s.")

    def _read(self) -> None:
        answer = self.member.ask(
            "tail", app="numbers", stream=self.stream, position=self._position, reader="demo", patience_s=30.0
        )
        with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(answer["rows"]))) as rows:
            for batch in rows:
                self.numbers += batch.column("n").to_pylist()
        self._position = answer["next"]
        self.is_ended = answer["is_ended"]

    @property
    def lost(self) -> int:
        return len(set(range(ROWS)) - set(self.numbers))

    @property
    def doubled(self) -> int:
        return len(self.numbers) - len(set(self.numbers))
