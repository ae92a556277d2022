"""Four stages for whoever measures launches: a source, a filter, a window by key, a sink."""

from dataflow import App, col, count, tumbling

app = App("bench-rooms")
number = app.param("number", 0)
readings = app.source(
    app.param("source", "readings"),
    schema={"room": "string", "celsius": "float64", "at": "timestamp[ms]"},
    event_time="at",
    lateness="2s",
)
windows = readings.filter(col("celsius") > 30).key_by("room").window(tumbling("10s"))
windows.aggregate(readings=count(), hottest=col("celsius").max()).sink("alerts")
