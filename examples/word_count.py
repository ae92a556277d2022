"""How often each word is said in a minute, for words that are long enough to matter.

python -m examples.lines_data lines.jsonl
peer launch --local examples/word_count.py --source lines=file:lines.jsonl --param letters=5
"""

from collections.abc import Iterator
from typing import Any

from dataflow import App, col, count, tumbling

app = App("word-count")
letters = app.param("letters", 4)


def words(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for word in row["line"].split():
        yield {"word": word.strip(".,;:!?").lower(), "at": row["at"]}


lines = app.source("lines", schema={"line": "string", "at": "timestamp[ms]"}, event_time="at")
(lines.flat_map(words, schema={"word": "string", "at": "timestamp[ms]"})
      .filter(col("word").str.len_chars() >= letters)
      .key_by("word")
      .window(tumbling("1m"))
      .aggregate(times=count())
      .sink("counts"))
