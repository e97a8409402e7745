"""Many submissions over a Dask cluster: `grade --scheduler ADDR`.

The lab travels as text and each submission as bytes; the workers need this package and a sandbox,
no shared file system. A worker that dies has its submissions graded by another.
"""

import contextlib
import functools
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring.source import SOURCE
from autograder.errors import AutograderError, SubmissionError
from autograder.extras import describe_missing
from autograder.grading.grade import CHECKS
from autograder.grading.judge import judge_process, most_s, notebook_request
from autograder.grading.line_process import Answer, JobRefused, ProcessEnded, Request
from autograder.grading.paths import content_of
from autograder.grading.pool import Answers, Pool
from autograder.printable import printable

RETRIES = 3  # times that a submission may lose its worker
CONNECT_S = "10s"

Files = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Cluster:
    """The judges on the Dask cluster at `address`."""

    address: str

    def answers(self, requests: Sequence[Request], timeout_s: float | None = None) -> Answers:
        """Yield the answer to each request, as `Pool.answers` does; a worker knows `timeout_s`.

        Raises:
            AutograderError: there is no scheduler, or a worker cannot grade the lab at all.
        """
        dask = import_dask("grade")
        files = {lab: lab_files(Path(lab)) for lab in {request["lab"] for request in requests}}
        try:
            client = client_of(dask, self.address, timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            problem = f"grade: no Dask scheduler at {self.address}"
            raise AutograderError(f"{problem}. Start one with: dask scheduler") from error
        with client:
            options: dict[str, Any] = {"pure": False, "retries": RETRIES}
            waiting = {}
            for number, request in enumerate(requests):
                try:
                    data = content_of(Path(request["path"]))
                except SubmissionError as error:
                    yield number, {"unread": str(error)}
                    continue
                travels = notebook_request(Path(request["lab"]), data, request["name"], timeout_s)
                arguments = (files[request["lab"]], travels)
                waiting[client.submit(grade_on_worker, *arguments, **options)] = number
            for future in dask.as_completed(list(waiting)):
                yield waiting[future], _answer(future)

    def close(self) -> None:
        """Do nothing: no connection outlives its answers."""


def _answer(future: Any) -> Answer | ProcessEnded:
    """Return what a worker answered, or how the last one was lost."""
    try:
        answer: Answer = future.result()
    except AutograderError:
        raise
    except Exception as error:  # whatever a worker died of
        return ProcessEnded(f"{type(error).__name__}: {printable(str(error), 300)}")
    return ProcessEnded(printable(answer["lost"], 300)) if "lost" in answer else answer


def lab_files(directory: Path) -> Files:
    """Return what a worker needs of a lab."""
    return tuple((name, (directory / name).read_text("utf-8")) for name in (SOURCE, CHECKS))


def grade_on_worker(files: Files, request: Request, wall: str | None = None) -> Answer:
    """Return the answer of a judge about one submission; runs in a thread of a worker.

    The judge is a process of its own, as on one machine: what hangs or kills it, a check among
    them, costs this submission ("lost") and not the worker.

    Raises:
        AutograderError: this worker cannot grade the lab at all.
    """
    here = {**request, "lab": str(_lab(files, Path(request["lab"]).name))}
    try:
        with _FIRST:
            judges = _judges(wall)
        return judges.ask(here, most_s(request["timeout_s"]))
    except ProcessEnded as ended:
        if isinstance(ended, JobRefused) and ended.fatal:
            raise AutograderError(str(ended)) from ended
        return {"lost": str(ended)}


_FIRST = threading.Lock()  # two threads of a worker have one pool


@functools.lru_cache
def _judges(wall: str | None) -> Pool:
    """Return this worker's judges, one for each of its threads at most."""
    most = import_dask("grade").get_worker().state.nthreads
    return Pool(functools.partial(judge_process, wall=wall), most)


@functools.lru_cache(maxsize=8)
def _lab(files: Files, name: str) -> Path:
    """Return where a lab lies on this worker."""
    directory = Path(tempfile.mkdtemp(dir=_folder().name)) / name
    directory.mkdir()
    for file, text in files:
        (directory / file).write_text(text, encoding="utf-8")
    return directory


@functools.lru_cache(maxsize=1)
def _folder() -> "tempfile.TemporaryDirectory[str]":
    """Return a folder of this worker's, in the place that Dask sweeps after workers that died."""
    place = import_dask("grade").get_worker().local_directory
    return tempfile.TemporaryDirectory(prefix="autograder-", dir=place)


def import_dask(command: str) -> Any:
    """Return Dask's package, for a command that was given `--scheduler`.

    Raises:
        AutograderError: it is not installed.
    """
    try:
        import distributed
    except ImportError as error:
        raise AutograderError(
            describe_missing(f"{command}: --scheduler", "grade", str(error))
        ) from error
    return distributed


def client_of(dask: Any, address: str, **options: Any) -> Any:
    """Return a client; tried again where the thread of Dask's own did not begin within its 10 s."""
    for _ in range(2):
        with contextlib.suppress(AssertionError):  # which is all that Dask says of it
            return dask.Client(address, **options)
    return dask.Client(address, **options)
