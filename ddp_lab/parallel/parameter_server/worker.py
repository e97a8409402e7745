"""The worker's side of a parameter server: pull, push, done.

Each request but a push has one answer from each server that it goes to, in order; a failure may
come at any time, in place of an answer or after it.

May import: NumPy, arrays, communicator, errors, messages, pieces, transport.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ddp_lab.arrays import device_of, to_numpy
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import DdpLabError, InvalidArgument, RankLost
from ddp_lab.parallel.parameter_server import messages
from ddp_lab.parallel.parameter_server.messages import Entry, Message, Report
from ddp_lab.parallel.parameter_server.pieces import Piece, at_server, join
from ddp_lab.transport.base import NDArray


class Worker:
    """One worker: the step it is in, and what it knows of its servers."""

    def __init__(
        self,
        comm: Communicator,
        pieces: Sequence[Piece],
        kinds: Mapping[str, tuple[str, Any]],
        servers: int,
        first_decides: bool,
    ) -> None:
        self.report = Report()
        self._comm = comm
        self._pieces = pieces
        self._kinds = kinds  # kind and device of each array, to give back the same
        self._servers = range(servers)
        self._names = list(dict.fromkeys(piece.name for piece in pieces))
        self._first_decides = first_decides
        self._step = 0
        self._done = False
        self._failure: DdpLabError | None = None
        self._final: dict[str, Any] | None = None

    def pull(self, names: Iterable[str] | None) -> dict[str, Any]:
        """Return the parameters as they are once this worker may go on."""
        with self._reporting_errors():
            self._at_work("pull")
            wanted = self._pieces_of(names)
            began = time.perf_counter()
            requests = {
                s: [n for n in wanted if self._pieces[n].server == s] for s in self._servers
            }
            # server 0 first, where it decides: the others then have its version, or a later one
            arrays = self._ask({0: requests.pop(0)}) if self._first_decides else {}
            arrays.update(self._ask({s: r for s, r in requests.items() if r}))
            self.report.waited_s += time.perf_counter() - began
            return join(self._pieces, arrays, self._kinds)

    def _ask(self, requests: dict[int, list[int]]) -> dict[int, NDArray]:
        """Return the pieces' arrays by number; this worker's step is then the servers'."""
        for server, numbers in requests.items():
            self._send(server, Message(messages.PULL, self._step, [Entry(n) for n in numbers]))
        arrays = {}
        for server in requests:
            answer = self._answer(server, messages.PARAMS)
            self._step = max(self._step, answer.step)
            arrays.update({e.piece: e.array for e in answer.entries if e.array is not None})
        return arrays

    def _pieces_of(self, names: Iterable[str] | None) -> list[int]:
        if isinstance(names, str):
            names = [names]
        chosen = set(self._names if names is None else names)
        for name in chosen:
            self._check_name("pull", name)
        return [n for n, piece in enumerate(self._pieces) if piece.name in chosen]

    def push(self, grads: Mapping[str, Any]) -> None:
        """Send this worker's gradients of its step; return without waiting."""
        with self._reporting_errors():
            self._at_work("push")
            if not isinstance(grads, Mapping):
                raise self._wrong("push", f"gradients are not a dict by name: got {grads!r:.80}")
            entries = [entry for name, grad in grads.items() for entry in self._entries(name, grad)]
            for server in reversed(self._servers):  # the one that decides last
                mine = set(at_server(self._pieces, server))
                part = [entry for entry in entries if entry.piece in mine]
                self._send(server, Message(messages.PUSH, self._step, part))
            self._step += 1
            self.report.pushed += 1

    def _entries(self, name: str, grad: Any) -> list[Entry]:
        """Return the gradient of one array, cut into its pieces; none for None."""
        self._check_name("push", name)
        if grad is None:
            return []
        pieces = [(n, piece) for n, piece in enumerate(self._pieces) if piece.name == name]
        piece = pieces[0][1]
        if getattr(grad, "is_sparse", False):  # torch's: rows by their numbers
            grad = grad.coalesce()
            grad = (grad.indices()[0], grad.values())
        if not isinstance(grad, tuple):
            array = self._check_fit(name, grad, piece.whole, piece.dtype)
            return [Entry(n, piece.of(array)) for n, piece in pieces]
        rows, values = self._rows(name, grad, piece)
        if not piece.by_row:  # fewer rows than servers: as cheap whole
            array = np.zeros(piece.whole, piece.dtype)
            np.add.at(array, rows, values)
            return [Entry(n, piece.of(array)) for n, piece in pieces]
        entries = []
        for n, piece in pieces:
            here = (rows >= piece.lo) & (rows < piece.hi)
            entries.append(Entry(n, values[here], rows[here] - piece.lo))
        return entries

    def _rows(self, name: str, grad: tuple[Any, ...], piece: Piece) -> tuple[NDArray, NDArray]:
        """Return the rows of a sparse gradient as whole numbers, and their values."""
        if len(grad) != 2 or not piece.whole:
            raise self._wrong(
                "push",
                f"a sparse gradient of {name!r} is (indices, rows) of an array with rows: got "
                f"{len(grad)} parts for shape {piece.whole}",
            )
        rows, _ = to_numpy(grad[0], "push")
        if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
            raise self._wrong(
                "push",
                f"indices of {name!r} are no row of whole numbers: got {rows.dtype} {rows.shape}",
            )
        rows = rows.astype(np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= piece.whole[0]):
            raise self._wrong(
                "push",
                f"an index of {name!r} is outside of its rows: got {rows.min()} to {rows.max()}, "
                f"expected 0 to {piece.whole[0] - 1}",
            )
        return rows, self._check_fit(name, grad[1], (len(rows), *piece.whole[1:]), piece.dtype)

    def _check_fit(self, name: str, grad: Any, shape: tuple[int, ...], dtype: Any) -> NDArray:
        array, _ = to_numpy(grad, "push")
        same = array.dtype == dtype
        if array.shape != shape or not (same or np.can_cast(array.dtype, dtype, "same_kind")):
            raise self._wrong(
                "push",
                f"the gradient of {name!r} does not fit: got {array.dtype} {array.shape}, expected "
                f"{dtype} {shape}",
            )
        return array if same else array.astype(dtype)

    def done(self) -> None:
        """Say to all servers that this worker pushes nothing more."""
        with self._reporting_errors():
            self._at_work("done")
            for server in self._servers:
                self._send(server, Message(messages.DONE, self._step))
            self._done = True
            for server in self._servers:
                self._answer(server, messages.ACK)

    def final(self) -> dict[str, Any]:
        """Return the parameters after the end; after a failure that was seen, as they are."""
        if self._final is None:
            with self._reporting_errors():
                if not self._done and self._failure is None:
                    raise self._wrong("final", "this worker is still at work: call done() first")
                for server in self._servers:
                    self._send(server, Message(messages.FINAL, int(self._failure is not None)))
                arrays: dict[int, NDArray] = {}
                for server in self._servers:
                    answer = self._answer(server, messages.SHARE)
                    arrays.update({e.piece: e.array for e in answer.entries if e.array is not None})
                self._final = join(self._pieces, arrays, self._kinds)
        return {name: _copy(array) for name, array in self._final.items()}

    def _at_work(self, operation: str) -> None:
        if self._failure is not None:
            raise self._failure
        if self._done:
            raise self._wrong(
                operation,
                f"rank {self._comm.rank} has called done() after {self.report.pushed} pushes",
                "Call done() after the last push",
            )

    def _check_name(self, operation: str, name: Any) -> None:
        if name not in self._kinds:
            names = ", ".join(map(repr, self._names[:8]))
            raise self._wrong(operation, f"no such array: got {name!r}, expected one of {names}")

    def _wrong(self, operation: str, what: str, step: str = "Mend the call") -> InvalidArgument:
        return InvalidArgument(f"{operation}: {what} (rank {self._comm.rank}). {step}.")

    @contextlib.contextmanager
    def _reporting_errors(self) -> Iterator[None]:
        """Tell the servers of an error that is this rank's, so that all ranks raise it."""
        try:
            yield
        except DdpLabError as error:
            if self._failure is None:
                self._failure = error
                for server in self._servers:
                    with contextlib.suppress(DdpLabError):
                        self._comm.send(messages.pack(messages.failure(error)), server)
            raise

    def _send(self, server: int, message: Message) -> None:
        packed = messages.pack(message)
        try:
            self._comm.send(packed, server)
        except RankLost:  # it may have said why before it ended
            self._answer(server, messages.FAIL)
            raise
        self.report.bytes_sent += packed.nbytes

    def _answer(self, server: int, kind: int) -> Message:
        """Return the server's next message of this kind.

        Raises:
            DdpLabError: it tells of a failure that this rank had not heard of.
        """
        while True:
            try:
                packed = self._comm.recv(server)
            except RankLost as error:
                raise RankLost(
                    f"parameter server: server {server} is lost: {error}", server
                ) from error
            message = messages.unpack(packed, self._pieces)
            if message.kind == messages.FAIL:
                if self._failure is None:
                    self._failure = messages.error_in(message)
                    raise self._failure
            elif message.kind in (messages.PARAMS, messages.ACK, messages.SHARE):
                self.report.hear(*message.counts)
            if message.kind == kind:
                return message


def _copy(array: Any) -> Any:
    return array.clone() if hasattr(array, "clone") else array.copy()


def kinds_of(params: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return kind and device of each array."""
    return {name: (to_numpy(x, "ParameterServer")[1], device_of(x)) for name, x in params.items()}
