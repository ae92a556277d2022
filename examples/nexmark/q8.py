"""NEXMark Q8: who registered and opened an auction within the same ten seconds? Each person once."""

from dataflow import App, count, tumbling

app = App("nexmark-q8")
people = app.source(
    "persons",
    schema={"id": "int64", "name": "string", "city": "string", "state": "string", "at": "timestamp[us]"},
    event_time="at",
)
auctions = app.source(
    "auctions",
    schema={"id": "int64", "seller": "int64", "category": "int64", "at": "timestamp[us]", "expires": "timestamp[us]"},
    event_time="at",
)

sellers = auctions.key_by("seller").window(tumbling("10s")).aggregate(auctions=count())
newcomers = people.key_by("id").join(sellers.key_by("seller"), window=tumbling("10s"))
newcomers.select("window_start", "id", "name", "auctions").sink("out")
