"""word_count against a Counter of each minute."""

import json
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from dataflow.connectors.sinks import Memory
from dataflow.loading import load_app
from dataflow.local import run
from examples.lines_data import rows

ROOT = Path(__file__).parents[2]


def by_counters(said, *, letters):
    counts: Counter[tuple[str, datetime]] = Counter()
    for row in said:
        minute = datetime.fromisoformat(row["at"]).replace(second=0, microsecond=0)
        words = ("".join(it for it in word if it.isalpha()).lower() for word in row["line"].split())
        counts.update((word, minute) for word in words if len(word) >= letters)
    return dict(counts)


@pytest.mark.parametrize("letters", [1, 4, 7])
def test_word_count_counts_what_counters_count(tmp_path, letters):
    said = list(rows(1_500, seed=letters))
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in said))
    counts = Memory()
    app = load_app(ROOT / "examples" / "word_count.py")
    summary = run(app, {"lines": f"file:{path}"}, {"counts": counts}, params={"letters": str(letters)})
    assert {(row["word"], row["window_start"]): row["times"] for row in counts.rows} == by_counters(
        said, letters=letters
    )
    assert (summary.rows_in, summary.late, summary.dead_letters) == (1_500, 0, 0)


def test_one_seed_is_one_file():
    assert list(rows(50, 7)) == list(rows(50, 7)) != list(rows(50, 8))
