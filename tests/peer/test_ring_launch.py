"""Every app of examples/ on eight real peers gives the rows that it gives in one process."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from dataflow.loading import load_app
from dataflow.local import run
from examples import lines_data, rooms_data, urban_sensing
from examples.nexmark import generate as nexmark
from examples.riotbench import generate as riotbench
from tests.peer.conftest import one_fleet

EXAMPLES = Path(__file__).parents[2] / "examples"
PEERS = ("lamp", "heater", "kettle", "meter", "gate", "pump", "bell", "fan")
ZONES = ("attic", "cellar", "garden")
QUERIES = ("q0", "q1", "q2", "q3", "q4", "q5", "q7", "q8")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """One file for each source; all of them small."""
    folder = tmp_path_factory.mktemp("inputs")
    nexmark.save(folder, 6000)
    riotbench.save("sys", folder, 900)
    with (folder / "rooms.csv").open("w") as file:
        file.writelines(line + "\n" for line in rooms_data.lines(1000, 1))
    with (folder / "lines.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in lines_data.rows(500, 1))
    hour = pa.Table.from_batches([urban_sensing.an_hour(seed=1, readings=4000)])
    pyarrow.csv.write_csv(hour, folder / "hour.csv")
    train = load_app(EXAMPLES / "riotbench" / "train.py", {"table": str(folder / "readings.parquet")})
    run(train, {"ticks": f"file:{folder / 'ticks.jsonl'}"}, {"models": f"file:{folder / 'models.jsonl'}"})
    return folder


def files(folder):
    """What is behind each source, and on which peer: as far apart as eight peers allow."""
    return {
        "lamp": {"readings": folder / "rooms.csv"},
        "heater": {"lines": folder / "lines.jsonl"},
        "kettle": {"bids": folder / "bids.parquet"},
        "meter": {"auctions": folder / "auctions.parquet"},
        "gate": {"persons": folder / "persons.parquet"},
        "pump": {"messages": folder / "messages.jsonl"},
        "bell": {"models": folder / "models.jsonl"},
        "fan": {"ticks": folder / "ticks.jsonl"},
    }


@pytest.fixture(scope="module")
def house(tmp_path_factory, inputs):
    """Eight peers in three zones, each with a source, and an operator who may launch."""
    for fleet in one_fleet(tmp_path_factory.mktemp("house")):
        fleet.enroll("boss", role="operator")
        for number, (name, sources) in enumerate(files(inputs).items()):
            flags = [word for source, path in sources.items() for word in ("--source", f"{source}=file:{path}")]
            fleet.start(name, zone=ZONES[number % len(ZONES)], join=fleet.members[:1], flags=flags)
            fleet.await_listening(fleet.members[:1])
        fleet.await_ring()
        yield fleet


def bag(lines):
    """Rows in any order; numbers to nine digits, for sums of floats depend on the order of their rows."""

    def plain(value):
        return float(f"{value:.9g}") if isinstance(value, float) else json.dumps(value)

    rows = [json.loads(line) for line in lines.splitlines()]
    return Counter(tuple((name, plain(value)) for name, value in sorted(row.items())) for row in rows)


def launched(peer, house, app, *arguments, through="meter"):
    """Launch it through any peer, and take all its rows."""
    member = next(it for it in house.members if it.name == through)
    boss = house.folder / "enrolled" / "boss"
    result = peer("launch", EXAMPLES / app, *arguments, "--as", boss, "--data", member.data, "-o", "json")
    assert result.exit_code == 0, result.output
    return result


def on_one_machine(peer, app, inputs, *arguments):
    wanted = {node.name for node in load_app(EXAMPLES / app).graph.of_kind("source")}
    flags = [
        word
        for sources in files(inputs).values()
        for name, path in sources.items()
        if name in wanted
        for word in ("--source", f"{name}=file:{path}")
    ]
    result = peer("launch", "--local", EXAMPLES / app, *flags, *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return result.stdout


ONE_SINK = ["hot_rooms.py", "word_count.py", *(f"nexmark/{query}.py" for query in QUERIES)]


@pytest.mark.parametrize("app", [*ONE_SINK, "riotbench/etl.py", "riotbench/stats.py"])
def test_eight_peers_give_the_rows_of_one_process(peer, house, inputs, app):
    expected = bag(on_one_machine(peer, app, inputs))
    assert expected, "an app without rows shows nothing"
    assert bag(launched(peer, house, app).stdout) == expected


def test_a_parameter_travels_with_the_app(peer, house, inputs):
    table = ("--param", f"table={inputs / 'readings.parquet'}")
    expected = bag(on_one_machine(peer, "riotbench/train.py", inputs, *table))
    assert expected
    assert bag(launched(peer, house, "riotbench/train.py", *table).stdout) == expected


def test_predictions_come_once_for_each_message(peer, house):
    """Which model a message meets depends on when it comes, so values differ from run to run; rows do not double."""
    rows = [json.loads(line) for line in launched(peer, house, "riotbench/pred.py").stdout.splitlines()]
    assert len({(row["id"], row["what"]) for row in rows}) == len(rows)


def test_an_app_that_has_ended_is_listed_so_and_may_be_launched_again(peer, house, inputs):
    lamp = house.members[0].data
    launched(peer, house, "nexmark/q1.py")

    def state():
        rows = json.loads(peer("apps", "--data", lamp, "-o", "json").stdout)
        return [(row["state"], row["generation"]) for row in rows if row["name"] == "nexmark-q1"]

    house.until(lambda: state() and state()[0][0] == "ended", "the keeper to say that it ended", within_s=20)
    before = state()[0][1]
    launched(peer, house, "nexmark/q1.py", through="lamp")
    house.until(lambda: state() == [("ended", before + 1)], "the second run to end", within_s=20)


def test_a_dry_run_says_where_and_why_and_starts_nothing(peer, house):
    answer = json.loads(launched(peer, house, "word_count.py", "--dry-run").stdout)
    assert {place["name"] for place in answer["places"]} >= {"lines", "counts"}
    assert all(place["why"] for place in answer["places"])


@pytest.mark.parametrize(
    ("app", "says"),
    [
        (
            "from dataflow import App\napp = App('x')\napp.source('nothing', schema={'n': 'int64'}).sink('out')\n",
            'No peer offers source "nothing"',
        ),
        ("import nowhere_to_be_found\n", "nowhere_to_be_found"),
    ],
)
def test_a_launch_that_cannot_be_says_why(peer, house, tmp_path, app, says):
    path = tmp_path / "x.py"
    path.write_text(app)
    boss, lamp = house.folder / "enrolled" / "boss", house.members[0].data
    result = peer("launch", path, "--as", boss, "--data", lamp)
    assert result.exit_code == 1
    assert says in result.stderr
    assert "Traceback" not in result.stderr


def test_a_device_may_not_launch(peer, house):
    lamp = house.members[0].data
    result = peer("launch", EXAMPLES / "hot_rooms.py", "--as", lamp, "--data", lamp)
    assert result.exit_code == 1
    assert "only an operator may launch" in result.stderr


def test_a_function_that_raises_fails_the_app_everywhere_with_its_own_words(peer, house, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text(
        "from dataflow import App\n"
        "def bad(batch):\n    raise ValueError('no such luck')\n"
        "app = App('broken')\n"
        "schema = {'auction': 'int64', 'bidder': 'int64', 'price': 'int64', 'at': 'timestamp[us]'}\n"
        "app.source('bids', schema=schema).map_batches(bad, schema={'n': 'int64'}).sink('out')\n"
    )
    boss, lamp = house.folder / "enrolled" / "boss", house.members[0].data
    result = peer("launch", path, "--as", boss, "--data", lamp)
    assert result.exit_code == 1
    assert "no such luck" in result.stderr


def test_a_stream_that_is_not_there_names_those_that_are(peer, house):
    launched(peer, house, "hot_rooms.py")
    result = peer("tail", "hot-rooms/alarms", "--data", house.members[0].data)
    assert result.exit_code == 1
    assert "alerts" in result.stderr
    result = peer("tail", "cold-rooms/alerts", "--data", house.members[0].data)
    assert result.exit_code == 1
    assert "There is no app 'cold-rooms'" in result.stderr


def test_what_a_device_offers_is_shown_there(peer, house, inputs):
    rows = json.loads(peer("offers", "--here", "--data", house.members[0].data, "-o", "json").stdout)
    assert rows == [{"kind": "source", "name": "readings", "spec": f"file:{inputs / 'rooms.csv'}"}]
