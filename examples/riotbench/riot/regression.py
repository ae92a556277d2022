"""Linear regression: a weight for each feature and an intercept, by least squares.

>>> line = fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
>>> [round(weight, 6) for weight in line["weights"]], round(line["intercept"], 6)
([2.0], 1.0)
>>> round(predict(line, [10.0]), 6)
21.0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def fit(rows: Sequence[Sequence[float]], targets: Sequence[float]) -> dict[str, Any]:
    features = len(rows[0])
    if len(rows) <= features:
        raise ValueError(f"{len(rows)} rows cannot settle {features + 1} weights")
    matrix = np.column_stack([np.asarray(rows, np.float64), np.ones(len(rows))])
    solution = np.linalg.lstsq(matrix, np.asarray(targets, np.float64), rcond=None)[0].tolist()
    return {"weights": solution[:-1], "intercept": solution[-1]}


def predict(model: dict[str, Any], row: Sequence[float]) -> float:
    weighted = [weight * value for weight, value in zip(model["weights"], row, strict=True)]
    return float(sum(weighted) + model["intercept"])
