"""What a peer remembers of others: the newest, safely, and whatever the file has become."""

from pathlib import Path

import pytest

from overlay.contact import Contact
from overlay.ids import Key, PeerId
from peer.contacts import CONTACTS_KEPT_MAX, ContactCache


def contact(number: int, *, boot_ms: int = 1, port: int = 4000) -> Contact:
    return Contact(PeerId(Key(number)), "10.0.0.1", port, zone="attic", boot_ms=boot_ms)


def test_contacts_come_back_as_they_were_newest_first(tmp_path):
    cache = ContactCache(tmp_path / "contacts.json")
    cache.seen([contact(1), contact(2)])
    cache.seen([contact(1)])
    cache.save()
    assert ContactCache(tmp_path / "contacts.json").newest_first() == [contact(1), contact(2)]


def test_a_new_life_replaces_the_old_one(tmp_path):
    cache = ContactCache(tmp_path / "contacts.json")
    cache.seen([contact(1), contact(1, boot_ms=2, port=5000)])
    assert cache.newest_first() == [contact(1, boot_ms=2, port=5000)]


def test_the_oldest_fall_out(tmp_path):
    cache = ContactCache(tmp_path / "contacts.json")
    cache.seen(contact(number) for number in range(CONTACTS_KEPT_MAX + 10))
    kept = cache.newest_first()
    assert len(kept) == CONTACTS_KEPT_MAX
    assert kept[0] == contact(CONTACTS_KEPT_MAX + 9)
    assert kept[-1] == contact(10)


def test_nothing_is_written_while_nothing_changes(tmp_path):
    cache = ContactCache(tmp_path / "contacts.json")
    cache.save()
    assert not (tmp_path / "contacts.json").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"null", b"[1]", b'{"a": 1}', b'[{"peer": "zz"}]', b"[" * 100_000, b"x" * 2_000_000],
)
def test_a_damaged_file_costs_memories_and_never_the_start(tmp_path, content):
    path = tmp_path / "contacts.json"
    path.write_bytes(content)
    cache = ContactCache(path)
    assert cache.newest_first() == []
    cache.seen([contact(1)])
    cache.save()
    assert ContactCache(path).newest_first() == [contact(1)]


def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    cache = ContactCache(tmp_path / "contacts.json")
    cache.seen([contact(1)])
    cache.save()
    cache.seen([contact(2)])

    def crash(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", crash)
        with pytest.raises(KeyboardInterrupt):
            cache.save()
    assert ContactCache(tmp_path / "contacts.json").newest_first() == [contact(1)]
