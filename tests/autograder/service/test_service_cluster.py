"""A course server whose graders are the workers of a real Dask cluster, which dies on the way.

Scheduler, workers and server are processes of their own, as in a course.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import load_lab
from autograder.service.client import Connection
from autograder.service.database.schema import gradings
from autograder.service.errors import GraderDied, GraderUnable
from autograder.service.grading.dask import ClusterGrader
from autograder.service.records.store import existing
from autograder.service.running.start import free_port
from tests.autograder.service.forked import COMMAND, Forked

SAMPLES = Path(__file__).parents[1] / "sample_labs"


@contextmanager
def program(code: str, *arguments: object, says: str) -> Iterator[tuple[Forked, str]]:
    """Run a program of Python; give it and the line in which it has said `says`; kill it."""
    process = Forked(code, *arguments)
    heard = [""]
    while says not in heard[-1] and (line := process.stdout.readline()):
        heard.append(line)
    drain = threading.Thread(target=process.stdout.read)  # a full pipe would stop it
    drain.start()
    try:
        assert says in heard[-1], "".join(heard)
        yield process, heard[-1]
    finally:
        process.kill()
        process.wait()
        drain.join()
        process.stdout.close()


def scheduler(port: int) -> Any:
    code = "from distributed.cli.dask_scheduler import main; main()"
    options = ["--host", "127.0.0.1", "--port", port, "--no-dashboard"]
    return program(code, *options, says="Scheduler at")


def worker(address: str, folder: Path) -> Any:
    code = "from distributed.cli.dask_worker import main; main()"
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
    return program(code, address, *options, "--local-directory", folder, says="Registered to")


def server(data: Path, address: str) -> Any:
    options = ["--port", "0", "--data", data, "--labs", SAMPLES, "--workers", "2"]
    options += ["--scheduler", address]
    return program(COMMAND, "serve", *options, says="Course server")


def server_that_grows(data: Path, most: int, cluster: str = "distributed.LocalCluster") -> Any:
    options = ["--port", "0", "--data", data, "--labs", SAMPLES]
    options += ["--workers", most, "--cluster", cluster]
    return program(COMMAND, "serve", *options, says="Course server")


def children(pid: int, name: str) -> list[int]:
    """Return the processes that a process has started and whose command line has `name` in it."""
    found = []
    for of_thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread, or a process, that has just ended
            for child in map(int, of_thread.read_text().split()):
                if name in Path(f"/proc/{child}/cmdline").read_text():
                    found.append(child)
    return found


def workers(server: Forked) -> list[int]:
    """Return the processes of Dask's workers that a server has."""
    return children(server.pid, "spawn_main")


def until(found: Callable[[], Any]) -> Any:
    """Return what is found, once anything is."""
    waiting = threading.Event()
    while not (value := found()):
        waiting.wait(0.02)
    return value


def stop_judge(of: Forked) -> int:
    """Stop the judge of a worker, once it has one, in what it does; return its process id."""

    found: int = until(lambda: children(of.pid, "grading.judge"))[0]
    os.kill(found, signal.SIGSTOP)
    return found


class Course:
    """What staff and a learner see of a server, and notebooks that are never the same."""

    def __init__(self, url: str, data: Path) -> None:
        self.staff = Connection(url, (data / "instructor.token").read_text().strip())
        self.ada = Connection(url, self.staff.enroll("Ada")["token"])
        self.handed_in = 0

    def submit(self, count: int) -> None:
        solution = solution_notebook(load_lab(SAMPLES / "scale_and_sum"))
        for _ in range(count):
            self.handed_in += 1
            self.ada.submit("scale_and_sum", (solution + " " * self.handed_in).encode())

    def queue(self) -> Any:
        return self.staff._json("queue", "/api/queue")

    def paused(self, why: str) -> None:
        reason = until(lambda: self.queue()["reason"])
        assert why in reason
        assert "Cancelled" not in reason

    def drained(self) -> bool:
        found = self.queue()
        assert found["parked"] == []
        return not (found["waiting"] or found["grading"] or found["paused"])


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_cluster_that_dies_piece_by_piece_gives_each_submission_one_grade(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: the extra `grade`")
    port, data = free_port(0, 0), tmp_path / "data"
    address = f"tcp://127.0.0.1:{port}"
    with ExitStack() as up:
        first = up.enter_context(scheduler(port))[0]
        serving, said = up.enter_context(server(data, address))
        course = Course(said.split()[-1], data)
        course.submit(4)
        course.paused(f"{address} has no workers")

        doomed = up.enter_context(worker(address, tmp_path))[0]
        judge = stop_judge(doomed)  # and so in the middle of a submission
        heir = up.enter_context(worker(address, tmp_path))[0]
        doomed.kill()
        os.kill(judge, signal.SIGKILL)
        until(course.drained)

        judge = stop_judge(heir)
        course.submit(3)
        until(lambda: course.queue()["grading"] == 2)
        first.kill()
        course.paused(address)
        os.kill(judge, signal.SIGKILL)
        up.enter_context(scheduler(port))
        last = up.enter_context(worker(address, tmp_path))[0]
        until(course.drained)

        judge = stop_judge(last)
        course.submit(1)
        until(lambda: course.queue()["grading"])
        serving.terminate()
        assert serving.wait() == 0
        os.kill(judge, signal.SIGKILL)
    with existing(data) as store:
        *graded, given_back = sorted(store.submissions.all(), key=lambda entry: entry.id)
        assert [(e.state, e.score, e.tries) for e in graded] == [("graded", 8.0, 0)] * 7
        assert (given_back.state, given_back.tries) == ("stored", 0)
        with store.database.read() as connection:
            counted = sa.select(gradings.c.submission_id, sa.func.count())
            rows = connection.execute(counted.group_by(gradings.c.submission_id))
            assert {row[0]: row[1] for row in rows} == dict.fromkeys((e.id for e in graded), 1)
        report = store.submissions.report(graded[0].id)
        assert report and report.sandbox == "bubblewrap" and report.seed


@pytest.mark.sandbox
def test_a_cluster_of_our_own_grows_with_the_queue_and_shrinks_after(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: the extra `grade`")
    with server_that_grows(tmp_path, 3) as (serving, said):
        course = Course(said.split()[-1], tmp_path)
        (first,) = until(lambda: workers(serving))
        os.kill(first, signal.SIGSTOP)  # so that three wait, however quick the machine is
        try:
            course.submit(3)
            until(lambda: len(workers(serving)) == 2)
        finally:
            os.kill(first, signal.SIGCONT)
        until(course.drained)
        until(lambda: len(workers(serving)) == 1)
        course.submit(1)
        until(course.drained)
    with existing(tmp_path) as store:
        assert {(e.state, e.score) for e in store.submissions.all()} == {("graded", 8.0)}


@pytest.mark.parametrize("cluster", ["LocalCluster", "no.such.Cluster", "json.dumps"])
def test_a_cluster_that_cannot_be_made_is_said(tmp_path: Path, cluster: str) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: the extra `grade`")
    with (
        pytest.raises(AssertionError, match=f"--cluster: got '{cluster}'"),
        server_that_grows(tmp_path, 2, cluster),
    ):
        pass


@pytest.mark.parametrize("address", ["no address", "tcp://127.0.0.1:1", "tcp://nowhere.invalid:8"])
def test_a_scheduler_that_is_not_there_is_nobodys_fault(address: str) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: the extra `grade`")
    grader = ClusterGrader(SAMPLES, address, timeout_s=60, wall=None)
    with pytest.raises(GraderUnable, match=f"no Dask scheduler at {address}"):
        grader.grade("scale_and_sum", b"{}")
    with pytest.raises(GraderUnable, match="No such file"):
        grader.grade("no_such_lab", b"{}")
    grader.close()
    with pytest.raises(GraderDied, match="stopping"):
        grader.grade("scale_and_sum", b"{}")
