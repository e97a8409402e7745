"""Many submissions over a Dask cluster: `grade --scheduler ADDR`, with `--gpu` on GPU workers.

The lab travels as text and each submission as bytes; the workers need this package and a sandbox,
no shared file system. A worker that dies has its submissions graded by another. A worker has a GPU
if it says so (`dask worker ADDR --resources GPU=1`); it grades one submission at a time on it.
"""

import functools
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring.source import SOURCE
from autograder.errors import AutograderError, SubmissionError
from autograder.extras import missing
from autograder.grading.grade import CHECKS
from autograder.grading.line_process import LinePool, LineProcess, ProcessEnded
from autograder.grading.paths import Item, content_of
from autograder.grading.pool import DEFAULT_WALL_S, GRACE_S, WORKER, Farm, Graded
from autograder.grading.pool_worker import write
from autograder.grading.report import from_gradescope, to_gradescope
from autograder.printable import printable

RETRIES = 3  # times that a submission may lose its worker
CONNECT_S = "10s"
GPU = "GPU"  # the resource that a worker with one has

Files = tuple[tuple[str, str], ...]


@dataclass
class ClusterFarm(Farm):
    """A farm whose judges are the workers of a Dask cluster at `address`; with `gpu`, some."""

    address: str = ""
    gpu: bool = False

    def grade(self, items: Sequence[Item]) -> Iterator[Graded]:
        """Grade `items` on the cluster and yield each as it is ready. See `Farm.grade`."""
        dask = distributed("grade")
        files = lab_files(self.lab.directory)
        try:
            client = dask.Client(self.address, timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            problem = f"grade: no Dask scheduler at {self.address}"
            raise AutograderError(f"{problem}. Start one with: dask scheduler") from error
        with client:
            self._require_gpu(client)
            options: dict[str, Any] = {"pure": False, "retries": RETRIES}
            if self.gpu:
                options["resources"] = {GPU: 1}
            waiting = {}
            for item in items:
                try:
                    data = content_of(item.path)
                except SubmissionError as error:
                    yield self._unread(item, str(error))
                    continue
                arguments = (files, self.lab.name, data, item.label, self.timeout_s, self.gpu)
                waiting[client.submit(graded, *arguments, **options)] = item
            for future in dask.as_completed(list(waiting)):
                yield self._written(waiting[future], future)

    def _require_gpu(self, client: Any) -> None:
        """Refuse to wait for ever where no worker has a GPU."""
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        if self.gpu and not any(worker["resources"].get(GPU) for worker in workers):
            problem = f"grade: none of the {len(workers)} workers at {self.address} has a GPU"
            start = f"dask worker {self.address} --resources {GPU}=1"
            raise AutograderError(f"{problem}. Start one that has with: {start}")

    def _written(self, item: Item, future: Any) -> Graded:
        """Write the reports of a submission that is done, or was lost with its workers."""
        try:
            answer = future.result()
        except AutograderError:
            raise
        except Exception as error:  # whatever a worker died of
            return self._lost(item, f"{type(error).__name__}: {printable(str(error), 300)}")
        if "lost" in answer:
            return self._lost(item, printable(answer["lost"], 300))
        report = from_gradescope(answer["report"])
        write(report, self.out, item.stem, staff=self.staff)
        return Graded(item, to_gradescope(report, staff=self.staff), answer["broken"])


def lab_files(directory: Path) -> Files:
    """Return what a worker needs of a lab."""
    return tuple((name, (directory / name).read_text("utf-8")) for name in (SOURCE, CHECKS))


def graded(
    files: Files,
    name: str,
    data: bytes,
    submission: str,
    timeout_s: float | None,
    gpu: bool,
    wall: str | None = None,
) -> dict[str, Any]:
    """Return the answer of a judge about one submission; runs in a thread of a worker.

    The judge is a process of its own, as on one machine: what hangs or kills it, a check among
    them, costs this submission ("lost") and not the worker.

    Raises:
        AutograderError: this worker cannot grade the lab at all.
    """
    judges = _judges(files, name, timeout_s, gpu, wall)
    with tempfile.TemporaryDirectory(prefix="autograder-") as folder:
        path = Path(folder) / "submission"
        path.write_bytes(data)
        request = {"path": str(path), "name": submission, "stem": "report"}
        try:
            answer = judges.ask(request, (timeout_s or DEFAULT_WALL_S) + GRACE_S)
        except ProcessEnded as error:
            return {"lost": str(error)}
    if "fatal" in answer:
        raise AutograderError(answer["fatal"])
    return answer


@functools.lru_cache(maxsize=8)
def _judges(
    files: Files, name: str, timeout_s: float | None, gpu: bool, wall: str | None
) -> LinePool:
    """Return this worker's judges of a lab, one for each of its threads at most."""

    def started() -> LineProcess:
        directory = Path(tempfile.mkdtemp(dir=_folder().name)) / name
        directory.mkdir()
        for file, text in files:
            (directory / file).write_text(text, encoding="utf-8")
        options = {"out": str(directory), "timeout_s": timeout_s, "staff": True}
        options |= {"gpu": gpu, "wall": wall}
        return LineProcess(WORKER, [str(directory), json.dumps(options)])

    return LinePool(started, distributed("grade").get_worker().state.nthreads)


@functools.lru_cache(maxsize=1)
def _folder() -> "tempfile.TemporaryDirectory[str]":
    """Return a folder of this worker's, in the place that Dask sweeps after workers that died."""
    place = distributed("grade").get_worker().local_directory
    return tempfile.TemporaryDirectory(prefix="autograder-", dir=place)


def distributed(command: str) -> Any:
    """Return Dask's package, for a command that was given `--scheduler`.

    Raises:
        AutograderError: it is not installed.
    """
    try:
        import distributed
    except ImportError as error:
        raise AutograderError(missing(f"{command}: --scheduler", "grade", str(error))) from error
    return distributed
