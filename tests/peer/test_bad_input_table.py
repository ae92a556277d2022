"""The table of bad input in docs/apps.md is what really happens: every row is run, and the table made of what was said.

If a sentence has changed on purpose, the failing test shows the table to put into the page.
"""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
HOT_ROOMS = (ROOT / "examples" / "hot_rooms.py").read_text()
HEAD = "room,celsius,at\n"
GOOD = "attic,31,2026-01-01T00:00:00\n"
RUN = "launch --local hot_rooms.py --source readings=file:rooms.csv"
BEGIN, END = "<!-- bad input: made by a test -->\n", "<!-- end -->\n"


def drifted():
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"room": ["a"], "celsius": ["hot"], "at": pa.array([1], pa.timestamp("ms"))}), out)
    return out.getvalue().to_pybytes()


# what is wrong, the files there are besides hot_rooms.py, what is typed after `peer`
CASES = [
    ("a broken row", {"rooms.csv": HEAD + GOOD + "attic,31\n"}, RUN),
    ("the same, `--strict`", {"rooms.csv": HEAD + GOOD + "attic,31\n"}, f"{RUN} --strict"),
    ("no good row at all", {"rooms.csv": HEAD + "attic,31\n"}, RUN),
    ("a wrong type", {"rooms.csv": HEAD + GOOD + "attic,hot,2026-01-01T00:00:00\n"}, RUN),
    ("a row without its time", {"rooms.csv": HEAD + GOOD + "attic,31,\n"}, RUN),
    ("schema drift: a column more", {"rooms.csv": HEAD + GOOD + "attic,31,2026-01-01T00:00:00,new\n"}, RUN),
    ("schema drift: a file of other types", {"r.parquet": drifted()}, RUN.replace("rooms.csv", "r.parquet")),
    ("a missing column", {"rooms.csv": "room,celcius,at\n"}, RUN),
    ("a missing field", {"r.jsonl": '{"room": "a", "at": 1}\n'}, RUN.replace("rooms.csv", "r.jsonl")),
    ("a missing file", {}, RUN),
    ("an empty file", {"rooms.csv": ""}, RUN),
    ("an unreadable file: a folder", {}, RUN.replace("rooms.csv", ".")),
    ("an unreadable file: not what its name says", {"r.parquet": "rubbish"}, RUN.replace("rooms.csv", "r.parquet")),
    ("an unknown source", {"rooms.csv": HEAD + GOOD}, RUN.replace("readings=", "reading=")),
    ("a source that is not connected", {}, "launch --local hot_rooms.py"),
    ("an unknown kind of source", {}, "launch --local hot_rooms.py --source readings=kafka:x"),
    ("not NAME=SPEC", {}, "launch --local hot_rooms.py --source rooms.csv"),
    ("no app file", {}, "launch --local no.py"),
    ("an app file that raises", {"bad.py": "\n1 / 0\n"}, "validate bad.py"),
    ("an app file that is no Python", {"bad.py": "x = (\n"}, "validate bad.py"),
    ("an app file without `app`", {"bad.py": "x = 1\n"}, "validate bad.py"),
    ("an unknown column", {"bad.py": HOT_ROOMS.replace('col("celsius") >', 'col("celcius") >')}, "validate bad.py"),
]


def said(result):
    """All of it but usage and the closing line, which has a rate in it."""
    lines = [re.sub(r"^Error: ", "", it) for it in result.stderr.splitlines()]
    kept = [it for it in lines if it and not it.startswith(("Usage:", "Try '", "hot-rooms: "))]
    return "<br>".join(kept).replace("|", "\\|").replace(f"{Path.cwd()}/", "")


def row_of(peer, folder, files, typed):
    for old in folder.iterdir():
        old.unlink()
    for name, content in {"hot_rooms.py": HOT_ROOMS, **files}.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = peer(*typed.split())
    assert "Traceback" not in result.output
    return result.exit_code, said(result)


def test_the_table_in_the_docs_says_what_happens(peer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(what, *row_of(peer, tmp_path, files, typed)) for what, files, typed in CASES]
    table = "".join(f"| {what} | {code} | {text} |\n" for what, code, text in rows)
    made = f"| what | exit code | what is said |\n|---|---|---|\n{table}"
    shown = (ROOT / "docs" / "apps.md").read_text().partition(BEGIN)[2].partition(END)[0]
    assert shown == made, f"docs/apps.md should have:\n{made}"
