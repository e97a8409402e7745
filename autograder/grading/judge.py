"""The judge: a process that grades one notebook after another, for whoever owns it.

`python -m autograder.grading.judge OPTIONS`, where OPTIONS is JSON: `wall` where none but that will
do. A request is `{"lab": directory, "name": ..., "timeout_s":
...}`, the last None where it is the lab's, and either a `path` or the `notebook` in base 64. The
answer is the `report` as plain data, or why the file is `unread`, or a refusal. It ends when its
input closes, if need be in the middle of a check, because then its owner is gone; the sandboxes end
with it.
"""

import base64
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from autograder.authoring.source import SOURCE, load_lab
from autograder.errors import AutograderError, SubmissionError
from autograder.grading.grade import CHECKS, LabGrader
from autograder.grading.line_process import Answer, LineProcess, Request, Serving, refusal
from autograder.grading.paths import content_of
from autograder.sandbox.worker_pool import Supply

GRACE_S = 60.0  # for reading and judging, over the learner's own wall time
DEFAULT_WALL_S = 600.0  # where the lab sets the wall time, which the judge knows and we do not


def judge_process(*, wall: str | None = None, shown: bool = False) -> LineProcess:
    """Return a new judge; see `LineProcess` for `shown`."""
    options = json.dumps({"wall": wall})
    return LineProcess(["-m", "autograder.grading.judge", options], shown=shown)


def most_s(timeout_s: float | None) -> float:
    """Return how long a judge may take over one submission."""
    return (timeout_s or DEFAULT_WALL_S) + GRACE_S


def notebook_request(
    lab: Path, notebook: bytes, name: str = "", timeout_s: float | None = None
) -> Request:
    """Return the request to grade a notebook that lies in no file of its judge's machine."""
    text = base64.b64encode(notebook).decode()
    return {"lab": str(lab), "name": name, "timeout_s": timeout_s, "notebook": text}


def main() -> None:
    """Serve requests until the input closes."""
    serving = Serving()
    serving.end_with_owner()
    sys.addaudithook(partial(_say_who_kills, serving))
    serving.run(Judge(**json.loads(sys.argv[1])).answer)


def _say_who_kills(serving: Serving, event: str, arguments: tuple[Any, ...]) -> None:
    """Answer before this process sends itself a signal: that is no kill from outside."""
    if event in ("os.kill", "os.killpg") and arguments[0] in (0, os.getpid()) and arguments[1]:
        message = f"the grading process sent itself signal {arguments[1]:d}"
        serving.send(refusal(message, fatal=False))


class Judge:
    """Labs, each made ready to grade with once, and again when it is another by the same name."""

    def __init__(self, *, wall: str | None = None, source: Supply | None = None) -> None:
        self._source = source or (Supply(wall=wall) if wall else None)
        self._ready: dict[str, tuple[Any, LabGrader]] = {}

    def answer(self, request: Request) -> Answer:
        """Return the report on a notebook, or why there is none, as plain data."""
        try:
            grader = self._grader(Path(request["lab"]), request["timeout_s"])
            if "path" in request:
                data = content_of(Path(request["path"]))
            else:
                data = base64.b64decode(request["notebook"])
            report = grader.grade(data, submission=request["name"])
        except SubmissionError as error:
            return {"unread": str(error)}
        except AutograderError as error:
            return refusal(error, fatal=True)
        except OSError as error:  # whose fault it is, the owner finds out
            return refusal(error, fatal=False)
        return {"report": report.to_dict()}

    def _grader(self, lab: Path, timeout_s: float | None) -> LabGrader:
        stamp = (lab, timeout_s, [_modified_ns(lab / name) for name in (SOURCE, CHECKS)])
        ready = self._ready.get(lab.name)
        if ready is None or ready[0] != stamp:
            grader = LabGrader(load_lab(lab), source=self._source)
            if timeout_s is not None:
                grader.allow(timeout_s)
            ready = self._ready[lab.name] = (stamp, grader)
        return ready[1]


def _modified_ns(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


if __name__ == "__main__":
    main()
