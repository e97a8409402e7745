"""The ways of running a graph, by name; all give the same values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...arrays import Array, Device
from ...errors import GraphError
from ..core.node import Node
from ..core.variables import State


class Run(Protocol):
    """The run of some fetches from some feeds, planned once."""

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """Return the fetched arrays."""


Executor = Callable[[Sequence[Node], Sequence[Node], Device], Run]


def executor_called(name: str, options: dict[str, Any]) -> Executor:
    """Return what plans a run for the executor of that name, with its options.

    Raises:
        GraphError: no such executor, or one that does not take such an option.
    """
    if name not in OPTIONS:
        raise GraphError(
            f"Session: got executor {name!r}, expected one of {', '.join(map(repr, OPTIONS))}."
        )
    unknown = sorted(options.keys() - OPTIONS[name])
    if unknown:
        takes = ", ".join(sorted(OPTIONS[name])) or "none"
        raise GraphError(
            f"Session: got option {unknown[0]!r} for executor {name!r}, expected {takes}."
        )
    return lambda fetches, feeds, device: _class(name)(fetches, feeds, device, **options)


OPTIONS: dict[str, frozenset[str]] = {
    "compiled": frozenset(),
    "interpreter": frozenset(),
    "tokens": frozenset(["shuffle", "on_event"]),
    "parallel": frozenset(["threads", "on_event"]),
    "arena": frozenset(["poison"]),
}


def _class(name: str) -> Callable[..., Run]:
    if name == "compiled":
        from .compiled import Step

        return Step
    if name == "interpreter":
        from .interpreter import InterpretedStep

        return InterpretedStep
    if name == "arena":
        from .arena import ArenaStep

        return ArenaStep
    if name == "tokens":
        from .tokens.sequential import TokenStep

        return TokenStep
    from .parallel import ParallelStep

    return ParallelStep
