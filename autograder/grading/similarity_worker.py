"""Reads learners' code for `similarity`, in a process of its own: reading alone can kill it.

`python -m autograder.grading.similarity_worker LAB`. `{"notebook": BASE64}` is answered with
the learner's own `texts`, by question, and their `prints` beyond what the lab explains.
"""

import base64
import sys
from pathlib import Path

from autograder.authoring.source import load_lab
from autograder.errors import SubmissionError
from autograder.grading.line_process import Answer, Request, Serving
from autograder.grading.similarity import answers, explained, prints


def main() -> None:
    """Serve notebooks until the input closes."""
    lab = load_lab(Path(sys.argv[1]))
    known = explained(lab)

    def read(request: Request) -> Answer:
        try:
            texts = answers(lab, base64.b64decode(request["notebook"]))
        except (SubmissionError, RecursionError, MemoryError):
            texts = {}
        found = {name: list(prints(text) - known[name]) for name, text in texts.items()}
        return {"texts": texts, "prints": found}

    Serving().run(read)


if __name__ == "__main__":
    main()
