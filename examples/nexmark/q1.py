"""NEXMark Q1: bids in euros."""

from dataflow import App, col

EUROS_A_DOLLAR = 0.908

app = App("nexmark-q1")
bids = app.source(
    "bids",
    schema={"auction": "int64", "bidder": "int64", "price": "int64", "at": "timestamp[us]"},
    event_time="at",
)
bids.with_columns(price=col("price") * EUROS_A_DOLLAR).sink("out")
