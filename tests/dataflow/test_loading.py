import pytest

from dataflow import AppError
from dataflow.loading import load_app

GOOD = """
from dataflow import App, col
app = App("good")
limit = app.param("limit", 30.0)
app.source("in", schema={"x": "float64"}).filter(col("x") > limit).sink("out")
"""


def write(tmp_path, text):
    file = tmp_path / "my_app.py"
    file.write_text(text)
    return file


def test_an_app_file_is_an_app(tmp_path):
    app = load_app(write(tmp_path, GOOD))
    assert app.name == "good" and app.params == {"limit": 30.0}
    assert load_app(app.file, {"limit": "5"}).params == {"limit": 5.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("app = 3", "my_app.py: no `app` in the file"),
        ("", "my_app.py: no `app` in the file"),
        ("x = (", "my_app.py:1: syntax error"),
        ("\n1 / 0", "my_app.py:2: the app file raises ZeroDivisionError: division by zero"),
        ("import no_such_module", "my_app.py:1: the app file raises ModuleNotFoundError"),
        ("raise SystemExit(3)", "my_app.py:1: the app file raises SystemExit: 3"),
        (GOOD.replace('col("x")', 'col("y")'), 'my_app.py:5: filter: no column "y"'),
        (GOOD.replace('.sink("out")', ""), "has no sink"),
    ],
)
def test_a_bad_app_file_is_one_sentence(tmp_path, text, message):
    with pytest.raises(AppError) as caught:
        load_app(write(tmp_path, text))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_params_are_checked(tmp_path):
    file = write(tmp_path, GOOD)
    with pytest.raises(AppError, match="param \"limit\": 'hot' is not float"):
        load_app(file, {"limit": "hot"})
    with pytest.raises(AppError, match='no param "limt"; did you mean "limit"'):
        load_app(file, {"limt": "3"})


def test_a_missing_file(tmp_path):
    with pytest.raises(AppError, match="does not exist"):
        load_app(tmp_path / "nothing.py")
