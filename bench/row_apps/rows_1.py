"""A Python row function."""

from typing import Any

from dataflow import App


def euros(row: dict[str, Any]) -> dict[str, Any]:
    return {"auction": row["auction"], "euros": row["price"] * 0.908}


app = App("rows")
bids = app.source("bids", schema={"auction": "int64", "price": "int64"})
bids.map(euros, schema={"auction": "int64", "euros": "float64"}, parallelism=1).sink("out")
