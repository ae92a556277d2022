"""A Kalman filter of one number that stays put: how far to trust the next measurement.

>>> smooth = Estimate()
>>> for measured in (10.0, 12.0, 11.0):
...     smooth = smooth.after(measured)
>>> round(smooth.value, 3)
11.059
"""

from __future__ import annotations

from typing import NamedTuple

PROCESS_NOISE, SENSOR_NOISE = 0.125, 0.32


class Estimate(NamedTuple):
    value: float = 0.0
    variance: float = 30.0

    def after(self, measured: float) -> Estimate:
        variance = self.variance + PROCESS_NOISE
        gain = variance / (variance + SENSOR_NOISE)
        return Estimate(self.value + gain * (measured - self.value), (1 - gain) * variance)
