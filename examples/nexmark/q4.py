"""NEXMark Q4: the average closing price of each category.

An auction closes when event time reaches `expires`. Its closing price is the highest bid at or after its opening
and before it expires; an auction that nobody bid on has none. Each closing gives the average of its category so
far, so the last row of a category is its average over all the auctions that were closed.
"""

from collections.abc import Iterator
from datetime import datetime

from dataflow import App, col, lit
from dataflow.batches import Row
from dataflow.operators.process import Timers

app = App("nexmark-q4")
auctions = app.source(
    "auctions",
    schema={"id": "int64", "seller": "int64", "category": "int64", "at": "timestamp[us]", "expires": "timestamp[us]"},
    event_time="at",
)
bids = app.source(
    "bids",
    schema={"auction": "int64", "bidder": "int64", "price": "int64", "at": "timestamp[us]"},
    event_time="at",
)


class Closing:
    """One auction: remembers its highest bid, and tells it when the time has come."""

    def on_row(self, row: Row, state: Row, timers: Timers) -> None:
        if not row["is_bid"]:
            state["category"] = row["category"]
            timers.set(row["expires"])
        elif state:  # before it opens and after it is closed, an auction takes no bids
            state["price"] = max(row["price"], state.get("price", 0))

    def on_timer(self, key: Row, at: datetime, state: Row, timers: Timers) -> Iterator[Row]:
        if "price" in state:
            yield {"category": state["category"], "price": state["price"], "at": at}
        state.clear()


def average(row: Row, state: Row, timers: Timers) -> Row:
    state["closed"] = state.get("closed", 0) + 1
    state["total"] = state.get("total", 0) + row["price"]
    return {"category": row["category"], "average": state["total"] / state["closed"], "at": row["at"]}


opened = auctions.select("at", "category", "expires", auction=col("id"), price=lit(0), is_bid=lit(False))
offered = bids.with_columns(category=lit(0), expires=col("at"), is_bid=lit(True))
offered = offered.select("at", "category", "expires", "auction", "price", "is_bid")
closed = (
    opened.union(offered)
    .key_by("auction")
    .process(Closing, schema={"category": "int64", "price": "int64", "at": "timestamp[us]"})
)
averages = closed.key_by("category").process(
    average, schema={"category": "int64", "average": "float64", "at": "timestamp[us]"}
)
averages.sink("out")
