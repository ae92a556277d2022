"""A peer that does not come to its end: the second Ctrl-C does not ask again."""

import io
import signal
from collections import Counter
from types import SimpleNamespace

import trio

from overlay.contact import Contact
from overlay.ids import Key, PeerId
from peer import process_trio
from peer.log import Log
from peer.runtime import PeerConfig


class Stubborn:
    """A runtime that is interrupted as soon as it listens, once more while it leaves, and never leaves."""

    def __init__(self, config, *, on_event):
        self.config = config
        self.nodes = (SimpleNamespace(me=Contact(PeerId(Key(7)), "127.0.0.1", 4000)),)
        self.counters: Counter[str] = Counter()
        self.joined = trio.Event()

    def on_data(self, handler):
        pass

    def on_visit(self, handler):
        pass

    def offer_room(self, measure):
        pass

    def observe(self, observer):
        pass

    async def send_data(self, to, control, body):
        raise AssertionError("it has nobody to send to")

    async def run(self, *, task_status):
        task_status.started("127.0.0.1:4000")
        signal.raise_signal(signal.SIGINT)
        await trio.sleep_forever()

    def stop(self):
        signal.raise_signal(signal.SIGTERM)


def test_a_second_signal_ends_a_peer_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(process_trio, "Runtime", Stubborn)
    stream = io.StringIO()
    code = process_trio.live(PeerConfig(data_dir=tmp_path), Log(stream, form="text", clock=lambda: 0.0))
    assert code == 128 + signal.SIGINT
    assert "once more to end at once" in stream.getvalue()
    assert not (tmp_path / "control.sock").exists()
