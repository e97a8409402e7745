"""What `state_dict` takes out of a module and what `load_state_dict` puts back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from minitorch.errors import MinitorchError
from minitorch.recording import no_grad
from minitorch.tensor import Tensor, tensor

if TYPE_CHECKING:
    from minitorch.nn.module import Module


class IncompatibleKeys(NamedTuple):
    """The keys that only one side had."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class StateDictMismatch(MinitorchError, RuntimeError):
    """A state_dict that does not fit its module; `.problems` has a line for each difference."""

    def __init__(self, message: str, problems: list[str]) -> None:
        super().__init__(message)
        self.problems = problems


def state_of(module: Module, prefix: str = "") -> dict[str, Tensor]:
    """Return every parameter and saved buffer of `module`, detached, under `prefix` + name."""
    return {prefix + name: value.detach() for name, value in _saved(module)}


def load_into(module: Module, state: Mapping[str, object], strict: bool) -> IncompatibleKeys:
    """Copy `state` into `module`, after everything that could fail has been checked."""
    if not isinstance(state, Mapping):
        raise TypeError(
            f"load_state_dict: got {type(state).__name__}, expected a dict of tensors by name, "
            "as state_dict() gives it."
        )
    own = dict(_saved(module))
    missing = [key for key in own if key not in state]
    unexpected = [key for key in state if key not in own]
    problems = _mismatches(own, state)
    if strict and unexpected:
        problems.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}.")
    if strict and missing:
        problems.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}.")
    if problems:
        head = f"Error(s) in loading state_dict for {type(module).__name__}:"
        message = "\n\t".join([head, *problems, "Nothing was copied."])
        raise StateDictMismatch(message, problems)
    with no_grad():
        for key, target in own.items():
            if key in state:
                source = state[key]
                target.copy_(source if isinstance(source, Tensor) else tensor(source))
    return IncompatibleKeys(missing, unexpected)


def _saved(module: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters and saved buffers, module by module, a shared one under each name."""
    for path, part in module.named_modules(remove_duplicate=False):
        dot = f"{path}." if path else ""
        for name, param in part._parameters.items():
            if param is not None:
                yield dot + name, param
        for name, buffer in part._buffers.items():
            if buffer is not None and name not in part.__dict__["_unsaved"]:
                yield dot + name, buffer


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


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
