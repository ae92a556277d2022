from dataflow import App, col, count, tumbling

app = App("hot-rooms")
readings = app.source("readings", schema={"room": "string", "celsius": "float64", "at": "timestamp[ms]"},
                      event_time="at", lateness="2s")
(readings.filter(col("celsius") > 30)
         .key_by("room")
         .window(tumbling("10s"))
         .aggregate(readings=count(), hottest=col("celsius").max())
         .sink("alerts"))
