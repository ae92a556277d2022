"""Bad air in a city: which districts to warn, and which sensors to mend.

Sensors report fine dust and noise. A reading that cannot be true counts against its sensor, any other for its
district: a district is warned each minute in which its last five were too dusty, by enough readings to be sure.

python examples/urban_sensing.py readings.csv                                    # makes an hour of readings
peer launch --local examples/urban_sensing.py --source readings=file:readings.csv --param dust_max=30
"""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dataflow import App, col, count, sliding, tumbling

SENSORS = 60
SENSOR_NAMES = [f"s{number:02}" for number in range(SENSORS)]
DISTRICTS = {"sensor": SENSOR_NAMES, "district": [("Harbour", "Mill", "Park")[n % 3] for n in range(SENSORS)]}
READINGS_MIN = 20

app = App("urban-sensing")
readings = app.source(
    "readings",
    schema={"sensor": "string", "dust": "float64", "noise_db": "float64", "at": "timestamp[ms]"},
    event_time="at",
    lateness="10s",
)
good, broken = readings.split((col("dust") >= 0) & (col("noise_db") < 130))

air = good.enrich(DISTRICTS, on="sensor", how="inner").key_by("district").window(sliding("5m", every="1m"))
summary = air.aggregate(readings=count(), dust=col("dust").mean(), loudest_db=col("noise_db").max())
dusty = (col("dust") > app.param("dust_max", 25.0)) & (col("readings") >= READINGS_MIN)
summary.filter(dusty).sink("warnings")

faults = broken.key_by("sensor").window(tumbling("10m")).aggregate(faults=count())
faults.filter(col("faults") >= app.param("faults_min", 3)).sink("repairs")


def an_hour(*, seed: int, readings: int = 20_000) -> pa.RecordBatch:
    """Readings a few seconds out of order; a dusty half hour in the Harbour; two sensors that are broken."""
    rng = np.random.default_rng(seed)
    sensor = rng.integers(SENSORS, size=readings)
    second = np.sort(rng.random(readings)) * 3600
    storm = (sensor % 3 == 0) & (second > 1200) & (second < 3000)
    dust = rng.gamma(4.0, np.where(storm, 9.0, 4.0))
    dust = np.where(np.isin(sensor, (7, 31)) & (rng.random(readings) < 0.3), -1.0, dust)
    noise = np.where(rng.random(readings) < 0.001, 140.0, 50 + 40 * rng.random(readings))
    at_ms = (second * 1000 - 8000 * rng.random(readings)).astype(np.int64) + 1_750_000_000_000
    columns = [
        pa.array(SENSOR_NAMES).take(pa.array(sensor)),
        pa.array(np.round(dust, 1)),
        pa.array(np.round(noise, 1)),
        pa.array(at_ms).cast(pa.timestamp("ms")),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["sensor", "dust", "noise_db", "at"])


if __name__ == "__main__":
    pyarrow.csv.write_csv(pa.Table.from_batches([an_hour(seed=1)]), sys.argv[1])
