"""A worker process: builds the app from its file or its bundle, then answers batches on its pipes until they close.

What is wrong with the app goes back as a sentence. What exceeds a limit ends the process, and the engine reads the
reason from the way it ended: with no memory left there is nothing to write a sentence with.
"""

from __future__ import annotations

import os
import sys
from typing import IO

from dataflow.app import App
from dataflow.engine.worker_frames import END_OF_REPLY, READY, Greeting, read_frame, write_failure, write_frame
from dataflow.engine.worker_limits import NO_MEMORY_EXIT, limit_memory, limit_next_batch
from dataflow.errors import AppError, OutOfMemoryError
from dataflow.messages import Data
from dataflow.plan import make_plan


def main() -> None:
    # What the user's function prints must not end up between our frames.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    questions = sys.stdin.buffer
    try:
        greeting = Greeting.read(questions)
        if greeting is not None:
            _work(greeting, questions, answers)
    except (MemoryError, OutOfMemoryError):
        os._exit(NO_MEMORY_EXIT)
    except AppError as error:
        write_failure(answers, str(error))


def _work(greeting: Greeting, questions: IO[bytes], answers: IO[bytes]) -> None:
    limits = greeting.limits
    # Imported before limits begin: it is not the app's memory.
    from dataflow.bundles import importing  # noqa: F401

    if limits:
        limit_memory(limits)
        limit_next_batch(limits)
    stage = make_plan(_load(greeting).graph).stages[greeting.stage]
    operator = stage.make()
    write_frame(answers, READY, None)
    while (frame := read_frame(questions)) is not None:
        if limits:
            limit_next_batch(limits)
        for port, message in operator.on_batch(0, frame[1]):
            assert isinstance(message, Data)
            write_frame(answers, port, message.batch)
        write_frame(answers, END_OF_REPLY, None)


def _load(greeting: Greeting) -> App:
    if isinstance(greeting.app, str):
        from dataflow.loading import load_app

        return load_app(greeting.app, greeting.params)
    from dataflow.bundles.bundle import unpack
    from dataflow.bundles.importing import load_bundle
    from dataflow.bundles.sealing import trusted_here

    # Our parent has verified it, and this pipe is his alone.
    return load_bundle(trusted_here(unpack(greeting.app)))


if __name__ == "__main__":
    main()
