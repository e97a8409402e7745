"""One pool of processes, for everybody who has more than one job for them.

Who calls: `judges` (submissions on this machine), `cluster` (the same on a worker of Dask),
`audit.variants` (mutants of a solution), `service.grading` (the judge beside a server) and
`similarity` (reading answers). What they agree on:

- A job is a request and its answer, each a line of JSON; nothing else crosses. `autograder.grading.
  line_process` has both ends of the wire.
- A process is started when a job finds none idle, and does one job at a time. As many jobs as
  there may be processes are under way; the others wait with whoever asks.
- A process that dies, overruns its time, talks nonsense or refuses costs the job that it had:
  `ProcessEnded` says how. The next job finds another. Nobody but the pool starts or replaces one,
  and it tries no job twice: whether a job deserves that is for its caller.
- `answers` gives answers in the order in which they are ready, each with its request's number.
- `kill` is the end: jobs under way have none, and no later one is begun. A caller that leaves
  `answers` early kills.
"""

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from autograder.grading.line_process import Answer, JobRefused, LineProcess, ProcessEnded, Request

Numbered = tuple[int, Answer | ProcessEnded]
Answers = Generator[Numbered, None, None]


class Pool:
    """Up to `most` processes, each made by `start` when it is wanted; safe between threads."""

    def __init__(self, start: Callable[[], LineProcess], most: int = 1) -> None:
        self._start = start
        self._most = most
        self._room = threading.Semaphore(most)
        self._lock = threading.Lock()  # around the three below
        self._started: list[LineProcess] = []
        self._idle: list[LineProcess] = []
        self._stopped = False

    def ask(self, request: Request, timeout_s: float | None = None) -> Answer:
        """Return the answer of a process that has nothing else to do; waits for one.

        Raises:
            ProcessEnded: there is none; another process takes this one's place.
        """
        with self._room:
            process = self._take_process()
            try:
                answer = process.ask(request, timeout_s)
                if "refused" in answer:
                    raise JobRefused(answer["refused"], answer["kind"], fatal=answer["fatal"])
            except BaseException:  # its answer to this must not be taken for the next one's
                self._drop(process)
                raise
            with self._lock:
                self._idle.append(process)
            return answer

    def answers(self, requests: Sequence[Request], timeout_s: float | None = None) -> Answers:
        """Yield each request's number with its answer, or with how its process ended, when ready.

        Leaving early ends the pool.
        """
        with ThreadPoolExecutor(self._most) as threads:
            waiting = {
                threads.submit(self._answer, request, timeout_s): number
                for number, request in enumerate(requests)
            }
            try:
                for done in as_completed(waiting):
                    yield waiting[done], done.result()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self.kill()
                raise

    def _answer(self, request: Request, timeout_s: float | None) -> Answer | ProcessEnded:
        try:
            return self.ask(request, timeout_s)
        except ProcessEnded as ended:
            return ended

    def _take_process(self) -> LineProcess:
        """Return a process for a job: one that is idle and lives, else a new one."""
        while True:
            with self._lock:
                if self._stopped:
                    raise ProcessEnded("stopped")
                if not self._idle:
                    self._started.append(self._start())
                    return self._started[-1]
                process = self._idle.pop()
            if not process.ended:
                return process
            self._drop(process)

    def _drop(self, process: LineProcess) -> None:
        with self._lock:
            self._started.remove(process)
        process.kill()
        process.close()

    def kill(self) -> None:
        """End all processes at once, and begin no more; whoever waits for an answer is told."""
        with self._lock:
            self._stopped = True
            for process in self._started:
                process.kill()

    def close(self) -> None:
        """Have each process end after the job that it has; begin no more."""
        with self._lock:
            self._stopped = True
        for _ in range(self._most):
            self._room.acquire()
        while self._idle:  # now these are all that have been started
            self._idle.pop().close()
        self._started.clear()
        self._room.release(self._most)
