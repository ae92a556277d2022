"""A small decision tree: which question about one feature tells the classes apart best, again and again.

>>> model = fit([[1.0], [2.0], [8.0], [9.0]], ["low", "low", "high", "high"])
>>> model
{'feature': 0, 'below': 5.0, 'yes': {'class': 'low'}, 'no': {'class': 'high'}}
>>> predict(model, [3.0])
'low'

The best split leaves the least Gini impurity; among equals the first feature and the lowest threshold win, so the
same rows grow the same tree. Quartiles make classes of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dataflow.batches import AnyArray

CLASSES = ("Bad", "Average", "Good", "VeryGood")
DEPTH_MAX = 3


def classes_by_quartile(values: Sequence[float]) -> list[str]:
    """The class of each value: which quarter of all of them it is in.

    >>> classes_by_quartile([1.0, 2.0, 3.0, 4.0])
    ['Bad', 'Average', 'Good', 'VeryGood']
    """
    cuts = np.quantile(np.asarray(values, np.float64), (0.25, 0.5, 0.75))
    return [CLASSES[at] for at in np.searchsorted(cuts, values, side="right")]


def fit(rows: Sequence[Sequence[float]], classes: Sequence[str], *, depth: int = DEPTH_MAX) -> dict[str, Any]:
    names, codes = np.unique(np.asarray(classes), return_inverse=True)
    return _grow(np.asarray(rows, np.float64), np.eye(len(names))[codes], names.tolist(), depth)


def predict(model: dict[str, Any], row: Sequence[float]) -> str:
    while "class" not in model:
        model = model["yes"] if row[model["feature"]] < model["below"] else model["no"]
    return str(model["class"])


def _grow(rows: AnyArray, votes: AnyArray, names: list[str], depth: int) -> dict[str, Any]:
    split = _best_split(rows, votes) if depth and np.count_nonzero(votes.sum(axis=0)) > 1 else None
    if split is None:
        return {"class": names[int(votes.sum(axis=0).argmax())]}
    feature, below = split
    yes = rows[:, feature] < below
    return {
        "feature": feature,
        "below": below,
        "yes": _grow(rows[yes], votes[yes], names, depth - 1),
        "no": _grow(rows[~yes], votes[~yes], names, depth - 1),
    }


def _best_split(rows: AnyArray, votes: AnyArray) -> tuple[int, float] | None:
    """Most of (sum of squares of each side's classes / rows of that side): the same order as least Gini."""
    best, found = -1.0, None
    for feature in range(rows.shape[1]):
        order = np.argsort(rows[:, feature], kind="stable")
        values, left = rows[order, feature], votes[order].cumsum(axis=0)
        ends = np.flatnonzero(values[1:] > values[:-1])
        if not len(ends):
            continue
        purity = (left[ends] ** 2).sum(axis=1) / (ends + 1)
        purity += ((left[-1] - left[ends]) ** 2).sum(axis=1) / (len(values) - ends - 1)
        at = int(purity.argmax())
        if purity[at] > best:
            best, found = float(purity[at]), (feature, float(values[ends[at]] + values[ends[at] + 1]) / 2)
    return found
