"""Rates, ratios and aims are the arithmetic that the table claims."""

import pytest

from bench.aims import aims
from bench.environments import PEERS, folder_name, pins
from bench.figures import figure_of, ratio
from bench.registry import ENGINES
from bench.report import table


def run(cpu_s, *, wall_s=1.0, rss=100.0, startup_s=0.5):
    return {"cpu_s": cpu_s, "wall_s": wall_s, "peak_rss_mib": rss, "startup_s": startup_s}


def test_a_figure_is_the_median_of_its_runs():
    figure = figure_of("W1", "shoal", 1_000, [run(1.0, rss=90), run(2.0, wall_s=4.0), run(4.0)])
    assert figure.events_per_cpu_s == 500
    assert figure.events_per_s == 1_000
    assert figure.spread == 4.0
    assert figure.peak_rss_mib == 100


def test_an_engine_with_wrong_rows_gets_no_rate():
    figure = figure_of("W1", "bytewax", 1_000, [run(1.0)], note="wrong rows: 1 instead of 2")
    assert figure.events_per_cpu_s is None
    assert "wrong rows" in table([figure])


def test_a_ratio_is_ours_by_theirs_per_event():
    ours = figure_of("W1", "shoal", 1_000, [run(1.0)])
    theirs = figure_of("W1", "bytewax", 100, [run(1.0)])  # it was given fewer events
    assert ratio([ours, theirs], "W1", "bytewax") == pytest.approx(10)
    assert ratio([ours], "W1", "bytewax") is None


def met(figures, aim):
    (found,) = [it["met"] for it in aims(figures) if it["aim"].startswith(aim)]
    return found


def test_an_aim_is_met_missed_or_open():
    fast = figure_of("W4", "shoal", 8_000_000, [run(1.0)])
    slow = figure_of("W4", "shoal", 7_900_000, [run(1.0)])
    assert met([fast], "W4: at least 8M") is True
    assert met([slow], "W4: at least 8M") is False
    assert met([], "W4: at least 8M") == "open"


def test_the_yardstick_may_be_three_times_as_fast():
    ours = figure_of("W6", "shoal", 1_000, [run(1.0)])
    near, far = (figure_of("W6", "polars", events, [run(1.0)]) for events in (2_900, 3_100))
    assert met([ours, near], "W6: within 3x") is True
    assert met([ours, far], "W6: within 3x") is False


def test_memory_is_compared_on_equally_many_events():
    ours = figure_of("W1", "shoal", 1_000, [run(1.0, rss=100)])
    fewer = figure_of("W1", "bytewax", 10, [run(1.0, rss=50)])
    equal = figure_of("W1", "bytewax", 1_000, [run(1.0, rss=50)])
    assert met([ours, fewer], "peak memory") == "open"
    assert met([ours, equal], "peak memory") is False


def test_every_engine_but_ours_has_exact_pins():
    known = pins(PEERS.read_text())
    for engine in ENGINES.values():
        if engine.environment is not None:
            assert all("==" in it for it in known[engine.environment])


def test_other_pins_are_another_environment():
    assert folder_name("bytewax", ["bytewax==0.21.1"]) != folder_name("bytewax", ["bytewax==0.21.0"])
