"""NEXMark Q5: the auctions with the most bids in the last ten seconds, every two seconds; all of them if some tie.

A window's result bears the time of its end, and one window ends every two seconds: so windows of two seconds
bring together the counts of one window, and equal times say that a count and a maximum are of the same window.
"""

from dataflow import App, col, count, sliding, tumbling

app = App("nexmark-q5")
bids = app.source(
    "bids",
    schema={"auction": "int64", "bidder": "int64", "price": "int64", "at": "timestamp[us]"},
    event_time="at",
)

counts = bids.key_by("auction").window(sliding("10s", every="2s")).aggregate(bids=count())
most = counts.key_by().window(tumbling("2s")).aggregate(bids=col("bids").max())
hot = counts.key_by("window_end", "bids").join(most.key_by("window_end", "bids"), within=("0s", "0s"))
hot.select("window_start", "window_end", "auction", "bids").sink("out")
