"""A member's word, whatever it is asked in whatever order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.ids import Key, PeerId
from recovery.register.acceptor import Acceptor
from recovery.register.ballot import START, Ballot
from recovery.register.config import Config, Member
from recovery.register.messages import Accept, Accepted, Enlist, Outvoted, Prepare, Promised
from recovery.register.value import EMPTY

APP = "taxi"
ME = PeerId(Key(1))
TOKEN = 77

ballots = st.builds(Ballot, st.integers(0, 6), st.sampled_from([PeerId(Key(it)) for it in (1, 2, 3)]))
configs = st.builds(
    lambda number, token: Config(number, (Member(ME, token), Member(PeerId(Key(2)), 5))),
    st.integers(1, 3),
    st.sampled_from([TOKEN, TOKEN, TOKEN, 78]),
)


@st.composite
def accepts(draw):
    """A ballot has one value in one config, as it has between proposers who keep the rules."""
    config, ballot, promise = draw(configs), draw(ballots), draw(ballots)
    content = f"{config} {ballot}".encode()
    value = EMPTY.changed(content, mark=1)
    return Accept(1, APP, config, ballot, max(ballot, promise), value.header), content


requests = st.one_of(
    accepts(),
    st.tuples(st.builds(Prepare, st.just(1), st.just(APP), configs, ballots), st.just(b"")),
    st.just((Enlist(1, APP), b"")),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(requests, max_size=25))
def test_nothing_that_was_promised_or_accepted_is_ever_taken_back(asked):
    record = Acceptor.load(APP, ME, None).on_enlist(Enlist(1, APP), TOKEN).record
    for request, body in asked:
        before = Acceptor.load(APP, ME, record).votes
        turn = Acceptor.load(APP, ME, record).on(request, body, draw=78)
        record = turn.record or record
        after = Acceptor.load(APP, ME, record).votes
        assert before is not None and after is not None and after.token == TOKEN
        if before.config == after.config:
            assert after.promised >= before.promised and after.accepted >= before.accepted
        else:
            assert after.config is not None and (before.config is None or after.config.number > before.config.number)
        assert after.promised >= after.accepted
        if isinstance(turn.reply, Promised):
            assert isinstance(request, Prepare) and after.promised == request.ballot > before.promised
            assert turn.reply.accepted == after.accepted and turn.reply.header == after.header
        if isinstance(turn.reply, Accepted):
            assert isinstance(request, Accept) and after.accepted == request.ballot and after.header == request.header
        if isinstance(turn.reply, Outvoted):
            assert turn.record is None and not isinstance(request, Enlist) and request.ballot <= turn.reply.promised


@given(st.binary(max_size=50), st.data())
def test_a_record_with_any_bit_flipped_or_any_part_missing_counts_as_gone(content, data):
    config = Config(1, (Member(ME, TOKEN),))
    record = Acceptor.load(APP, ME, None).on_enlist(Enlist(1, APP), TOKEN).record
    value = EMPTY.changed(content, mark=1)
    accept = Accept(1, APP, config, START, START, value.header)
    record = Acceptor.load(APP, ME, record).on_accept(accept, content).record
    assert record is not None and Acceptor.load(APP, ME, record).content == content
    at = data.draw(st.integers(0, len(record) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    assert Acceptor.load(APP, ME, record[:at] + bytes([record[at] ^ bit]) + record[at + 1 :]).votes is None
    assert Acceptor.load(APP, ME, record[:at]).votes is None
    assert Acceptor.load("another app", ME, record).votes is None
    assert Acceptor.load(APP, ME, data.draw(st.binary(max_size=60))).votes is None
