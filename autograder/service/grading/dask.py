"""Grading on a Dask cluster: `serve --scheduler ADDR`, or `--cluster CLASS`, which starts one.

The workers do what they do for `grade --scheduler` (`autograder.grading.cluster`); who may grade
what, and what becomes of a report, stays with the queue and its leases. A worker that dies has its
submission graded by another. A cluster that is away, has no workers, or cannot grade a lab at all
is not the notebook's fault: that pauses the queue, which looks again.
"""

import contextlib
import importlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.errors import AutograderError
from autograder.grading.cluster import client_of, grade_on_worker, import_dask, lab_files
from autograder.grading.judge import notebook_request
from autograder.printable import printable
from autograder.records import Report
from autograder.service.errors import GraderDied, GraderUnable, StartError

_ADAPT_S = 1  # how often Dask looks how many workers there should be, and for how much work one is
_CONNECT_S = 5
_LOOK_S = 2.0  # how often to see whether there is a cluster still, while it grades


class ClusterGrader:
    """A `Grader` whose judges are on the cluster at `address`, behind `wall`; keeps a connection.

    `timeout_s` is for one submission, waiting for a worker included.
    """

    def __init__(self, labs: Path, address: str, *, timeout_s: float, wall: str | None) -> None:
        self._distributed = _dask()
        self._labs = labs
        self._address = address
        self._timeout_s = timeout_s
        self._wall = wall
        self._client: Any = None
        self._closed = False
        self._woken = threading.Event()
        self._in_use = threading.Lock()

    def grade(self, lab: str, notebook: bytes) -> Report:
        """Return the report on `notebook`; see `Grader`."""
        with self._in_use:
            self._woken.clear()
            try:
                return self._grade(lab, notebook)
            except GraderDied:
                raise
            except AutograderError as error:  # a worker cannot grade this lab, whatever comes
                raise GraderUnable(str(error)) from error
            except Exception as error:
                self._let_go()
                problem = f"{type(error).__name__}: {printable(str(error), 300)}"
                if type(error).__name__ == "KilledWorker":  # so many in a row are no accident
                    raise GraderDied(problem) from error
                raise GraderUnable(f"cluster: {self._address}: {problem}") from error

    def _grade(self, lab: str, notebook: bytes) -> Report:
        if self._closed:
            raise GraderDied("the server is stopping")
        try:
            files = lab_files(self._labs / lab)
        except (OSError, ValueError) as error:
            raise GraderUnable(f"{type(error).__name__}: {error}") from error
        client = self._connect()
        self._require_workers(client)
        request = notebook_request(self._labs / lab, notebook)
        future = client.submit(grade_on_worker, files, request, self._wall, pure=False)
        future.add_done_callback(lambda _: self._woken.set())
        deadline = time.monotonic() + self._timeout_s
        while not self._woken.wait(_LOOK_S):
            if time.monotonic() > deadline:
                raise GraderDied(f"no answer in {self._timeout_s:.0f} s")
            self._require_workers(client)
        if self._closed:
            raise GraderDied("the server is stopping")
        if future.cancelled():  # as all are when the connection is lost
            self._let_go()
            raise self._gone()
        answer = future.result()
        if "lost" in answer:
            raise GraderDied(printable(answer["lost"], 300))
        return Report.from_dict(answer["report"])

    def _connect(self) -> Any:
        if self._client is None:
            try:
                where = self._distributed.comm.get_address_host_port(self._address)
                with socket.create_connection(where, _CONNECT_S):
                    pass  # first, for a client that cannot connect blocks whoever lets it go
                self._client = client_of(
                    self._distributed, self._address, timeout=_CONNECT_S, set_as_default=False
                )
            except (OSError, ValueError) as error:
                problem = f"cluster: no Dask scheduler at {self._address}"
                raise GraderUnable(f"{problem}. Start one with: dask scheduler") from error
        return self._client

    def _require_workers(self, client: Any) -> None:
        """Refuse to wait for ever where nobody grades."""
        if client.status != "running":
            self._let_go()
            raise self._gone()
        if not client.scheduler_info(n_workers=-1)["workers"]:
            problem = f"cluster: the scheduler at {self._address} has no workers"
            raise GraderUnable(f"{problem}. Start one with: dask worker {self._address}")

    def _gone(self) -> GraderUnable:
        problem = f"cluster: the scheduler at {self._address} is gone"
        return GraderUnable(f"{problem}. Start one with: dask scheduler")

    def close(self) -> None:
        """Release the cluster; see `Grader`."""
        self._closed = True
        self._woken.set()
        with self._in_use:
            self._let_go()

    def _let_go(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


@contextlib.contextmanager
def run_growing_cluster(name: str, most: int) -> Iterator[str]:
    """Give the address of a cluster of our own that has 1 to `most` workers, by what waits.

    Args:
        name: of a class of Dask's, such as `distributed.LocalCluster`; what else it needs is in
            Dask's configuration.
        most: workers, each with a thread.

    Raises:
        StartError: there is no such class, or it starts no cluster.
    """
    dask = _dask()
    module, _, kind = name.rpartition(".")
    try:
        make = getattr(importlib.import_module(module), kind)
        local = {"threads_per_worker": 1, "dashboard_address": None}
        cluster = make(n_workers=1, **(local if make is dask.LocalCluster else {}))
    except Exception as error:  # whatever a class that we do not know raises
        problem = f"{type(error).__name__}: {printable(str(error), 300)}"
        raise StartError(f"serve: --cluster: got {name!r}: {problem}.") from error
    with cluster:
        looks = {"interval": f"{_ADAPT_S}s", "target_duration": f"{_ADAPT_S}s"}
        cluster.adapt(minimum=1, maximum=most, **looks)
        yield str(cluster.scheduler_address)


def _dask() -> Any:
    """Return Dask's package, which logs where we do and warns of no large notebook."""
    with contextlib.suppress(ImportError):  # which is said below
        import dask

        quiet = {"distributed.utils": {"level": "CRITICAL"}}  # what is lost is said by who asked
        log_there = {"version": 1, "disable_existing_loggers": False, "loggers": quiet}
        limit = {"distributed.admin.large-graph-warning-threshold": "1 GiB"}
        dask.config.set({"logging": log_there, **limit})
    return import_dask("serve")
