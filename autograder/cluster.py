"""Many submissions over a Dask cluster: `grade --scheduler ADDR`, with `--gpu` on GPU workers.

The lab travels as text and each submission as bytes; the workers need this package and a sandbox,
no shared file system. A worker that dies has its submissions graded by another. A worker has a GPU
if it says so (`dask worker ADDR --resources GPU=1`); it grades one submission at a time on it.
"""

import functools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.errors import AutograderError, SubmissionError
from autograder.farm import Farm, Graded
from autograder.farm_worker import write
from autograder.grade import CHECKS, Grader
from autograder.paths import Item, content_of
from autograder.printable import printable
from autograder.records import Report
from autograder.report import to_gradescope
from autograder.source import SOURCE, load_lab

RETRIES = 3  # times that a submission may lose its worker
CONNECT_S = "10s"
GPU = "GPU"  # the resource that a worker with one has

Files = tuple[tuple[str, str], ...]

_DIRECTORIES: list["tempfile.TemporaryDirectory[str]"] = []  # removed when the worker ends


@dataclass
class ClusterFarm(Farm):
    """A farm whose judges are the workers of a Dask cluster at `address`; with `gpu`, some."""

    address: str = ""
    gpu: bool = False

    def grade(self, items: Sequence[Item]) -> Iterator[Graded]:
        """Grade `items` on the cluster and yield each as it is ready. See `Farm.grade`."""
        distributed = _distributed()
        files = tuple((n, (self.lab.directory / n).read_text("utf-8")) for n in (SOURCE, CHECKS))
        try:
            client = distributed.Client(self.address, timeout=CONNECT_S)
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
                data, problem = _content(item)
                arguments = (files, self.lab.name, data, problem, item.label, self.timeout_s)
                future = client.submit(graded, *arguments, **options)
                waiting[future] = item
            for future in distributed.as_completed(list(waiting)):
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
            found = future.result()
        except AutograderError:
            raise
        except Exception as error:  # whatever a worker died of
            return self._lost(item, f"{type(error).__name__}: {printable(str(error), 300)}")
        report = Report.from_dict(found)
        write(report, self.out, item.stem, staff=self.staff)
        broken = [f"{r.question}: {r.name}: {r.detail}" for r in report.results if r.broken]
        return Graded(item, to_gradescope(report, staff=self.staff), broken)


def graded(
    files: Files, name: str, data: bytes, problem: str, submission: str, timeout_s: float | None
) -> dict[str, Any]:
    """Return the report on one submission as plain data; runs on a worker."""
    grader = _grader(files, name, timeout_s)
    if problem:
        return grader.unreadable(problem, submission).to_dict()
    return grader.grade(data, submission=submission).to_dict()


@functools.lru_cache(maxsize=8)
def _grader(files: Files, name: str, timeout_s: float | None) -> Grader:
    """Return a grader for a lab that came as text; it stays for the next submission."""
    kept = tempfile.TemporaryDirectory(prefix="autograder-")
    _DIRECTORIES.append(kept)
    directory = Path(kept.name) / name
    directory.mkdir()
    for file, text in files:
        (directory / file).write_text(text, encoding="utf-8")
    grader = Grader(load_lab(directory))
    if timeout_s is not None:
        grader.allow(timeout_s)
    return grader


def _content(item: Item) -> tuple[bytes, str]:
    try:
        return content_of(item.path), ""
    except SubmissionError as error:
        return b"", str(error)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        problem = "grade: --scheduler needs Dask, which is not installed"
        raise AutograderError(f"{problem}. Install the package's extra `grade`.") from error
    return distributed
