"""Every engine gets the same rows, today and tomorrow."""

import pytest

from bench.arithmetic import mix
from bench.data import folder_of, load, streams
from bench.reference import expected
from bench.workloads import ALL

EVENTS = 2_000


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_rows_and_another_gives_others(name):
    one, same, other = (streams(ALL[name], EVENTS, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


@pytest.mark.parametrize("name", ALL)
def test_fewer_events_are_the_first_of_more(name):
    few, many = streams(ALL[name], EVENTS, seed=1), streams(ALL[name], 2 * EVENTS, seed=1)
    for stream, rows in few.items():
        assert many[stream].slice(0, rows.num_rows).equals(rows)


@pytest.mark.parametrize("name", ALL)
def test_rows_are_kept_as_they_were_made(tmp_path, name):
    folder = folder_of(tmp_path, ALL[name], EVENTS, seed=1)
    assert load(folder) == streams(ALL[name], EVENTS, seed=1)
    assert folder_of(tmp_path, ALL[name], EVENTS, seed=1) == folder
    assert not list((tmp_path / "data").glob(".*"))  # nothing half made is left


@pytest.mark.parametrize("name", ALL)
def test_every_workload_has_a_result_to_check(name):
    result = expected(ALL[name], streams(ALL[name], 20_000, seed=1))
    assert result.num_rows > 0
    assert set(ALL[name].columns) <= set(result.column_names)


def test_values_are_spread_over_all_keys():
    assert len({mix(n, salt=1) % 1_000 for n in range(20_000)}) == 1_000
