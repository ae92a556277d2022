"""A bundle is imported into a namespace of its own: nothing clashes, nothing is written, errors name the line."""

import sys
from pathlib import Path

import pytest

from dataflow import AppError
from dataflow.bundles.bundle import Bundle
from dataflow.bundles.collecting import collect
from dataflow.bundles.importing import load_bundle, namespace_of, unload_bundle
from dataflow.bundles.sealing import trusted_here
from dataflow.loading import load_app
from dataflow.plan import make_plan
from dataflow.testing import run_rows

ROOT = Path(__file__).parents[3]
APP = """
from dataflow import App
import helpers
app = App("two-files")
app.source("in", schema={"x": "int64"}).map(lambda row: {"x": helpers.change(row["x"])}).sink("out")
"""


def load(files, params=None, app_file="my_app.py"):
    return load_bundle(trusted_here(Bundle(app_file, files, params or {})))


def out(app):
    return [row["x"] for row in run_rows(app, {"in": [{"x": 5}]})["out"]]


def test_two_apps_with_a_module_of_the_same_name_do_not_clash():
    twice = load({"my_app.py": APP, "helpers.py": "def change(x): return 2 * x"})
    square = load({"my_app.py": APP, "helpers.py": "def change(x): return x * x"})
    assert (out(twice), out(square), out(twice)) == ([10], [25], [10])
    assert "helpers" not in sys.modules and "my_app" not in sys.modules


def test_imports_in_functions_find_their_own_bundle_later():
    text = APP.replace("import helpers", "").replace("helpers.change(row", "late(row") + "def late(x):\n"
    apps = [
        load({"my_app.py": f"{text}    from rooms.walls import n\n    return x + n", "rooms/walls.py": f"n = {n}"})
        for n in (1, 2)
    ]
    assert [out(app) for app in apps] == [[6], [7]]


def test_packages_relative_imports_and_dotted_names():
    text = APP.replace("import helpers", "import rooms.doors, rooms.walls as w\nfrom rooms import *")
    app = load(
        {
            "my_app.py": text.replace("helpers.change", "(lambda x: rooms.doors.add(x) + w.n + size)"),
            "rooms/__init__.py": "from . import walls\nfrom .walls import n as size\n__all__ = ['size']",
            "rooms/walls.py": "n = 100",
            "rooms/doors.py": "from .walls import n\nfrom rooms import walls\ndef add(x): return x + n + walls.n",
        }
    )
    assert out(app) == [5 + 400]


def test_the_hosts_own_modules_are_never_hidden():
    text = APP.replace("import helpers", "import json, helpers")
    files = {"my_app.py": text, "json.py": "1 / 0", "dataflow.py": "1 / 0"}
    assert out(load({**files, "helpers.py": "def change(x): return x"})) == [5]


def test_a_bundle_sees_no_file_of_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "helpers.py").write_text("def change(x): return -1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert out(load({"my_app.py": APP, "helpers.py": "def change(x): return x"})) == [5]
    assert [it.name for it in tmp_path.rglob("*")] == ["helpers.py"]


def test_parameters_come_with_the_bundle():
    text = APP.replace("import helpers", "").replace("helpers.change", "add").replace(
        'App("two-files")', 'App("p")\nn = app.param("n", 1)\ndef add(x): return x + n'
    )
    assert out(load({"my_app.py": text}, {"n": "7"})) == [12]
    with pytest.raises(AppError, match='no param "m"'):
        load({"my_app.py": text}, {"m": "7"})


@pytest.mark.parametrize(
    ("text", "helpers", "message"),
    [
        ("x = (", "", "my_app.py:1: syntax error"),
        ("\n1 / 0", "", "my_app.py:2: the app raises ZeroDivisionError: division by zero"),
        ("import helpers", "\n\n1 / 0", "helpers.py:3: the app raises ZeroDivisionError"),
        ("import helpers", "\ndef f(:", "helpers.py:2: syntax error"),
        ("import no_such_module", "", "my_app.py:1: the app raises ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)", "", "my_app.py:1: the app raises SystemExit: 3"),
        ("app = 3", "", "my_app.py: no `app` in the file"),
        (APP.replace('"x": "int64"', '"x": "int65"'), "def change(x): return x", 'my_app.py:5: source "in"'),
    ],
)
def test_errors_carry_the_users_file_and_line_and_leave_nothing_behind(text, helpers, message):
    bundle = Bundle("my_app.py", {"my_app.py": text, "helpers.py": helpers})
    finders = list(sys.meta_path)
    with pytest.raises(AppError) as caught:
        load_bundle(trusted_here(bundle))
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert sys.meta_path == finders and not [it for it in sys.modules if it.startswith(namespace_of(bundle))]


def test_loading_again_gives_the_same_graph_and_unloading_forgets():
    bundle = Bundle("my_app.py", {"my_app.py": APP, "helpers.py": "def change(x): return x"})
    first, second = (load_bundle(trusted_here(bundle)) for _ in range(2))
    assert first is not second and out(first) == out(second) == [5]
    finders = len(sys.meta_path)
    unload_bundle(bundle)
    assert len(sys.meta_path) == finders - 1 and namespace_of(bundle) not in sys.modules
    assert out(second) == [5]


APPS = ["hot_rooms.py", "word_count.py", "urban_sensing.py", *(f"nexmark/q{n}.py" for n in (0, 1, 2, 3, 4, 5, 7, 8))]


@pytest.mark.parametrize("name", [*APPS, "riotbench/etl.py", "riotbench/stats.py", "riotbench/pred.py"])
def test_every_example_has_the_same_plan_from_its_bundle(name):
    path = ROOT / "examples" / name
    here, there = make_plan(load_app(path).graph), make_plan(load_bundle(trusted_here(collect(path))).graph)
    assert [(it.name, it.inputs) for it in here.stages] == [(it.name, it.inputs) for it in there.stages]
    assert here.sinks == there.sinks and here.schemas == there.schemas
