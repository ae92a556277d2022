"""An app file brings along what it imports from beside it, and nothing else."""

from pathlib import Path

import pytest

from dataflow import AppError
from dataflow.bundles.bundle import BundleError
from dataflow.bundles.collecting import collect

ROOT = Path(__file__).parents[3]


def write(folder, **files):
    for name, text in files.items():
        path = folder / (name.replace("__in__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "my_app.py"


def test_modules_are_followed_through_modules_functions_and_packages(tmp_path):
    app = write(
        tmp_path,
        my_app="import helpers\ndef late():\n    from rooms import table\nimport numpy, json, dataflow.app",
        helpers="from deep.er import thing",
        unused="",
        json="raise RuntimeError",
        dataflow__in__app="",
        rooms__in____init__="from . import walls\nfrom .doors import Door",
        rooms__in__table="",
        rooms__in__walls="",
        rooms__in__doors="class Door: pass",
        rooms__in__unused="",
        deep__in__er__in__thing="import my_app",
    )
    assert list(collect(app).files) == [
        "deep/er/thing.py",
        "helpers.py",
        "my_app.py",
        "rooms/__init__.py",
        "rooms/doors.py",
        "rooms/table.py",
        "rooms/walls.py",
    ]


def test_where_the_files_lie_does_not_change_the_hash(tmp_path):
    one = write(tmp_path / "one", my_app="import helpers", helpers="x = 1")
    two = write(tmp_path / "two" / "deep", my_app="import helpers", helpers="x = 1", other="")
    assert collect(one, {"limit": "3"}).id == collect(two, {"limit": "3"}).id != collect(one).id


def test_an_example_of_several_files():
    files = collect(ROOT / "examples" / "riotbench" / "stats.py").files
    assert "stats.py" in files and "riot/kalman.py" in files and "riot/tree.py" not in files


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"my_app": "x = ("}, r"my_app\.py:1: syntax error"),
        ({"my_app": "import helpers", "helpers": "\n\ndef f(:"}, r"helpers\.py:3: syntax error"),
        ({"my_app": "\nfrom .. import x"}, r"my_app\.py:2: a relative import that leaves the app's folder"),
        ({"my_app": "x = 1\0"}, r"my_app\.py:\d: syntax error"),
    ],
)
def test_what_cannot_be_collected_is_a_sentence_with_file_and_line(tmp_path, files, words):
    with pytest.raises(AppError, match=words):
        collect(write(tmp_path, **files))


def test_files_that_are_none(tmp_path):
    with pytest.raises(AppError, match="does not exist"):
        collect(tmp_path / "nothing.py")
    with pytest.raises(AppError, match="is not a file"):
        collect(tmp_path)
    (tmp_path / "app.txt").write_text("")
    with pytest.raises(AppError, match=r"must end in \.py"):
        collect(tmp_path / "app.txt")
    (tmp_path / "bytes.py").write_bytes(b"x = '\xff'")
    with pytest.raises(AppError, match="not Python source"):
        collect(tmp_path / "bytes.py")


def test_too_many_files(tmp_path):
    app = write(tmp_path, my_app="\n".join(f"import m{n}" for n in range(300)), **{f"m{n}": "" for n in range(300)})
    with pytest.raises(BundleError, match="more than 256 files"):
        collect(app)
