"""One call of one collective: its algorithm, its header, and the way of the result back out."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ddp_lab.arrays import outside
from ddp_lab.collectives.registry import Algorithm
from ddp_lab.collectives.rows import copy_into, rows_of
from ddp_lab.errors import InvalidArgument
from ddp_lab.reduction import divide
from ddp_lab.transport import header as headers
from ddp_lab.transport.base import NDArray


@dataclass(slots=True)
class Call:
    """A collective as its caller asked for it.

    `kind` is the kind of array to give back, None where only the message can tell; `array` is the
    caller's own, never to be changed or given back; `out`, an array or a list with one a rank,
    receives the result and `answer` is returned in its place.
    """

    operation: str
    algorithm: Algorithm
    header: bytes
    kind: str | None
    array: NDArray | None
    device: Any = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    divisor: int = 0
    out: Any = None
    answer: Any = None

    @property
    def n_bytes(self) -> int:
        """The bytes of this rank's argument, where it has one."""
        return 0 if self.array is None else self.array.nbytes

    def working(self, array: NDArray) -> NDArray:
        """Return an array that the algorithm may have: the caller's own if it only reads."""
        return array if self.algorithm.reads else array.copy()

    def label(self) -> str:
        """Return the name under which this call is recorded."""
        sequence = self.header.partition(b"|")[0].decode()
        number = sequence.removeprefix("0:0.")  # of the ranks that were launched
        return f"{self.operation}:{self.algorithm.name}#{number}"

    def run(self, inner: Any) -> Any:
        """Return the result as the caller's kind of array; `inner` is bound to this collective."""
        algorithm, args = self.algorithm, self.args
        if algorithm.fills:
            result = algorithm.fn(inner, *args, out=self.out, **self.kwargs)
        else:
            if self.operation == "all_reduce":  # works in place
                args = (copy_into(args[0], self.out),)
            result = algorithm.fn(inner, *args, **self.kwargs)
            if not algorithm.built_in:
                result = self._as_array(result, inner)
        if result is None:
            return None
        if self.divisor:
            divide(result, self.divisor)
        if self.answer is not None:
            if isinstance(self.out, list) and result is not self.out:
                for row, value in zip(self.out, rows_of(result), strict=True):
                    np.copyto(row, value)
            elif self.out is not None and result is not self.out:
                np.copyto(self.out, result)
            return self.answer
        if self.operation in ("broadcast", "scatter"):
            result = self._own(result)
        return outside(result, self.kind or headers.kind_of(inner._heard), self.device)

    def _as_array(self, result: Any, inner: Any) -> Any:
        """Return what a learner's algorithm returned, which may be a list, as an array."""
        root = self.kwargs.get("root", inner.rank)
        if self.operation == "barrier" or (
            self.operation in ("gather", "reduce") and inner.rank != root
        ):
            return None
        like = self._like(inner)
        if result is not None and not hasattr(result, "nbytes"):
            result = np.asarray(result, None if like is None else like[1])
        fact = None if result is None else (tuple(result.shape), result.dtype)
        if fact is None or (like is not None and fact != like):
            due = "the root's array" if like is None else f"{like[1]} {like[0]}"
            what = "None" if fact is None else f"{fact[1]} {fact[0]}"
            raise InvalidArgument(
                f"{self.operation}: the algorithm {self.algorithm.name!r} returned no such array: "
                f"got {what} on rank {inner.rank}, expected {due}. "
                "End the function with the array that this rank is to have."
            )
        return result

    def _like(self, inner: Any) -> tuple[tuple[int, ...], Any] | None:
        """Return shape and dtype of this rank's result, None where only the root knows them."""
        x = self.args[0]
        if isinstance(x, list):
            x = x[inner.rank]
        if x is None:
            return None
        shape = tuple(x.shape)
        if self.operation in ("gather", "all_gather"):
            shape = (inner.size, *shape)
        elif self.operation == "reduce_scatter":
            shape = shape[1:]
        return shape, x.dtype

    def _own(self, result: NDArray) -> NDArray:
        """Return memory of the caller's own: at the root, the result is what was passed in."""
        argument = self.args[0]
        arguments = argument if isinstance(argument, list) else [argument]
        return result.copy() if any(result is part for part in arguments) else result
