"""The same as an expression."""

from dataflow import App, col

app = App("rows")
bids = app.source("bids", schema={"auction": "int64", "price": "int64"})
bids.select("auction", euros=col("price") * 0.908).sink("out")
