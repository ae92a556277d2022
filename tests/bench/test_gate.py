"""Sources wait at the gate until they may begin; a sink hears its orders, and tells how it ended."""

from threading import Thread

import pyarrow as pa

from bench.gate import Gate
from bench.peer_process import Counting, Rows


def test_rows_begin_when_the_gate_says_so_and_the_sink_tells_what_it_got(tmp_path):
    table = pa.table({"n": [1, 2, 3]})
    with pa.OSFile(str(tmp_path / "n.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with Gate() as gate:
        gate.orders = {"sums": True}

        def pass_on():
            batches = list(Rows(str(tmp_path / "n.arrow"), gate.port).read(table.schema))
            sink = Counting(gate.port)
            sink.open(table.schema)
            for batch in batches:
                sink.write(batch)
            sink.close()

        thread = Thread(target=pass_on)
        thread.start()
        gate.await_ready()
        gate.go(repeat=2)
        told = gate.await_end()
        thread.join()
    assert (told["rows"], told["sum"]) == (6, 12)
