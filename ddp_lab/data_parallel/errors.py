"""What can go wrong in data-parallel training.

    DdpLabError
    └── DataParallelError (RuntimeError)
        ├── ModelMismatch        ranks were given different models
        ├── UnusedParameters     a parameter took no part in the loss
        ├── ReadyTwice           a gradient arrived twice in one backward
        └── InputsExhausted      a rank ran out of inputs, and that was to be an error

They are RuntimeErrors because torch's DistributedDataParallel raises that, and a drop-in must.
A peer that dies or hangs is reported by the transport (`ddp_lab.errors`, or torch's).
"""

from collections.abc import Sequence
from typing import Any

from ddp_lab.errors import DdpLabError


class DataParallelError(DdpLabError, RuntimeError):
    """Any misuse of data-parallel training that one rank can see."""


class ModelMismatch(DataParallelError):
    """Ranks wrapped different models; `ranks` are the two that differ, `index` the parameter."""

    def __init__(self, message: str, ranks: tuple[int, int] = (-1, -1), index: int = -1) -> None:
        super().__init__(message)
        self.ranks = ranks
        self.index = index

    @classmethod
    def between(cls, everyone: Sequence[Sequence[Any]]) -> "ModelMismatch | None":
        """Return the error for the first rank whose (name, shape, kind) list is not rank 0's.

        Names may differ without harm; the same names in another order may not.
        """
        first = everyone[0]
        for rank, other in enumerate(everyone):
            index = _difference(first, other)
            if index is not None:
                sides = [_describe(entries, index) for entries in (first, other)]
                message = (
                    "DistributedDataParallel: DDP expects same model across all ranks: parameter "
                    f"{index} appears not to match: rank 0 has {sides[0]}, rank {rank} has "
                    f"{sides[1]}. Build the model from the same code and sizes on every rank."
                )
                return cls(message, (0, rank), index)
        return None


def _difference(first: Sequence[Any], other: Sequence[Any]) -> int | None:
    """Return the first position in which two lists of parameters differ, None if in none."""
    names, others_names = ({entry[0] for entry in entries} for entries in (first, other))
    begin = 0 if names == others_names else 1  # whether the names are compared too
    for index, (ours, theirs) in enumerate(zip(first, other, strict=False)):
        if ours[begin:] != theirs[begin:]:
            return index
    return None if len(first) == len(other) else min(len(first), len(other))


def _describe(entries: Sequence[Any], index: int) -> str:
    if index >= len(entries):
        return f"only {len(entries)} params"
    name, shape, kind = entries[index]
    return f"{name} {tuple(shape)} {kind} (of {len(entries)} params)"


class UnusedParameters(DataParallelError):
    """Backward ended without gradients for `names`, so no rank could finish its buckets."""

    def __init__(self, message: str, names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)

    @classmethod
    def in_iteration(
        cls, names: Sequence[str], indices: Sequence[int], rank: int, find_unused: bool
    ) -> "UnusedParameters":
        """Return the error that names the parameters whose gradients never came."""
        advice = (
            "Since `find_unused_parameters=True` is enabled, an output that takes no part in the "
            "loss is the likely cause."
            if find_unused
            else "You can enable unused parameter detection by passing the keyword argument "
            "`find_unused_parameters=True` to DistributedDataParallel."
        )
        mine = f"which did not receive grad for rank {rank}:"
        return cls(
            "forward: Expected to have finished reduction in the prior iteration before starting "
            f"a new one. {advice} Make sure all `forward` function outputs participate in "
            f"calculating loss. Parameters {mine} {', '.join(names)}. Parameter indices {mine} "
            f"{' '.join(map(str, indices))} (for torch's own checks of collectives, set the "
            "environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL).",
            names,
        )


class ReadyTwice(DataParallelError):
    """The gradient of `name` arrived twice in one iteration."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name

    @classmethod
    def of(cls, name: str) -> "ReadyTwice":
        """Return the error for the gradient of this parameter."""
        return cls(
            f"backward: Expected to mark a variable ready only once: the gradient of {name} "
            "arrived twice in one iteration. A parameter was used outside of forward, or its "
            "layer was checkpointed twice; when the graph is the same in every iteration, pass "
            "static_graph=True.",
            name,
        )


class InputsExhausted(DataParallelError):
    """A rank ran out of inputs, and `throw_on_early_termination` was asked for."""
