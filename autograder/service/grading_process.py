"""The process that grades for the server: `python -m autograder.service.grading_process LABS`.

Reads a line `{"lab": name, "size": n}` and n bytes of notebook, writes a line `{"report": ...}`
or `{"error": "..."}`, and again. It ends at once when its input closes, because then the server
is gone; the sandbox dies with it.
"""

import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

Requests = queue.SimpleQueue[tuple[str, bytes]]


def main() -> None:
    """Serve requests until the input closes."""
    labs = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not be taken for an answer
    requests: Requests = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        lab, notebook = requests.get()
        answers.write(json.dumps(_answer(labs / lab, notebook)).encode() + b"\n")
        answers.flush()


def _read(stream: BinaryIO, requests: Requests) -> None:
    while line := stream.readline():
        head = json.loads(line)
        requests.put((head["lab"], stream.read(head["size"])))
    os._exit(0)


def _answer(lab: Path, notebook: bytes) -> dict[str, Any]:
    from autograder.errors import AutograderError
    from autograder.grade import grade
    from autograder.source import load_lab

    try:
        report = grade(load_lab(lab), notebook)
    except (AutograderError, OSError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"report": report.to_dict()}


if __name__ == "__main__":
    main()
