"""NEXMark Q7: the highest bid of every ten seconds; among equals, the one that came first."""

from dataflow import App, tumbling

app = App("nexmark-q7")
bids = app.source(
    "bids",
    schema={"auction": "int64", "bidder": "int64", "price": "int64", "at": "timestamp[us]"},
    event_time="at",
)
highest = bids.key_by().window(tumbling("10s")).top_k(1, by="price")
highest.select("window_start", "auction", "bidder", "price", "at").sink("out")
