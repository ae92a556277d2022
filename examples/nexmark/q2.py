"""NEXMark Q2: bids on every 123rd auction."""

from dataflow import App, col

app = App("nexmark-q2")
bids = app.source(
    "bids",
    schema={"auction": "int64", "bidder": "int64", "price": "int64", "at": "timestamp[us]"},
    event_time="at",
)
bids.filter(col("auction") % 123 == 0).select("auction", "price").sink("out")
