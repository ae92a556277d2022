"""The control socket against askers that are rude, slow or wrong."""

import socket

import pytest
import trio

from peer.complaint import Complaint
from peer.control import QUESTION_BYTES_MAX, ask, pack
from peer.control_trio import serve


async def echo(arguments):
    return arguments


async def grumble(arguments):
    raise Complaint("No.", "Ask again tomorrow.")


ANSWERS = {"echo": echo, "grumble": grumble}


def while_serving(data, story):
    """Run a blocking `story(data)` in a thread while the control socket of `data` is served."""

    async def main():
        async with trio.open_nursery() as nursery:
            await nursery.start(serve, data, ANSWERS)
            result = await trio.to_thread.run_sync(story, data)
            nursery.cancel_scope.cancel()
        return result

    return trio.run(main)


def raw_answer(data, content):
    """What comes back to bytes that no honest asker sends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(30)
        stream.connect(str(data / "control.sock"))
        stream.sendall(content)
        stream.shutdown(socket.SHUT_WR)
        return stream.recv(1000)


def test_a_question_is_answered(tmp_path):
    assert while_serving(tmp_path, lambda data: ask(data, "echo", key="alerts")) == {"key": "alerts"}


def test_a_refusal_arrives_word_for_word(tmp_path):
    def story(data):
        with pytest.raises(Complaint, match=r"No\.\nAsk again tomorrow\."):
            ask(data, "grumble")

    while_serving(tmp_path, story)


RUBBISH = {
    "nothing": b"",
    "half a length": b"\0\0",
    "half a body": b"\0\0\0\x10{",
    "not JSON": b"\0\0\0\x04\xff\xfe{]",
    "not an object": b"\0\0\0\x02[]",
    "deep": (60000).to_bytes(4, "big") + b"[" * 60000,
    "too long": (QUESTION_BYTES_MAX + 1).to_bytes(4, "big"),
    "far too long": b"\xff\xff\xff\xff",
}


@pytest.mark.parametrize("content", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_ends_its_own_connection_only(tmp_path, content):
    def story(data):
        return raw_answer(data, content), ask(data, "echo", still="here")

    assert while_serving(tmp_path, story) == (b"", {"still": "here"})


@pytest.mark.parametrize("question", [{}, {"verb": 7}, {"verb": "fly"}, {"verb": "echo", "arguments": []}])
def test_an_unknown_verb_is_told_what_there_is(tmp_path, question):
    answer = while_serving(tmp_path, lambda data: raw_answer(data, pack(question, bytes_max=1000)))
    assert b'"ok":false' in answer
    assert b"echo, grumble" in answer


def test_the_socket_is_private_whatever_the_umask_and_goes_with_its_peer(tmp_path):
    import os

    before = os.umask(0)
    try:
        mode = while_serving(tmp_path / "new", lambda data: (data / "control.sock").stat().st_mode & 0o777)
    finally:
        os.umask(before)
    assert mode == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "new").iterdir()) == []


def test_a_stale_socket_is_replaced(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(tmp_path / "control.sock"))
    assert while_serving(tmp_path, lambda data: ask(data, "echo")) == {}


def test_a_socket_on_which_somebody_listens_is_not(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as living:
        living.bind(str(tmp_path / "control.sock"))
        living.listen()
        with pytest.RaisesGroup(Complaint):
            while_serving(tmp_path, lambda data: None)
        assert (tmp_path / "control.sock").exists()
