"""The forms in which torch's groups take a call: torch's own, and those of programs.

Torch calls `pg.broadcast([t], options)`; programs write `pg.broadcast(t, 1)`,
`pg.allreduce(t, op=MAX)` or `pg.barrier()`.

May import: torch, eager.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from ddp_lab.torch_backend.eager import eager

F = TypeVar("F", bound=Callable[..., Any])

_bindings: Any = torch._C._distributed_c10d
_KINDS = "Allreduce AllreduceCoalesced Allgather AllToAll Barrier Broadcast Gather Reduce "
_KINDS += "ReduceScatter Scatter"
OPTIONS = {kind: getattr(_bindings, f"{kind}Options") for kind in _KINDS.split()}
ANY_OPTIONS = tuple(OPTIONS.values())
ATTRIBUTES = {"root": "rootRank", "op": "reduceOp", "timeout": "timeout"}  # of options


def collective(kind: str, *names: str, tensors: int = 1, in_lists: bool = True) -> Callable[[F], F]:
    """Let a method `fn(self, *tensors, options)` be called in any form of torch's.

    Args:
        kind: of its options.
        names: which of them stand behind the tensors where there are no options, in order; at
            the end of each is the timeout.
        tensors: how many arguments of tensors it has.
        in_lists: whether it takes lists, and other forms single tensors.
    """
    fields = (*names, "timeout")

    def in_any_form(fn: F) -> F:
        @functools.wraps(fn)
        def inner(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not kwargs and args and isinstance(args[-1], ANY_OPTIONS):
                return fn(self, *args)
            named = {key: value for key, value in kwargs.items() if key not in (*fields, "opts")}
            data = [*args[:tensors], *(named[key] for key in sorted(named, key=_place))]
            if len(data) != tensors or len(args) > tensors + len(fields):
                raise TypeError(
                    f"{fn.__name__}: the arguments fit no form of this call: got {len(args)} and "
                    f"{sorted(kwargs)}, expected {tensors} for tensors, then {fields} or options."
                )
            rest = dict(zip(("opts", *fields), (None, *args[tensors:]), strict=False))
            options = _options(OPTIONS[kind], rest | kwargs)
            return fn(self, *(_lists(data) if in_lists else data), options)

        return eager(inner)  # type: ignore[return-value]

    return in_any_form


def operation_name(options: Any) -> str:
    """Return the name of the collective that options belong to, such as "all_reduce"."""
    kind = type(options).__name__.removesuffix("Options")
    return re.sub("(?<=[a-z])(?=[A-Z])|(?<=^All)(?=[a-z])", "_", kind).lower()


def _place(name: str) -> tuple[bool, bool]:
    """Return what sorts arguments for tensors by torch's names for them."""
    return "split" in name, not name.startswith("output")


def _options(make: Callable[[], Any], values: dict[str, Any]) -> Any:
    """Return options with these values, or those that are among them."""
    for value in values.values():
        if isinstance(value, ANY_OPTIONS):
            return value
    options = make()
    for name, attribute in ATTRIBUTES.items():
        if values.get(name) is not None:
            setattr(options, attribute, values[name])
    return options


def _lists(data: Sequence[Any]) -> Sequence[Any]:
    """Return arguments as lists with an item for each tensor, also those for one tensor."""
    if not any(isinstance(argument, torch.Tensor) for argument in data):
        return data
    single = (isinstance(argument, torch.Tensor) or len(argument) > 0 for argument in data)
    return [[argument] if own else [] for argument, own in zip(data, single, strict=True)]
