"""What a module has by dotted name, and what it and a `state_dict` do not have in common."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from minitorch.errors import MinitorchError
from minitorch.tensor.tensor import Tensor

if TYPE_CHECKING:
    from .module import Module


class IncompatibleKeys(NamedTuple):
    """The keys that only one side had."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        keys = f"missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys}"
        return f"_IncompatibleKeys({keys})" if any(self) else "<All keys matched successfully>"


class StateDictMismatch(MinitorchError, RuntimeError):
    """A state_dict that does not fit its module; `.problems` has a line for each difference."""

    def __init__(self, message: str, problems: list[str]) -> None:
        super().__init__(message)
        self.problems = problems


def compare_keys(own: Mapping[str, Tensor], state: Mapping[str, object]) -> IncompatibleKeys:
    """Return the keys that only the module has, and those that only `state` has."""
    return IncompatibleKeys(
        [key for key in own if key not in state], [key for key in state if key not in own]
    )


def check_state(
    module: str, own: Mapping[str, Tensor], state: Mapping[str, object],
    keys: IncompatibleKeys | None,
) -> None:  # fmt: skip
    """Raise a StateDictMismatch where `state` does not fit `own`; `keys` are errors if given."""
    problems = _mismatches(own, state)
    if keys and keys.unexpected_keys:
        problems.insert(0, f"Unexpected key(s) in state_dict: {_quote(keys.unexpected_keys)}.")
    if keys and keys.missing_keys:
        problems.insert(0, f"Missing key(s) in state_dict: {_quote(keys.missing_keys)}.")
    if problems:
        head = f"Error(s) in loading state_dict for {module}:"
        message = "\n\t".join([head, *problems, "Nothing was copied."])
        raise StateDictMismatch(message, problems)


def _mismatches(own: Mapping[str, Tensor], state: Mapping[str, object]) -> list[str]:
    problems = []
    for key, target in own.items():
        if key not in state:
            continue
        shape = getattr(state[key], "shape", None)
        if shape is None:
            problems.append(f"{key}: got {type(state[key]).__name__}, expected a tensor.")
        elif tuple(shape) != tuple(target.shape):
            got, want = tuple(shape), tuple(target.shape)
            problems.append(f"size mismatch for {key}: got shape {got}, expected {want}.")
    return problems


def _quote(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def entry_of(module: "Module", store: str, target: str) -> Tensor:
    """Return what has this dotted name in one of the stores of a module, such as `_buffers`.

    Raises:
        AttributeError: there is none.
    """
    path, _, name = target.rpartition(".")
    part = module.get_submodule(path)
    if name not in part.__dict__[store]:
        raise AttributeError(
            f"{type(part).__name__}: there is no {name!r} among {store[1:]}: got {target!r}."
        )
    entry: Tensor = part.__dict__[store][name]
    return entry
