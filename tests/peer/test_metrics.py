"""The text of metrics is read back by a parser, and the server that gives it is pestered."""

import re
from collections import Counter
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from peer.histogram import BOUNDS_S, Histogram
from peer.metrics_text import Family, page
from peer.metrics_trio import CLIENTS_MAX, REQUEST_BYTES_MAX, MetricsServer

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\.)*)"')
ESCAPED = re.compile(r"\\(.)")


def parse(text):
    """{(name, labels): value} and {name: kind}; fails on any line that is not of the format."""
    samples, kinds = {}, {}
    assert text == "" or text.endswith("\n")
    for line in text.split("\n")[:-1]:
        if line.startswith("# "):
            _, what, name, rest = line.split(" ", 3)
            assert what in ("HELP", "TYPE")
            if what == "TYPE":
                assert name not in kinds, f"{name} stands in two places"
                kinds[name] = rest
            continue
        found = SAMPLE.fullmatch(line)
        assert found, line
        labels = tuple((name, plain(value)) for name, value in LABEL.findall(found[2] or ""))
        assert (found[1], labels) not in samples, f"{line} twice"
        samples[found[1], labels] = float(found[3])
    return samples, kinds


def plain(text):
    return ESCAPED.sub(lambda it: "\n" if it[1] == "n" else it[1], text)


values = st.one_of(st.integers(-(1 << 60), 1 << 60), st.floats(allow_nan=False, allow_infinity=False))


@given(st.dictionaries(st.text(max_size=20), values, max_size=5), st.text(max_size=30))
def test_whatever_an_app_is_called_its_samples_are_read_back(samples, help_):
    family = Family("shoal_x", "gauge", help_)
    for name, value in samples.items():
        family.add(value, app=name)
    found, kinds = parse(page([family]))
    assert kinds == {"shoal_x": "gauge"}
    assert found == {("shoal_x", (("app", name),)): float(value) for name, value in samples.items()}


@given(st.lists(st.tuples(st.floats(0, 1e4), st.integers(1, 1000)), max_size=30))
def test_a_histogram_counts_everything_once(noted):
    ages = Histogram()
    for seconds, count in noted:
        ages.note(seconds, count=count)
    family = Family("shoal_latency_seconds", "histogram", "Ages.")
    family.add_histogram(ages, app="a")
    samples, _ = parse(page([family]))
    total = sum(count for _, count in noted)
    buckets = {
        dict(labels)["le"]: value for (name, labels), value in samples.items() if name == "shoal_latency_seconds_bucket"
    }
    assert samples["shoal_latency_seconds_count", (("app", "a"),)] == total == buckets.pop("+Inf")
    assert {float(bound): value for bound, value in buckets.items()} == {
        bound: sum(count for seconds, count in noted if seconds <= bound) for bound in BOUNDS_S
    }
    assert samples["shoal_latency_seconds_sum", (("app", "a"),)] == pytest.approx(sum(s * c for s, c in noted))


# The server.


def served(story):
    """Run `story(connect, counters)` while the server runs."""

    async def main():
        counters: Counter[str] = Counter()
        async with trio.open_nursery() as nursery:
            server = MetricsServer("127.0.0.1:0", lambda: "shoal_x 1\n", counters)
            address = await nursery.start(server.run)
            port = int(address.rpartition(":")[2])
            with trio.fail_after(30):
                result = await story(lambda: trio.open_tcp_stream("127.0.0.1", port), counters)
            nursery.cancel_scope.cancel()
        return result

    return trio.run(main)


async def said(connect, request):
    async with await connect() as stream:
        await stream.send_all(request)
        await stream.send_eof()
        answer = b""
        async for part in stream:
            answer += part
        return answer


REQUESTS = {
    "a scrape": (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200),
    "a scrape with a question": (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", 200),
    "another page": (b"GET / HTTP/1.1\r\n\r\n", 404),
    "a page that begins alike": (b"GET /metricsx HTTP/1.1\r\n\r\n", 404),
    "a post": (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
    "no HTTP": (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
    "nothing": (b"", 400),
    "a header without end": (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * REQUEST_BYTES_MAX, 431),
}


@pytest.mark.parametrize(("request_", "status"), REQUESTS.values(), ids=REQUESTS)
def test_one_page_and_nothing_else(request_, status):
    async def story(connect, counters):
        return await said(connect, request_), counters["refused.metrics-client"]

    answer, refused = served(story)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Content-Length: %d" % len(body) in head
    assert (body == b"shoal_x 1\n") == (status == 200) == (refused == 0)


def test_clients_that_say_nothing_keep_only_so_many_places_and_nobody_out_for_long():
    async def story(connect, counters):
        silent = [await connect() for _ in range(CLIENTS_MAX)]
        full = await said(connect, b"GET /metrics HTTP/1.1\r\n\r\n")
        for stream in silent:
            await stream.aclose()
        while not (later := await said(connect, b"GET /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200"):
            await trio.lowlevel.checkpoint()
        return full, later

    full, later = served(story)
    assert full.startswith(b"HTTP/1.1 503 ")
    assert later.endswith(b"shoal_x 1\n")


def test_every_name_is_documented_and_nothing_else_is():
    root = Path(__file__).parents[2]
    made = set(re.findall(r'"((?:shoal|process)_[a-z_]+)"', (root / "peer" / "metrics.py").read_text()))
    told = set(re.findall(r"`((?:shoal|process)_[a-z_]+)`", (root / "docs" / "metrics.md").read_text()))
    assert made == told
