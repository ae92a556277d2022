"""A row function that has something to do: some tens of microseconds a row."""

from typing import Any

from dataflow import App

WORDS = "zero one two three four five six seven eight nine"


def spelled(row: dict[str, Any]) -> dict[str, Any]:
    words = [WORDS.split()[int(digit)] for digit in str(row["price"] ** 12)]
    return {"auction": row["auction"], "words": "-".join(sorted(words))}


app = App("heavy")
bids = app.source("bids", schema={"auction": "int64", "price": "int64"})
bids.map(spelled, schema={"auction": "int64", "words": "string"}, parallelism=1).sink("out")
