"""The algorithms of each collective by name, the learner's among them.

An algorithm is a function `fn(comm, x, ...)` that sends and receives through `comm` and returns
its result:

    all_reduce              fn(comm, x, op=)         -> array like x
    reduce                  fn(comm, x, root=, op=)  -> array like x at the root, else None
    broadcast               fn(comm, x, root=)       -> array; x is None where it is unknown
    gather                  fn(comm, x, root=)       -> (size, *x.shape) at the root, else None
    scatter                 fn(comm, parts, root=)   -> array; parts is None elsewhere
    all_gather              fn(comm, x)              -> (size, *x.shape)
    reduce_scatter          fn(comm, x, op=)         -> x.shape[1:]
    all_to_all              fn(comm, x)              -> array like x
    barrier                 fn(comm)                 -> None

`x` is a NumPy array that the algorithm owns: it may work in place. `op` is never `"avg"`: that is
a sum, divided afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ddp_lab.arguments import check_name
from ddp_lab.errors import InvalidArgument, UnknownAlgorithm

Fn = TypeVar("Fn", bound=Callable[..., Any])

COLLECTIVES = (
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
)


@dataclass(frozen=True)
class Algorithm:
    """A function with what the communicator must know of it.

    `reads`: it leaves `x` as it is. `fills`: it takes `out=`, the array for its result or None, of
    which `x` may be a part.
    """

    name: str
    fn: Callable[..., Any]
    built_in: bool = True
    reads: bool = False
    fills: bool = False


_REGISTRY: dict[str, dict[str, Algorithm]] = {collective: {} for collective in COLLECTIVES}


def _of(collective: str) -> dict[str, Algorithm]:
    check_name("algorithms", "collective", collective, COLLECTIVES)
    return _REGISTRY[collective]


def algorithms(collective: str) -> list[str]:
    """Return the names that `algorithm=` accepts for this collective, `"auto"` first."""
    return ["auto", *sorted(_of(collective))]


def register_algorithm(collective: str, name: str, fn: Callable[..., Any]) -> None:
    """Add `fn` under `name`; `launch` makes it known to the ranks. A second one replaces the first.

    Raises:
        InvalidArgument: no such collective, no name, one of the package's own, or no function.
    """
    by_name = _of(collective)
    if not isinstance(name, str) or not name or not name.isprintable() or "|" in name:
        raise InvalidArgument(
            f"register_algorithm: not a name: got {name!r}, expected printable text without '|'. "
            "It is what algorithm= will be given."
        )
    if name == "auto" or (name in by_name and by_name[name].built_in):
        raise InvalidArgument(
            f"register_algorithm: the name is taken: got {name!r}, expected a name of your own. "
            f"{collective} already has {', '.join(algorithms(collective))}."
        )
    if not callable(fn):
        raise InvalidArgument(
            f"register_algorithm: not a function: got {fn!r}, expected fn(comm, x, ...). "
            "Pass the function itself."
        )
    by_name[name] = Algorithm(name, fn, built_in=False)


def built_in(
    collective: str, name: str, *, reads: bool = False, fills: bool = False
) -> Callable[[Fn], Fn]:
    """Return a decorator that registers one of the package's own algorithms."""

    def register(fn: Fn) -> Fn:
        _of(collective)[name] = Algorithm(name, fn, reads=reads, fills=fills)
        return fn

    return register


def lookup(collective: str, name: str) -> Algorithm:
    """Return the algorithm.

    Raises:
        UnknownAlgorithm: naming those that there are.
    """
    algorithm = _of(collective).get(name) if isinstance(name, str) else None
    if algorithm is None:
        raise UnknownAlgorithm(
            f"{collective}: unknown algorithm: got {name!r}, expected one of "
            f"{', '.join(algorithms(collective))}. ddp_lab.algorithms({collective!r}) lists them."
        )
    return algorithm


def learners() -> list[tuple[str, str, Callable[..., Any]]]:
    """Return what was added with `register_algorithm`, for the ranks to add as well."""
    return [
        (collective, algorithm.name, algorithm.fn)
        for collective, by_name in _REGISTRY.items()
        for algorithm in by_name.values()
        if not algorithm.built_in
    ]
