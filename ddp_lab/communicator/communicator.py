"""The communicator: ranks, messages and collectives by name, over any transport.

Imports the transport's seam, headers and the registry of algorithms; knows no transport by name
and needs nothing but NumPy.
"""

from typing import Any, Self

import numpy as np

from ddp_lab.arguments import whole_number
from ddp_lab.communicator.collective_caller import CollectiveCaller


class Communicator(CollectiveCaller):
    """One rank's view of a group of ranks: `Communicator(transport)` is that of all of them.

    Arrays are NumPy arrays or torch tensors; results come back as the same kind. No collective
    changes its argument, unless that is given as `out=` too. All ranks of the group must make the
    same collective calls in the same order; if not, the first message says so.

    Every collective takes `algorithm=`, a name of `ddp_lab.algorithms(collective)`, and
    `async_op=True`, which returns a `Handle` at once; its `wait()` returns the result. Besides
    what its own docstring says, each raises `Mismatch` when ranks disagree on it and `RankLost`
    when one of them ended.
    """

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
        shape = self._grid_shape(axes)
        why = " ".join(["grid", *(f"{name}={size}" for name, size in axes.items())])
        position = np.unravel_index(self.rank, shape) if shape else ()
        groups = {}
        for index, name in enumerate(axes):
            others = [int(p) if i != index else 0 for i, p in enumerate(position)]
            color = int(np.ravel_multi_index(others, shape))
            group = self._split(color, int(position[index]), why)
            assert group is not None
            groups[name] = group
        return groups
