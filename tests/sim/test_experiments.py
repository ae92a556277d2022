"""The experiments behind `peer sim`, small enough to run every time."""

from pathlib import Path

import pytest

from sim.latency import LatencyError
from sim.ring import ring
from sim.storm import churn


def test_a_ring_of_a_hundred_delivers_every_key_to_its_owner():
    seen: list[float] = []
    report = ring(peers=100, keys=200, seed=1, progress=lambda share, phrase: seen.append(share))
    assert report["delivered"] == 1.0
    assert report["leaf_sets_exact"] == 1.0
    assert report["hops_p99"] <= 3
    assert report["routes_without_progress"] == 0
    assert seen == sorted(seen) and seen[-1] == 1.0


def test_one_seed_gives_one_report():
    same = ("trace", "delivered", "hops_mean", "messages_total")
    first, second = (ring(peers=30, keys=30, seed=4) for _ in range(2))
    assert [first[each] for each in same] == [second[each] for each in same]


def test_proximity_and_hop_only_are_compared_on_one_ring(tmp_path: Path):
    # Two clouds of four places each, far apart: near contacts exist, so choosing them must not cost.
    rows = [[0 if a == b else 4 if a // 4 == b // 4 else 160 for b in range(8)] for a in range(8)]
    path = tmp_path / "clouds.txt"
    path.write_text("\n".join(" ".join(map(str, row)) for row in rows))
    report = ring(peers=120, keys=300, seed=2, latency="planetlab", latency_file=path)
    assert report["proximity_delivered"] == report["hop_only_delivered"] == 1.0
    assert report["proximity_delay_ms_mean"] <= report["hop_only_delay_ms_mean"]


def test_measured_latencies_need_their_file():
    with pytest.raises(LatencyError, match="give its file with --latency-file"):
        ring(peers=5, keys=5, seed=1, latency="planetlab")
    with pytest.raises(LatencyError, match="There is no latency model warp"):
        ring(peers=5, keys=5, seed=1, latency="warp")


def test_after_a_small_storm_every_leaf_set_is_exact():
    report = churn(peers=60, leave_per_min=0.5, minutes=2, seed=1, loss=0.05, keys=100)
    assert report["crashes"] and report["leaves"] and report["joins"]
    assert report["leaf_sets_exact"] == 1.0, report["leaf_sets_wrong"]
    assert report["delivered"] == 1.0
    assert report["false_confirmations"] == 0


def test_without_a_named_loss_both_are_reported():
    report = churn(peers=20, leave_per_min=0.5, minutes=0.5, seed=1, keys=20)
    assert [run["loss"] for run in report["runs"]] == [0.05, 0.2]
