"""W2 between peers: the bids of every 123rd auction."""

from dataflow import App, col

BIDS = {"auction": "int64", "bidder": "int64", "price": "int64", "at": "timestamp[us]"}

app = App("bench-w2", guarantee="none")
bids = app.source("bids", schema=BIDS, event_time="at")
bids.filter(col("auction") % 123 == 0).select("auction", "price").sink("out")
