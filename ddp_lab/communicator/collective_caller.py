"""How a collective call runs in a group: its checks, its header, its order, its thread.

Every call goes through `_call` (what is asked, stamped and numbered) and `_run` (now, or behind
the asynchronous calls that are still under way, so that all ranks keep one order).
"""

import math
from collections.abc import Iterable
from functools import partial
from typing import Any, Self

import numpy as np

import ddp_lab.collectives.builtin  # noqa: F401 - registers the package's algorithms
from ddp_lab.arguments import whole_number
from ddp_lab.arrays import device_of
from ddp_lab.collectives.choose import choose
from ddp_lab.collectives.registry import lookup
from ddp_lab.collectives.rows import same_place
from ddp_lab.communicator.calls import Call
from ddp_lab.communicator.point_to_point import Messenger
from ddp_lab.errors import InvalidArgument
from ddp_lab.handle import Handle, Worker
from ddp_lab.reduction import check_operation
from ddp_lab.transport import header as headers
from ddp_lab.transport.base import NDArray, Tells, Transport


class CollectiveCaller(Messenger):
    """The machinery beneath the collectives of `Communicator`."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._contexts = [1]  # the next context that is free here, shared by all groups of a rank
        self._open: dict[Handle, None] = {}  # asynchronous calls that run or raised, likewise

    def _join(self, members: tuple[int, ...], rank: int, context: int) -> None:
        super()._join(members, rank, context)
        self._sequence = 0
        self._inner: Self | None = None
        self._worker: Worker | None = None

    def _inside(self) -> Self:
        """Return the communicator that an algorithm gets: all it sends carries its header.

        Collectives that an algorithm calls in its turn are part of the one it belongs to.
        """
        if self._stamp:
            return self
        inner = self._inner
        if inner is None:
            inner = self._inner = self._fork(self._members, self.rank, self._context)
            inner._channel = 2 * self._context + 1
        return inner

    def _shares(self) -> bool:
        if self._memory is None:
            return False
        return self._inside().rendezvous() is not None

    def _call(
        self,
        operation: str,
        algorithm: str,
        array: NDArray | None,
        argument: str,
        kind: str | None,
        x: Any,
    ) -> Call:
        """Return the call, numbered and stamped; `array` is None where the shape is unknown."""
        if algorithm == "auto":
            n_bytes = 0 if array is None else array.nbytes
            algorithm = choose(operation, n_bytes, self._shares(), self.hosts, self.link)
        chosen = lookup(operation, algorithm)
        header = self._stamp
        if not header:
            dtype, shape = (None, None) if array is None else (array.dtype, array.shape)
            description = headers.describe(operation, algorithm, dtype, shape, argument)
            site = headers.call_site()
            group = self._context, self._members[0]
            header = headers.stamp(*group, self._sequence, description, site, kind or "numpy")
            self._sequence += 1
        return Call(operation, chosen, header, kind, array, device_of(x))

    def _run(
        self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], async_op: bool
    ) -> Any:
        if not call.algorithm.built_in and call.operation != "all_reduce":
            args = tuple(x.copy() if hasattr(x, "nbytes") else x for x in args)
        call.args, call.kwargs = args, kwargs
        if kwargs.get("op") == "avg":
            kwargs["op"] = "sum"
            call.divisor = self.size
        if async_op or (self._worker is not None and self._worker.busy):
            if self._worker is None:
                self._worker = Worker(f"ddp_lab rank {self.rank}")
            job = partial(self._execute_there, call)
            if self._tensors is not None:
                job = self._tensors.beside(job)  # type: ignore[assignment]
            handle = self._worker.submit(job)
            self._open[handle] = None
            handle.when_done(self._close)
            return handle if async_op else handle.wait()
        return self._execute(call)

    def _execute_there(self, call: Call) -> Any:
        """Execute a call in a thread that has no line of the program's: it stands at the call's."""
        headers.stand_at(headers.site_of(call.header).encode())
        return self._execute(call)

    def _close(self, handle: Handle) -> None:
        if not handle.failed:
            self._open.pop(handle, None)

    def raise_unseen(self) -> None:
        """Wait for all asynchronous collectives; raise an error that nobody asked for."""
        for handle in list(self._open):
            handle.raise_unseen()

    def _execute(self, call: Call) -> Any:
        inner = self._inside()
        inner._stamp = call.header
        if inner is self:  # part of another collective: not a call of its own on board or record
            return call.run(inner)
        if self._board is not None:
            # Ranks that meet compare their headers there.
            members = () if call.algorithm.borrows and self._shares() else self._members
            self._board.enter(self._members[self.rank], call.header, members)
        try:
            return self._run_recorded(call, inner)
        except Exception as error:
            if isinstance(self._carrier, Tells):
                self._carrier.tell_failure(error)
            raise

    def _run_recorded(self, call: Call, inner: Self) -> Any:
        recorder = self._recorder
        if recorder is None:
            return call.run(inner)
        outer, began_at = recorder.op, recorder.begin(call.label())
        try:
            return call.run(inner)
        finally:
            recorder.end(call.n_bytes, began_at, outer)

    def _write_to(self, call: Call, out: Any, x: Any, array: NDArray) -> NDArray:
        """Have the result written to `out`; return what to read, which no write may change."""
        target = self._target(call, out, array.shape, array.dtype)
        call.out, call.answer = target, out
        if out is x or same_place(array, target):
            call.out = array
        elif isinstance(array, np.ndarray) and np.may_share_memory(array, target):
            call.array = array = array.copy()  # what is written must not change what is read
        return array

    def _write_rows(self, call: Call, out: Any, array: NDArray) -> NDArray:
        """Have each rank's row written to `out`; return what to read, which no write may change."""
        call.answer = out
        if not isinstance(out, list):
            call.out = self._target(call, out, (self.size, *array.shape), array.dtype)
            return array
        call.out = rows = [self._target(call, row, array.shape, array.dtype) for row in out]
        if len(rows) != self.size:
            raise InvalidArgument(
                f"{call.operation}: out= is one array a rank: got a list of {len(rows)}, expected "
                f"{self.size}. Pass a list with an array for each rank."
            )
        others = [row for rank, row in enumerate(rows) if rank != self.rank]
        if isinstance(array, np.ndarray) and any(np.may_share_memory(array, o) for o in others):
            call.array = array = array.copy()
        return array

    def _target(self, call: Call, out: Any, shape: tuple[int, ...], dtype: Any) -> NDArray:
        """Return the array that shares the memory of `out`, into which the result is to go."""
        target = self._writable(out, call.operation)
        if target.shape != shape or target.dtype != dtype:
            raise InvalidArgument(
                f"{call.operation}: out= does not fit: got {headers.dtype_name(target.dtype)} "
                f"{target.shape}, expected {headers.dtype_name(dtype)} {shape}. "
                "Pass an array of the result's shape and dtype."
            )
        return target

    def _operand(self, operation: str, x: Any, op: str) -> tuple[NDArray, str]:
        array, kind = self._array_of(x, operation)
        check_operation(operation, op, array.dtype)
        return array, kind

    def _parts(self, parts: Any) -> tuple[list[NDArray], str]:
        if parts is None:
            self._needs_array("scatter")
        if not isinstance(parts, Iterable) or isinstance(parts, dict | str | bytes):
            raise InvalidArgument(
                f"scatter: not a list of arrays: got {type(parts).__name__}, expected "
                f"{self.size} arrays. Pass a list with an array for each rank."
            )
        pairs = [self._array_of(part, "scatter") for part in parts]
        if len(pairs) != self.size:
            raise InvalidArgument(
                f"scatter: one part a rank: got {len(pairs)} parts, expected {self.size}. "
                "Pass a list with an array for each rank."
            )
        return [array for array, _ in pairs], pairs[0][1]

    def _needs_array(self, operation: str) -> None:
        raise InvalidArgument(
            f"{operation}: the root has nothing to send: got None on rank {self.rank}. "
            "Pass the array on the root; the other ranks may pass None."
        )

    def _needs_rows(self, operation: str, array: NDArray) -> None:
        if array.ndim == 0 or array.shape[0] != self.size:
            raise InvalidArgument(
                f"{operation}: the first axis is one row a rank: got shape {array.shape}, "
                f"expected ({self.size}, ...). Reshape or stack the array."
            )

    def _grid_shape(self, axes: dict[str, int]) -> tuple[int, ...]:
        shape = tuple(whole_number("grid", name, size) for name, size in axes.items())
        if not shape or min(shape) < 1 or math.prod(shape) != self.size:
            raise InvalidArgument(
                f"grid: the axes do not cover the ranks: got {axes}, expected sizes whose product "
                f"is {self.size}. Change an axis or the number of ranks."
            )
        return shape
