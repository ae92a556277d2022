"""Every row passes, and time plays no part: for as many rows as one likes."""

from dataflow import App

BIDS = {"auction": "int64", "bidder": "int64", "price": "int64", "at": "timestamp[us]"}

app = App("bench-flood", guarantee="none")
app.source("bids", schema=BIDS).select("auction", "bidder", "price", "at").sink("out")
