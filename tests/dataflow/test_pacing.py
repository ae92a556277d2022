import pyarrow as pa

from dataflow.connectors.pacing import Pacer


def test_rows_are_due_as_they_were_recorded_or_faster():
    batch = pa.record_batch({"at": pa.array([0, 10, 1000, 990, 2000], pa.timestamp("ms"))})
    parts = list(Pacer("at", pa.timestamp("ms"), 1.0).parts(batch, 100.0))
    assert [(round(due, 3), part.num_rows) for due, part in parts] == [(100.01, 2), (101.0, 2), (102.0, 1)]
    fast = list(Pacer("at", pa.timestamp("ms"), 10.0).parts(batch, 100.0))
    assert round(fast[-1][0], 3) == 100.2
