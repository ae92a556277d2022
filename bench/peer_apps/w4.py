"""W4 between peers: mean and max for each key and ten seconds."""

from dataflow import App, col, tumbling

READINGS = {"key": "int64", "value": "int64", "at": "timestamp[us]"}

app = App("bench-w4", guarantee="none")
readings = app.source("readings", schema=READINGS, event_time="at")
windows = readings.key_by("key").window(tumbling("10s"))
windows.aggregate(mean=col("value").mean(), highest=col("value").max()).sink("out")
