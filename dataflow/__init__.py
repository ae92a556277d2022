"""Write an app in ten lines, run it at the speed of Arrow.

from dataflow import App, col, count, tumbling
"""

from dataflow.aggregates import count, first, last, max_, mean, min_, sum_
from dataflow.app import App
from dataflow.bundles.limits import Limits
from dataflow.errors import AppError
from dataflow.expressions import Expr, col, lit, when
from dataflow.stream import KeyedStream, Stream, WindowedStream
from dataflow.windows import count_window, session, sliding, tumbling

__all__ = [
    "App",
    "AppError",
    "Expr",
    "KeyedStream",
    "Limits",
    "Stream",
    "WindowedStream",
    "col",
    "count",
    "count_window",
    "first",
    "last",
    "lit",
    "max_",
    "mean",
    "min_",
    "session",
    "sliding",
    "sum_",
    "tumbling",
    "when",
]
