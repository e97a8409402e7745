"""The ways of running a graph, by name; all give the same values."""

from collections.abc import Callable, Sequence
from functools import partial

from ...errors import GraphError
from .compiled import Run, Step
from .interpreter import InterpretedStep
from .tokens.tagged import TokenStep

EXECUTORS: dict[str, tuple[Callable[..., Run], Sequence[str]]] = {
    "compiled": (Step, ()),
    "interpreter": (InterpretedStep, ()),
    "tokens": (TokenStep, ("on_event", "shuffle")),
}
"""What plans a run of (fetches, feeds, device), and the options that it takes."""


def find_executor(name: str, options: dict[str, object]) -> Callable[..., Run]:
    """Return what plans a run for the executor of that name, with its options.

    Raises:
        GraphError: no such executor, or one that does not take such an option.
    """
    if name not in EXECUTORS:
        raise GraphError(
            f"Session: got executor {name!r}, expected one of {', '.join(map(repr, EXECUTORS))}."
        )
    plan, takes = EXECUTORS[name]
    unknown = sorted(options.keys() - set(takes))
    if unknown:
        raise GraphError(
            f"Session: got option {unknown[0]!r} for executor {name!r}, expected "
            f"{', '.join(takes) or 'none'}."
        )
    return partial(plan, **options)
