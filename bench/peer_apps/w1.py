"""W1 between peers: every row passes an operator that changes nothing."""

from dataflow import App

BIDS = {"auction": "int64", "bidder": "int64", "price": "int64", "at": "timestamp[us]"}

app = App("bench-w1", guarantee="none")
bids = app.source("bids", schema=BIDS, event_time="at")
bids.select("auction", "bidder", "price", "at").sink("out")
