"""NEXMark Q0: every bid, untouched. What the engine costs when it does nothing."""

from dataflow import App

app = App("nexmark-q0")
bids = app.source(
    "bids",
    schema={"auction": "int64", "bidder": "int64", "price": "int64", "at": "timestamp[us]"},
    event_time="at",
)
bids.sink("out")
