"""Where latencies come from, and what is said when they cannot."""

import gzip
from pathlib import Path

import pytest

from sim.latency import LatencyError, Matrix, Zoned, lognormal, planetlab, seattle, uniform
from sim.seeds import rng_of


def test_a_planetlab_file_is_round_trips_in_milliseconds(tmp_path: Path):
    path = tmp_path / "planetlab.txt.gz"
    path.write_bytes(gzip.compress(b"0 80 120\n80 0 40\n120 40 0\n"))
    matrix = planetlab(path)
    assert (matrix.rows, matrix.one_way_s(0, 2), matrix.one_way_s(1, 2)) == (3, 0.06, 0.02)


def test_a_seattle_file_is_slices_of_round_trips_in_seconds(tmp_path: Path):
    path = tmp_path / "seattle.txt.gz"
    path.write_bytes(gzip.compress(b"# slice 1\n0 0.2\n0.3 0\n# slice 9\n0 0.5\n0 0\n"))
    assert seattle(path).one_way_s(1, 0) == pytest.approx(0.15)
    assert seattle(path, 1).one_way_s(0, 1) == pytest.approx(0.25)
    # Zero between two places is below the file's resolution, not a wormhole.
    assert 0 < seattle(path, 1).one_way_s(1, 0) < 0.001


def test_peers_are_spread_over_the_rows():
    matrix, rng = Matrix([[0.0, 1.0, 2.0]] * 3), rng_of(7, "places")
    assert {matrix.place(number, 0, rng) for number in range(50)} == {0, 1, 2}


def test_peers_at_one_place_are_near_but_not_at_no_distance():
    assert 0 < Matrix([[0.0, 9.0], [9.0, 0.0]]).one_way_s(1, 1) < 0.001


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"0 1\n1 zero\n", "line 2: not a row of numbers"),
        (b"0 1 2\n1 0 2\n", "not a square matrix of 2 rows"),
        (b"0 -1\n1 0\n", "line 1: a round-trip time is negative"),
        (b"0 nan\n1 0\n", "negative or not finite"),
        (b"", "has 0 slices, so there is no slice 0"),
        (b"\x1f\x8b broken", "cannot be read as"),
        (gzip.compress(b"0 1\n1 0\n")[:-9], "cannot be read as"),
        (b"\xff\xfe\x00", "cannot be read as"),
    ],
)
def test_a_broken_file_is_one_clear_sentence(tmp_path: Path, content: bytes, sentence: str):
    path = tmp_path / "broken.txt.gz"
    path.write_bytes(content)
    with pytest.raises(LatencyError, match=sentence):
        planetlab(path)


def test_a_missing_file_is_one_clear_sentence(tmp_path: Path):
    with pytest.raises(LatencyError, match="There is no latency file"):
        planetlab(tmp_path / "nowhere.txt.gz")


def test_zones_are_near_inside_and_far_between():
    model = Zoned(within_ms=1, between_ms=20)
    assert model.one_way_s(1, 1) < model.one_way_s(1, 2)


def test_a_drawn_link_is_the_same_both_ways_and_every_time():
    for model in (uniform(5, 50, rng_of(7, "u")), lognormal(20, 0.8, rng_of(7, "l"))):
        assert model.one_way_s(3, 900) == model.one_way_s(900, 3) == model.one_way_s(3, 900)
        assert len({model.one_way_s(3, there) for there in range(200)}) > 150


def test_uniform_links_lie_within_their_bounds():
    model = uniform(5, 50, rng_of(7, "u"))
    assert all(0.005 <= model.one_way_s(here, here + 1) <= 0.050 for here in range(500))
