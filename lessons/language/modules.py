"""The course's own pieces of lab 03, with the names and arguments that the learner's have there."""

from collections.abc import Iterable
from typing import Any

import numpy as np

import minitorch as mt
from minitorch.nn import Module as NNModule
from minitorch.nn import ModuleList
from minitorch.nn import Parameter as NNParameter


class Parameter(NNParameter):
    """A float32 tensor that wants a gradient, made of an array."""

    __slots__ = ()

    def __init__(self, values: object) -> None:
        super().__init__(mt.tensor(np.asarray(values, dtype=np.float32)))


class Module(NNModule):
    """minitorch's module, which can be set up without a call of its base, and knows lists."""

    def __new__(cls, *_: object, **__: object) -> "Module":
        """Return a module that attributes can be set on at once."""
        module = super().__new__(cls)
        NNModule.__init__(module)
        return module

    def __init__(self) -> None:
        """Do nothing: `__new__` has begun."""

    def __setattr__(self, name: str, value: object) -> None:
        is_list = isinstance(value, list) and all(isinstance(v, NNModule) for v in value)
        super().__setattr__(name, ModuleList(value) if is_list else value)  # type: ignore[arg-type]


class Linear(Module):
    """x W^T + b, as the learner's: its weights are drawn with `rng`."""

    def __init__(self, n_in: int, n_out: int, rng: np.random.Generator) -> None:
        self.weight = Parameter(rng.normal(size=(n_out, n_in)) * np.sqrt(2 / n_in))
        self.bias = Parameter(np.zeros(n_out))

    def forward(self, x: Any) -> Any:
        """Return (..., n_out) of (..., n_in)."""
        return mt.matmul(x, self.weight.transpose(0, 1)) + self.bias


class Adam(mt.optim.Adam):
    """minitorch's Adam, whose learning rate is an attribute."""

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-3) -> None:
        super().__init__(list(parameters), lr=lr)

    def step(self, closure: Any = None) -> object:
        """Move every parameter that has a gradient."""
        return super().step(closure)

    @property
    def lr(self) -> float:
        """The learning rate."""
        return float(self.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        self.param_groups[0]["lr"] = value


def state_of(optimizer: Any) -> Any:
    """Return what an optimizer carries from step to step: copies of its arrays, and numbers."""
    if isinstance(optimizer, mt.optim.Optimizer):
        return _plain(optimizer.state_dict())
    return _plain({k: v for k, v in vars(optimizer).items() if k != "parameters"})


def set_state(optimizer: Any, state: Any) -> None:
    """Put back what `state_of` returned of an optimizer of the same parameters."""
    if isinstance(optimizer, mt.optim.Optimizer):
        optimizer.load_state_dict(_tensors(state))
    else:
        vars(optimizer).update(_tensors(state))


def _plain(value: Any) -> Any:
    """Return a tree with arrays for tensors."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return np.array(value.detach().numpy()) if isinstance(value, mt.Tensor) else value


def _tensors(value: Any) -> Any:
    """Return a tree with tensors for arrays, and numbers where keys were numbers."""
    if isinstance(value, dict):
        return {int(k) if str(k).isdigit() else k: _tensors(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_tensors(v) for v in value]
    return mt.tensor(value.copy()) if isinstance(value, np.ndarray) else value
