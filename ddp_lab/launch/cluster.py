"""Ranks on the workers of a Dask cluster: `launch(fn, 8, cluster="tcp://scheduler:8786")`.

A rank takes the place of a thread of a worker. One task a host starts all ranks there, as processes
under a zygote as on one machine, so that they share memory; workers of the host that start nothing
hold their threads for them. Hosts are joined by TCP, with a secret that came with the task. A task
that nobody waits for any more, because another host's ranks failed or the program that called
`launch` is gone, ends its ranks.

    launcher                     task of a host                    ranks
    job, hosts, who goes where ->  segment, zygote, Run         ->   as on one machine
    prints events              <-  what ranks print
    Ending of each host        <-  outcomes, failures, waits

May import: the package; distributed inside functions.
"""

import contextlib
import dataclasses
import importlib
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast

from ddp_lab.errors import InvalidArgument
from ddp_lab.extras import describe_missing
from ddp_lab.launch.failures import Failure
from ddp_lab.launch.processes import Ending, Run, make_job
from ddp_lab.launch.rank_main import Job
from ddp_lab.launch.results import Results
from ddp_lab.launch.zygote_client import SHARED, start_ranks
from ddp_lab.transport.connect import post_port, read_port
from ddp_lab.transport.links.link import hosts_of
from ddp_lab.transport.shm.board import ShmBoard
from ddp_lab.transport.shm.segment import Segment

CONNECT_S = 10.0
LOOK_S = 0.2  # between two looks at the tasks and their workers
PORT_LOOK_S = 0.01  # the same at whether rank 0 listens
GRACE_S = 2.0  # for the ranks of other hosts that noticed a failure to say so
END_S = 5.0  # for what ranks printed last to arrive


def launch_on_cluster(
    fn: Callable[..., Any],
    world_size: int,
    args: tuple[Any, ...],
    timeout_s: float,
    record: bool,
    cluster: Any,
) -> Results:
    """Call `fn(comm, *args)` in one process a rank on a cluster's workers; see `ddp_lab.launch`."""
    with client_of(cluster) as client:
        workers = places(client.nthreads(), world_size)
        hosts = hosts_of(map(address_of, workers))
        master = address_of(workers[0])
        job = dataclasses.replace(
            make_job(fn, args, "shm", record, hosts, None),
            master=master,
            secret=secrets.token_bytes(16),
            path=[],
            directory="",
            environment={},
        )
        with Launch(client, job, workers, timeout_s) as launch:
            endings = launch.wait()
    merged = Ending({}, [], None, {})
    for ending in endings:
        merged.outcomes.update(ending.outcomes)
        merged.failures += ending.failures
        merged.stacks.update(ending.stacks)
        if ending.late is not None:
            merged.late = {**(merged.late or {}), **ending.late}
    return merged.results(world_size, timeout_s, record)


@contextlib.contextmanager
def client_of(cluster: Any) -> Iterator[Any]:
    """Yield a client of the cluster: the one given, or one of the scheduler at this address.

    Raises:
        InvalidArgument: there is none, or `distributed` is not installed.
    """
    distributed = dask()
    if not isinstance(cluster, str):
        if not isinstance(cluster, distributed.Client):
            raise InvalidArgument(
                f"launch: no cluster: got {cluster!r}, expected a scheduler's address such as "
                "'tcp://scheduler:8786', or a distributed.Client."
            )
        yield cluster
        return
    try:
        client = _connect(distributed, cluster)
    except (OSError, ValueError) as error:
        raise InvalidArgument(
            f"launch: no Dask scheduler answers at {cluster!r}: {error}. "
            "Start `dask scheduler` and give the address that it prints."
        ) from error
    with client:
        yield client


def _connect(distributed: Any, address: str) -> Any:
    """Return a client; tried again where the thread of Dask's own did not begin within its 10 s."""
    for _ in range(2):
        with contextlib.suppress(AssertionError):  # which is all that Dask says of it
            return distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    return distributed.Client(address, timeout=CONNECT_S, set_as_default=False)


def dask() -> Any:
    """Return Dask's package.

    Raises:
        InvalidArgument: it is not installed.
    """
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise InvalidArgument(describe_missing("launch", "cluster", str(error))) from error


def places(threads: dict[str, int], world_size: int) -> list[str]:
    """Return each rank's worker: hosts one after another, a rank for each thread of a worker.

    Raises:
        InvalidArgument: there are too few threads.
    """
    if sum(threads.values()) < world_size:
        raise InvalidArgument(
            f"launch: too few threads on the cluster: got {sum(threads.values())} on "
            f"{len(threads)} workers, expected {world_size}. Start more workers, or fewer ranks."
        )
    workers = sorted(threads, key=lambda worker: (address_of(worker), worker))
    return [worker for worker in workers for _ in range(threads[worker])][:world_size]


def address_of(worker: str) -> str:
    """Return the address of a worker's host: of "tcp://10.0.0.5:39021" that is 10.0.0.5."""
    return worker.partition("://")[2].rpartition(":")[0].strip("[]") or worker


class Launch:
    """One launch under way, seen from where it was called: its tasks, and what they print."""

    def __init__(self, client: Any, job: Job, workers: list[str], timeout_s: float) -> None:
        self._client = client
        self._job = job
        self._workers = workers
        self._timeout_s = timeout_s
        self._topic = f"ddp_lab-{secrets.token_hex(8)}"
        self._ended = threading.Semaphore(0)  # hosts whose last line has been printed
        self._is_port_known = threading.Event()
        self._port = 0  # where rank 0 listens, once that is told
        self._endings: dict[int, Ending] = {}  # by host
        self._tasks: list[Any] = []
        self._holds: list[Any] = []

    def __enter__(self) -> "Launch":
        self._client.subscribe_topic(self._topic, self._take)
        first, *others = self._job.hosts
        self._start(first, 0)
        if others:
            try:
                port = self._wait_for_port()
            except BaseException:
                self.__exit__()
                raise
            for ranks in others if port else ():
                self._start(ranks, port)
        return self

    def _start(self, ranks: tuple[int, ...], port: int) -> None:
        """Start the ranks of a host, and hold as many threads there as it has ranks."""
        starter, *others = dict.fromkeys(self._workers[rank] for rank in ranks)
        idle = [worker for worker in others for _ in range(self._workers.count(worker))]
        idle += [starter] * (self._workers.count(starter) - 1)
        self._holds += [self._submit(hold, worker) for worker in idle]
        preload = [name for name in SHARED if name in sys.modules]
        arguments = self._job, ranks, self._timeout_s, self._topic, preload, port
        self._tasks.append(self._submit(run_host, starter, *arguments))

    def _wait_for_port(self) -> int:
        """Return where rank 0 listens, 0 if its host ends before that."""
        while not self._port:
            self._look(self._endings)
            if self._endings:
                break
            self._is_port_known.wait(LOOK_S)
        return self._port

    def _submit(self, task: Callable[..., Any], worker: str, *args: Any) -> Any:
        return self._client.submit(
            task,
            *args,
            workers=[worker],
            allow_other_workers=False,
            pure=False,
            retries=0,
            priority=1,
        )

    def __exit__(self, *_: object) -> None:
        self._client.cancel([*self._tasks, *self._holds], force=True)
        self._client.unsubscribe_topic(self._topic)

    def _take(self, event: tuple[float, tuple[str, str]]) -> None:
        """Print what a rank printed, or note what a host told."""
        _, (stream, text) = event
        if stream == "end":
            self._ended.release()
        elif stream == "port":
            self._port = int(text)
            self._is_port_known.set()
        else:
            (sys.stdout if stream == "out" else sys.stderr).write(text)

    def wait(self) -> list[Ending]:
        """Return how the ranks of each host have ended, once all have, or one has failed."""
        endings = self._endings
        give_up = float("inf")
        while len(endings) < len(self._tasks) and time.monotonic() < give_up:
            self._look(endings)
            if give_up == float("inf") and any(e.failures for e in endings.values()):
                give_up = time.monotonic() + GRACE_S
            time.sleep(0 if len(endings) == len(self._tasks) else LOOK_S)
        until = time.monotonic() + END_S
        for _ in endings:
            self._ended.acquire(timeout=max(0.0, until - time.monotonic()))
        return list(endings.values())

    def _look(self, endings: dict[int, Ending]) -> None:
        alive = self._client.nthreads()
        for index, task in enumerate(self._tasks):
            if index in endings:
                continue
            if task.status == "finished":
                endings[index] = task.result()
            elif task.status in ("error", "lost", "cancelled"):
                endings[index] = self._lose(index, f"{task.status}: {task.exception()}")
            else:
                for rank in self._job.hosts[index]:
                    worker = self._workers[rank]
                    if worker not in alive:
                        endings[index] = self._lose(index, f"its worker {worker} is gone", rank)
                        break

    def _lose(self, index: int, why: str, rank: int | None = None) -> Ending:
        first = self._job.hosts[index][0] if rank is None else rank
        where = f"on host {address_of(self._workers[first])}: {why}"
        self._ended.release()
        return Ending({}, [Failure(first, "worker lost", where, time.monotonic())], None, {})


class Events:
    """A stream whose text becomes events of a worker, which the launcher prints."""

    def __init__(self, worker: Any, topic: str, name: str) -> None:
        self._worker, self._topic, self._name = worker, topic, name

    def write(self, text: str) -> int:
        """Send one line."""
        self._worker.log_event(self._topic, (self._name, text))
        return len(text)

    def flush(self) -> None:
        """Do nothing: a line is sent at once."""


def hold() -> None:
    """Keep a thread of a worker from other work while a rank of its host runs; a task."""
    abandoned = watch_task()
    while not abandoned():
        time.sleep(LOOK_S)


def run_host(
    job: Job, ranks: tuple[int, ...], timeout_s: float, topic: str, preload: list[str], port: int
) -> Ending:
    """Run the ranks of this host and return how they ended; a task of a worker.

    Args:
        preload: modules that the launcher has, and that each rank would have to import itself.
        port: where rank 0 listens; 0 where it lies here, or no rank lies elsewhere.
    """
    asked = not port and len(job.hosts) > 1
    worker, abandoned = dask().get_worker(), watch_task()
    for module in preload:
        importlib.import_module(module)
    segment = Segment.create(sum(map(len, job.hosts)))
    out, err = (cast(TextIO, Events(worker, topic, name)) for name in ("out", "err"))
    try:
        run = Run(start_ranks(ranks, segment), ShmBoard(segment), timeout_s, out, err)
        try:
            run.send(job)
            if port:
                post_port(segment, port)
            port_events = Events(worker, topic, "port")
            with report_port(segment, port_events) if asked else contextlib.nullcontext():
                run.listen(abandoned)
        finally:
            run.end()
        return run.ending()
    finally:
        segment.close()
        worker.log_event(topic, ("end", ""))


def watch_task() -> Callable[[], bool]:
    """Return what says whether nobody waits any more for the task that runs here."""
    worker = dask().get_worker()
    key = worker.get_current_task()

    def abandoned() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state != "executing"

    return abandoned


@contextlib.contextmanager
def report_port(segment: Segment, events: Events) -> Iterator[None]:
    """Meanwhile have the launcher told where rank 0 listens, as soon as it does."""
    over = threading.Event()

    def tell_it() -> None:
        while not over.wait(PORT_LOOK_S):
            if read_port(segment):
                events.write(str(read_port(segment)))
                return

    teller = threading.Thread(target=tell_it, name="ddp_lab port", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
