"""NEXMark Q3: who sells in category 10 in Oregon, Idaho or California?

NEXMark joins for ever. A join here is bounded in time, so that its state is: an auction finds its seller for
`remember` after the seller registered (a day, unless --param says otherwise).
"""

from dataflow import App, col

app = App("nexmark-q3")
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

local = people.filter(col("state").is_in(["OR", "ID", "CA"])).key_by("id")
offers = auctions.filter(col("category") == 10).select("seller", "at", auction=col("id")).key_by("seller")
local.join(offers, within=("0s", app.param("remember", "1d"))).select("name", "city", "state", "auction").sink("out")
