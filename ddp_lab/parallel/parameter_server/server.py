"""The server's side: one thread that keeps the arrays, fed by one thread a rank that listens.

Only the thread in `serve` or `final` touches arrays and rules, so requests are handled one at a
time, in the order in which they came; a listener only receives. Listeners are what lets a server
wait for any rank on every transport, and what notices a rank that ends.

May import: NumPy, arrays, communicator, errors, transport, this folder.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ddp_lab.arrays import outside
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import DdpLabError, RankLost
from ddp_lab.parallel.parameter_server import messages as wire
from ddp_lab.parallel.parameter_server.consistency import APPLY, DROP, Progress
from ddp_lab.parallel.parameter_server.messages import Entry, Message
from ddp_lab.parallel.parameter_server.optimizers import Optimizer
from ddp_lab.parallel.parameter_server.pieces import Piece, at_server
from ddp_lab.parallel.parameter_server.report import Report
from ddp_lab.transport import header as headers
from ddp_lab.transport.base import NDArray


class Server:
    """One server: its pieces, its optimizer, and who waits for what."""

    def __init__(
        self,
        comm: Communicator,
        pieces: Sequence[Piece],
        arrays: Mapping[str, NDArray],
        like: Mapping[str, tuple[str, Any]],
        optimizer: Optimizer,
        progress: Progress,
        servers: int,
    ) -> None:
        self.report = Report()
        self._comm = comm
        self._pieces = pieces
        self._progress = progress
        self._optimizer = optimizer
        self._mine = at_server(pieces, comm.rank)
        self._arrays = {n: pieces[n].of(arrays[pieces[n].name]).copy() for n in self._mine}
        self._like = like
        self._others = [s for s in range(servers) if s != comm.rank]
        self._servers = servers
        self._workers = set(progress.steps)
        self._done: set[int] = set()
        self._gone: set[int] = set()
        self._asked: set[int] = set()  # for the final parameters
        self._knowing: set[int] = set()  # of those, who had heard of the failure
        self._kept: dict[tuple[int, int], list[Entry]] = {}  # (worker, step) -> its gradient
        self._waiting: list[tuple[int, Message]] = []  # pulls that may not be answered yet
        self._counts = {worker: [0, 0, 0] for worker in self._workers}
        self._shares: dict[int, NDArray] = {}  # of the other servers, at the end
        self._answered: set[int] = set()
        self._inbox: queue.SimpleQueue[tuple[int, NDArray | Exception]] = queue.SimpleQueue()
        self._listening = False
        self._failure: DdpLabError | None = None
        self._final: dict[str, Any] | None = None

    def serve(self) -> None:
        """Answer until every worker is done, or gone where the others can do without it."""
        if self._failure is not None:
            raise self._failure
        self._listen()
        while self._workers - self._done - self._progress.lost or not self._knows_all_steps():
            self._handle(*self._next())
        for server in self._others:  # from now on this rank may end, and nobody has lost it
            self._send(server, Message(wire.DONE))
        if not self._done & self._workers:
            lost = min(self._progress.lost)
            self._fail(RankLost(f"serve: every worker is lost, rank {lost} among them.", lost))

    def _knows_all_steps(self) -> bool:
        return self._progress.decides or 0 in self._done | self._gone

    def _listen(self) -> None:
        """Start to receive from every other rank, once."""
        if self._listening:
            return
        self._listening = True
        for src in range(self._comm.size):
            if src != self._comm.rank:
                self._listen_to(src)

    def _listen_to(self, src: int) -> None:
        name = f"ddp_lab server {self._comm.rank} hears {src}"
        args = (src, headers.call_site())
        threading.Thread(target=self._hear, args=args, name=name, daemon=True).start()

    def _hear(self, src: int, site: bytes) -> None:
        """Receive until the last message: a thread that waits in torch must not outlive us."""
        headers.stand_at(site)
        while True:
            try:
                message: NDArray | Exception = self._comm.recv(src)
            except Exception as error:
                message = error
            self._inbox.put((src, message))
            if isinstance(message, Exception) or self._is_last(src, wire.kind_of(message)):
                return

    def _is_last(self, src: int, kind: int) -> bool:
        """Return whether a rank says no more after this, unless it is told of a failure."""
        return kind == wire.SHARE or (kind == wire.FINAL and src >= self._servers)

    def _next(self) -> tuple[int, NDArray | Exception]:
        began = time.perf_counter()
        arrived = self._inbox.get()
        self.report.waited_s += time.perf_counter() - began
        return arrived

    def _handle(self, src: int, arrived: NDArray | Exception) -> None:
        """Do what a rank asked for, or what its loss means."""
        if isinstance(arrived, Exception):
            self._ended(src, arrived)
            return
        message = wire.unpack(arrived, self._pieces)
        if message.kind == wire.PUSH:
            self._pushed(src, message)
        elif message.kind == wire.PULL:
            self._waiting.append((src, message))
        elif message.kind == wire.COMMIT:
            self._progress.commit(message.step, [int(w) for w in message.text.split()])
        elif message.kind == wire.DONE:
            self._progress.done(src)
            self._done.add(src)
            if src in self._workers:
                self._answer(src, wire.ACK)
        elif message.kind == wire.FINAL:
            self._asked.add(src)
            if message.step:
                self._knowing.add(src)
        elif message.kind == wire.SHARE:
            self._shares.update({e.piece: e.array for e in message.entries if e.array is not None})
            self._answered.add(src)
        elif message.kind == wire.FAIL and self._failure is None:
            self._fail(wire.error_in(message))
        self._go_on()

    def _ended(self, src: int, error: Exception) -> None:
        """Rank `src` sends nothing more.

        Raises:
            RankLost: the run cannot do without it.
        """
        self._gone.add(src)
        self._waiting = [(worker, m) for worker, m in self._waiting if worker != src]
        if not isinstance(error, RankLost):
            raise error
        if src < self._servers:
            if src not in self._done | self._answered:
                self._fail(RankLost(f"parameter server: server {src} is lost: {error}", src))
        elif not self._progress.lose(src) and self._failure is None:
            consistency = self._progress.consistency
            self._fail(
                RankLost(
                    f"parameter server: worker {src} of a {consistency!r} run is lost: {error}", src
                )
            )
        self._go_on()

    def _pushed(self, worker: int, message: Message) -> None:
        self.report.pushed += 1
        fate = self._progress.push(worker, message.step)
        if fate == APPLY:
            self._apply([message.entries])
            self._count(worker, 0)
        elif fate == DROP:
            self._count(worker, 1)
        else:
            self._kept[worker, message.step] = message.entries

    def _count(self, worker: int, which: int) -> None:
        self._counts[worker][which] += 1
        self.report.applied += which == 0
        self.report.dropped += which == 1

    def _go_on(self) -> None:
        """Take the steps that are complete, and answer the pulls that waited for them."""
        while (taken := self._progress.take_step()) is not None:
            step, chosen, late = taken
            if self._progress.decides and self._progress.backups:
                commit = Message(wire.COMMIT, step, text=" ".join(map(str, chosen)))
                for server in self._others:
                    self._send(server, commit)
            self._apply([self._kept.pop((worker, step)) for worker in chosen])
            for worker in chosen:
                self._count(worker, 0)
            for worker in late:
                del self._kept[worker, step]
                self._count(worker, 1)
        for worker in self._progress.missing():
            if self._failure is None:
                self._fail(
                    RankLost(
                        f"parameter server: worker {worker} is lost in the middle of a push", worker
                    )
                )
        waiting, self._waiting = self._waiting, []
        for worker, pull in waiting:
            if self._progress.may_pull(pull.step):
                self._give(worker, pull)
            else:
                self._waiting.append((worker, pull))

    def _give(self, worker: int, pull: Message) -> None:
        lead = self._progress.lead(pull.step)
        self._counts[worker][2] = max(self._counts[worker][2], lead)
        self.report.max_staleness = max(self.report.max_staleness, lead)
        entries = [Entry(e.piece, self._arrays[e.piece]) for e in pull.entries]
        step = self._progress.version if self._progress.consistency == "sync" else pull.step
        self._answer(worker, wire.PARAMS, entries, step)

    def _apply(self, gradients: list[list[Entry]]) -> None:
        """Step the optimizer on the mean of some workers' gradients."""
        for number in self._mine:
            parts = [e for entries in gradients for e in entries if e.piece == number]
            parts = [e for e in parts if e.array is not None]
            if parts:
                self._step(number, parts, len(gradients))

    def _step(self, number: int, parts: list[Entry], count: int) -> None:
        piece, array = self._pieces[number], self._arrays[number]
        kind = self._like[piece.name][0]
        param = outside(array, kind)
        by_rows = getattr(self._optimizer, "step_rows", None)
        if by_rows is not None and all(e.rows is not None for e in parts):
            rows, total = _summed_rows(parts, kind)
            if by_rows(piece.name, param, outside(rows, kind), _mean(total, count)):
                return
        self._optimizer.step(piece.name, param, _mean(_summed(parts, array, kind), count))

    def final(self) -> dict[str, Any]:
        """Return all parameters, once every rank that is left has asked for them too."""
        if self._final is None:
            self._listen()
            for server in self._others:
                self._send(server, Message(wire.FINAL))
            everyone = set(range(self._comm.size)) - {self._comm.rank}
            given: set[int] = set()
            while True:
                missing = everyone - self._asked - self._gone
                if not missing or self._failure is not None:  # until all ask a push may come, late
                    for rank in self._asked - given:
                        self._answer(rank, wire.SHARE, self._own())
                    given |= self._asked
                if not (everyone - given - self._gone or set(self._others) - self._answered):
                    break
                self._handle(*self._next())
                self._check_servers()
            self._final = self._whole()
        return dict(self._final)

    def _own(self) -> list[Entry]:
        return [Entry(number, array) for number, array in self._arrays.items()]

    def _check_servers(self) -> None:
        for server in self._others:
            if server in self._gone and server not in self._answered:
                error = RankLost(f"final: server {server} is lost, and its arrays with it.", server)
                if self._failure is None:  # it had served all, so that nobody has been told yet
                    self._fail(error)
                raise error

    def _whole(self) -> dict[str, Any]:
        arrays: dict[str, NDArray] = {}
        for number, part in (self._shares | self._arrays).items():
            piece = self._pieces[number]
            if piece.name not in arrays:
                arrays[piece.name] = np.empty(piece.whole, piece.dtype)
            piece.of(arrays[piece.name])[...] = part
        return {name: outside(arrays[name], *self._like[name]) for name in self._like}

    def _fail(self, error: DdpLabError) -> None:
        """Tell every rank of the error, and raise it; those that asked for the end ask anew."""
        self._failure = error
        self._waiting.clear()
        for rank in self._asked & self._workers - self._knowing:
            self._listen_to(rank)
        self._asked &= self._knowing
        for rank in range(self._comm.size):
            if rank != self._comm.rank and rank not in self._gone:
                self._send(rank, wire.failure(error))
        raise error

    def _answer(self, rank: int, kind: int, entries: Sequence[Entry] = (), step: int = 0) -> None:
        counts = self._counts.get(rank, [0, 0, 0])
        self._send(rank, Message(kind, step, list(entries), (counts[0], counts[1], counts[2])))

    def _send(self, rank: int, message: Message) -> None:
        packed = wire.pack(message)
        with contextlib.suppress(RankLost):  # the one who listens to it says so in its turn
            self._comm.send(packed, rank)
            self.report.bytes_sent += packed.nbytes


def _summed(parts: list[Entry], like: NDArray, kind: str) -> Any:
    """Return the sum of gradients, some of which may be of a few rows alone."""
    total = outside(np.zeros_like(like), kind)
    for part in parts:
        assert part.array is not None
        grad = outside(part.array, kind)
        if part.rows is None:
            total += grad
        elif kind == "numpy":
            np.add.at(total, part.rows, grad)
        else:
            total.index_add_(0, outside(part.rows, kind), grad)
    return total


def _summed_rows(parts: list[Entry], kind: str) -> tuple[NDArray, Any]:
    """Return the rows that gradients of a few rows have, each once, and the sums there."""
    rows = np.concatenate([e.rows for e in parts if e.rows is not None])
    unique, place = np.unique(rows, return_inverse=True)
    starts = np.cumsum([0, *(0 if e.rows is None else len(e.rows) for e in parts)])
    placed = [
        Entry(e.piece, e.array, place[lo:hi])
        for e, lo, hi in zip(parts, starts, starts[1:], strict=False)
    ]
    assert parts[0].array is not None
    like = np.zeros((len(unique), *parts[0].array.shape[1:]), parts[0].array.dtype)
    return unique, _summed(placed, like, kind)


def _mean(total: Any, count: int) -> Any:
    if count > 1:
        total /= count
    return total
