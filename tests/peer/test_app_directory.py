"""Which apps there are, as several keepers list them."""

from overlay.contact import Contact
from overlay.ids import Key, PeerId
from peer.app_directory import Listed, newest


def listed(app, generation, keeper, state="ended"):
    return Listed(app, f"name of {app}", generation, state, Contact(PeerId(Key(keeper)), "127.0.0.1", 4000))


def test_an_app_that_was_launched_again_elsewhere_is_listed_once():
    before, again = listed("aa", 1, keeper=7), listed("aa", 2, keeper=9, state="running")
    assert newest([before, again]) == newest([again, before]) == [again]


def test_different_apps_are_all_listed_by_name():
    first, second = listed("aa", 3, keeper=7), listed("bb", 1, keeper=7)
    assert newest([second, first]) == [first, second]
