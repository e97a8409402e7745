"""The communicator: ranks, messages and collectives by name, over any transport.

Every call goes through `_call` (what is asked, stamped and numbered) and `_run` (now, or behind
the asynchronous calls that are still under way, so that all ranks keep one order).

Imports the transport's seam, headers and the registry of algorithms; knows no transport by name
and needs nothing but NumPy.
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


class Communicator(Messenger):
    """One rank's view of a group of ranks: `Communicator(transport)` is that of all of them.

    Arrays are NumPy arrays or torch tensors; results come back as the same kind. No collective
    changes its argument, unless that is given as `out=` too. All ranks of the group must make the
    same collective calls in the same order; if not, the first message says so.

    Every collective takes `algorithm=`, a name of `ddp_lab.algorithms(collective)`, and
    `async_op=True`, which returns a `Handle` at once; its `wait()` returns the result. Besides
    what its own docstring says, each raises `Mismatch` when ranks disagree on it and `RankLost`
    when one of them ended.
    """

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._contexts = [1]  # the next context that is free here, shared by all groups of a rank
        self._open: dict[Handle, None] = {}  # asynchronous calls that run or raised, likewise

    def _join(self, members: tuple[int, ...], rank: int, context: int) -> None:
        super()._join(members, rank, context)
        self._sequence = 0
        self._inner: Self | None = None
        self._worker: Worker | None = None

    def broadcast(
        self,
        x: Any = None,
        root: int = 0,
        algorithm: str = "auto",
        async_op: bool = False,
        *,
        out: Any = None,
    ) -> Any:
        """Return the root's array on every rank; elsewhere `x` may be None.

        `out`, which may be `x`, is an array for the result, which is then also returned.
        """
        self._check_rank("broadcast", root)
        array = kind = None
        if x is None and self.rank != root:
            x = out
        if x is not None:
            array, kind = self._array_of(x, "broadcast")
        elif self.rank == root:
            self._needs_array("broadcast")
        call = self._call("broadcast", algorithm, array, f"root={root}", kind, x)
        if out is not None and array is not None:
            array = self._write_to(call, out, x, array)
        return self._run(call, (array,), {"root": root}, async_op)

    def scatter(
        self, parts: Any = None, root: int = 0, algorithm: str = "auto", async_op: bool = False
    ) -> Any:
        """Return element `rank` of the root's list of `size` arrays; elsewhere pass None."""
        self._check_rank("scatter", root)
        arrays, kind = self._parts(parts) if self.rank == root else (None, None)
        call = self._call("scatter", algorithm, None, f"root={root}", kind, parts)
        return self._run(call, (arrays,), {"root": root}, async_op)

    def gather(
        self,
        x: Any,
        root: int = 0,
        algorithm: str = "auto",
        async_op: bool = False,
        *,
        out: Any = None,
    ) -> Any:
        """Return an array of shape (size, *x.shape) at the root, None elsewhere.

        `out` is what the root fills, and returns: such an array, or a list with one a rank.
        """
        self._check_rank("gather", root)
        array, kind = self._array_of(x, "gather")
        call = self._call("gather", algorithm, array, f"root={root}", kind, x)
        if out is not None and self.rank == root:
            array = self._write_rows(call, out, array)
        return self._run(call, (array,), {"root": root}, async_op)

    def reduce(
        self,
        x: Any,
        root: int = 0,
        op: str = "sum",
        algorithm: str = "auto",
        async_op: bool = False,
    ) -> Any:
        """Return the reduction over all ranks at the root, None elsewhere."""
        self._check_rank("reduce", root)
        array, kind = self._operand("reduce", x, op)
        call = self._call("reduce", algorithm, array, f"root={root} op={op}", kind, x)
        return self._run(call, (call.working(array),), {"root": root, "op": op}, async_op)

    def all_gather(
        self, x: Any, algorithm: str = "auto", async_op: bool = False, *, out: Any = None
    ) -> Any:
        """Return an array of shape (size, *x.shape): row r is rank r's `x`.

        `out` is an array for the result, or a list with one a rank, which is then also returned;
        `x` may be its row `rank`.
        """
        array, kind = self._array_of(x, "all_gather")
        call = self._call("all_gather", algorithm, array, "", kind, x)
        if out is not None:
            array = self._write_rows(call, out, array)
        return self._run(call, (array,), {}, async_op)

    def reduce_scatter(
        self, x: Any, op: str = "sum", algorithm: str = "auto", async_op: bool = False
    ) -> Any:
        """Return row `rank` of the reduction over all ranks; `x` has shape (size, ...)."""
        array, kind = self._operand("reduce_scatter", x, op)
        self._needs_rows("reduce_scatter", array)
        call = self._call("reduce_scatter", algorithm, array, f"op={op}", kind, x)
        return self._run(call, (call.working(array),), {"op": op}, async_op)

    def all_to_all(self, x: Any, algorithm: str = "auto", async_op: bool = False) -> Any:
        """Return the array whose row r is row `rank` of rank r's `x`; shape (size, ...)."""
        array, kind = self._array_of(x, "all_to_all")
        self._needs_rows("all_to_all", array)
        call = self._call("all_to_all", algorithm, array, "", kind, x)
        return self._run(call, (array,), {}, async_op)

    def all_reduce(
        self,
        x: Any,
        op: str = "sum",
        algorithm: str = "auto",
        async_op: bool = False,
        *,
        out: Any = None,
    ) -> Any:
        """Return the reduction of `x` over all ranks, the same bits on each.

        Args:
            x: this rank's array, of any shape, the same on all ranks; not changed.
            op: sum, prod, min, max, avg, or for integers band, bor, bxor.
            algorithm: a name of `ddp_lab.algorithms("all_reduce")`.
            async_op: return a `Handle` at once; its `wait()` returns the result.
            out: where to put the result, `x` itself to work in place; then it is also returned.
        """
        array, kind = self._operand("all_reduce", x, op)
        call = self._call("all_reduce", algorithm, array, f"op={op}", kind, x)
        if out is not None:
            array = self._write_to(call, out, x, array)
        return self._run(call, (array,), {"op": op}, async_op)

    def barrier(self, algorithm: str = "auto", async_op: bool = False) -> Any:
        """Return once every rank has called it."""
        call = self._call("barrier", algorithm, None, "", "numpy", None)
        return self._run(call, (), {}, async_op)

    def split(self, color: int | None, key: int = 0) -> Self | None:
        """Return a communicator of the ranks that passed the same `color`; every rank calls it.

        Ranks in it are ordered by `key`, then by rank here. A rank that passes None gets None.

        Raises:
            InvalidArgument: `color` or `key` is no whole number.
        """
        return self._split(color, key, "split")

    def _split(self, color: int | None, key: int, why: str) -> Self | None:
        """Split as `split` does; ranks whose `why` differs are told so."""
        nobody = np.iinfo(np.int64).min
        color = None if color is None else whole_number("split", "color", color)
        own = [nobody if color is None else color, whole_number("split", "key", key)]
        mine = np.array([*own, self._contexts[0]], np.int64)
        call = self._call("all_gather", "reference", mine, why, "numpy", None)
        table = self._run(call, (mine,), {}, async_op=False)
        context = int(table[:, 2].max())
        self._contexts[0] = context + 1
        if color is None:
            return None
        ranks = [r for r in range(self.size) if table[r, 0] == color]
        ranks.sort(key=lambda r: (int(table[r, 1]), r))
        members = tuple(self._members[r] for r in ranks)
        return self._fork(members, ranks.index(self.rank), context)

    def twin(self) -> Self:
        """Return a communicator of the same ranks, without a message, as all of them do now.

        Their numbers for groups have to be the same, as they are before the first `split`.
        """
        context = self._contexts[0]
        self._contexts[0] = context + 1
        return self._fork(self._members, self.rank, context)

    def grid(self, **axes: int) -> dict[str, Self]:
        """Return one communicator an axis: `grid(dp=2, pp=4)["dp"]` joins ranks equal in `pp`.

        Ranks are laid out in row-major order: the last axis varies fastest.

        Raises:
            InvalidArgument: the axes' sizes do not multiply to the number of ranks.
            Mismatch: ranks ask for different grids.
        """
        shape = tuple(whole_number("grid", name, size) for name, size in axes.items())
        if not shape or min(shape) < 1 or math.prod(shape) != self.size:
            raise InvalidArgument(
                f"grid: the axes do not cover the ranks: got {axes}, expected sizes whose product "
                f"is {self.size}. Change an axis or the number of ranks."
            )
        why = " ".join(["grid", *(f"{name}={size}" for name, size in axes.items())])
        position = np.unravel_index(self.rank, shape)
        groups = {}
        for index, name in enumerate(axes):
            others = [int(p) if i != index else 0 for i, p in enumerate(position)]
            color = int(np.ravel_multi_index(others, shape))
            group = self._split(color, int(position[index]), why)
            assert group is not None
            groups[name] = group
        return groups

    # How a call runs

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
            # Ranks that meet to reduce compare their headers there.
            meets = call.algorithm.fills and call.operation == "all_reduce" and self._shares()
            members = () if meets else self._members
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
