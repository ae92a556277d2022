"""A worker process: imports the app file, then answers batches on its pipes until they close."""

from __future__ import annotations

import os
import sys

import msgpack

from dataflow.engine.workers import END_OF_REPLY, read_frame, write_frame
from dataflow.loading import load_app
from dataflow.messages import Data


def main() -> None:
    file, node, params = msgpack.unpackb(bytes.fromhex(sys.argv[1]))
    # What the user's function prints must not end up between our frames.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    operator = load_app(file, params).graph.nodes[node].draft.make()
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        for port, message in operator.on_batch(0, frame[1]):
            assert isinstance(message, Data)
            write_frame(answers, port, message.batch)
        write_frame(answers, END_OF_REPLY, None)


if __name__ == "__main__":
    main()
