"""What the apps know about each input of RIoTBench before a row arrives.

SYS are weather stations of cities, TAXI are trips. A reading outside its range is wrong. `--param dataset=taxi`
chooses; everything else of an app stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

Ranges = dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Dataset:
    name: str
    source: str  # the SenML field that names the sensor
    ranges: Ranges  # of each kind of observation
    features: tuple[str, ...]  # what models see
    target: str  # what models tell
    block_rows: int  # readings of a block average
    sensors: tuple[str, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self.ranges)

    @property
    def reading(self) -> dict[str, str]:
        """The schema of a whole message: one column a kind."""
        return {"id": "int64", "at": "timestamp[ms]", "sensor": "string", **dict.fromkeys(self.kinds, "float64")}

    @property
    def installed(self) -> list[str]:
        """Which sensor has a probe for what. Every seventh has none for the last kind."""
        return [
            f"{sensor}/{kind}"
            for at, sensor in enumerate(self.sensors)
            for kind in (self.kinds[:-1] if at % 7 == 6 else self.kinds)
        ]

    @property
    def places(self) -> dict[str, list[str]]:
        """The static table: where each sensor belongs."""
        towns = ("Geneva", "Boston", "Rio", "Shanghai")
        return {"sensor": list(self.sensors), "place": [towns[at % 4] for at in range(len(self.sensors))]}


SYS = Dataset(
    name="sys",
    source="source",
    ranges={
        "temperature": (-12.5, 43.1),
        "humidity": (10.7, 95.2),
        "light": (1345, 26282),
        "dust": (186.61, 5188.21),
        "airquality_raw": (17, 363),
    },
    features=("temperature", "humidity", "light", "dust"),
    target="airquality_raw",
    block_rows=5,
    sensors=tuple(f"station{at:02}" for at in range(20)),
)
TAXI = Dataset(
    name="taxi",
    source="taxi_identifier",
    ranges={
        "trip_time_in_secs": (140, 3155),
        "trip_distance": (1.37, 29.86),
        "fare_amount": (6, 201),
        "tip_amount": (0.65, 38.55),
        "tolls_amount": (2.5, 18),
    },
    features=("trip_time_in_secs", "trip_distance"),
    target="fare_amount",
    block_rows=10,
    sensors=tuple(f"cab{at:02}" for at in range(12)),
)
DATASETS = {"sys": SYS, "taxi": TAXI}
