"""Optimizer: the loop over parameter groups; a subclass gives the update of one parameter.

An update works in place on plain arrays, the parameter's and its gradient's, so a step costs what
the arithmetic costs. Source of the interface: `torch.optim.Optimizer`.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from minitorch.arrays.library import Array, asarray, namespace
from minitorch.errors import ArgumentError
from minitorch.tensor.modes import enable_grad
from minitorch.tensor.tensor import Tensor
from minitorch.tensor.versions import clock

NOT_NEGATIVE = {"lr", "weight_decay", "momentum", "eps", "alpha", "lr_decay"}
NOT_NEGATIVE |= {"initial_accumulator_value"}

HOW = {"foreach", "fused", "capturable"}
"""Torch's options that say how a step is computed, not what: they change nothing here."""
INSTEAD = {
    "maximize": "Minimize the loss with its sign turned.",
    "differentiable": "Compute the new weights from grad(..., create_graph=True).",
    "decoupled_weight_decay": "Take AdamW.",
}

Params = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]


class State(MutableMapping[str, Any]):
    """What an optimizer keeps of one parameter, by name: tensors and counters.

    `arrays` is the same as updates work on it: the tensors' arrays, in the same memory.
    """

    __slots__ = ("arrays",)

    def __init__(self, arrays: dict[str, Any] | None = None) -> None:
        self.arrays = {} if arrays is None else arrays

    def __getitem__(self, name: str) -> Any:
        return _with_tensors(self.arrays[name])

    def __setitem__(self, name: str, value: object) -> None:
        self.arrays[name] = _with_arrays(value)

    def __delitem__(self, name: str) -> None:
        del self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        return repr(dict(self))


def _with_tensors(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_tensors(item) for item in value]
    return Tensor._new(value) if hasattr(value, "shape") else value


def _with_arrays(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_arrays(item) for item in value]
    return value._own_array() if isinstance(value, Tensor) else value


class Optimizer:
    """Base of the optimizers.

    Attributes:
        param_groups: dicts with "params" and the hyperparameters of these parameters.
        state: for each parameter its tensors and counters, filled at its first step.
    """

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor) or not isinstance(params, Iterable):
            got = "single tensor" if isinstance(params, Tensor) else type(params).__name__
            raise TypeError(
                f"{type(self).__name__}: got a {got}, expected an iterable of parameters. Write "
                "[param], or model.parameters()."
            )
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: defaultdict[Tensor, State] = defaultdict(State)
        params_or_groups = list(params)
        if not params_or_groups:
            raise ArgumentError(f"{type(self).__name__}: got no parameter, expected one or more.")
        for group in (
            params_or_groups
            if isinstance(params_or_groups[0], dict)
            else [{"params": params_or_groups}]
        ):
            self.add_param_group(group)  # type: ignore[arg-type]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with hyperparameters of their own; what is not given is the default."""
        if "params" not in param_group:
            raise ArgumentError(
                f"{type(self).__name__}: got a group of {sorted(param_group)}, expected 'params' "
                "too."
            )
        group = {**self.defaults, **param_group}
        params = group["params"]
        listed = [params] if isinstance(params, Tensor) else params
        group["params"] = [p[1] if isinstance(p, tuple) else p for p in listed]
        taken = {id(p) for other in self.param_groups for p in other["params"]}
        for param in group["params"]:
            self._check_param(param, taken)
            taken.add(id(param))
        self.check(group)
        self.param_groups.append(group)

    def _check_param(self, param: object, taken: set[int]) -> None:
        name = type(self).__name__
        if not isinstance(param, Tensor):
            raise TypeError(f"{name}: got a {type(param).__name__}, expected tensors to optimize.")
        if id(param) in taken:
            raise ArgumentError(f"{name}: a parameter is given twice. Leave it in one group.")
        if param.op is not None:
            raise ArgumentError(
                f"{name}: cannot optimize a tensor that {param.op.name} computed: expected a leaf. "
                "Give the parameters themselves."
            )

    def check(self, group: dict[str, Any]) -> None:
        """Raise unless the hyperparameters of a group make sense."""
        for name in sorted(NOT_NEGATIVE & group.keys()):
            if not _is_within(group[name], math.inf):
                self.refuse(name, group[name], "0 or more")
        betas = group.get("betas", (0.0, 0.0))
        if not isinstance(betas, tuple | list) or len(betas) != 2:
            self.refuse("betas", betas, "two numbers in [0, 1)")
        if not all(_is_within(beta, 1.0) for beta in betas):
            self.refuse("betas", betas, "two numbers in [0, 1)")

    def refuse(self, name: str, value: object, expected: str) -> None:
        """Raise that a hyperparameter is out of its range."""
        raise ArgumentError(f"{type(self).__name__}: got {name} {value}, expected {expected}.")

    def update(
        self, w: Array, g: Array, state: dict[str, object], group: dict[str, object]
    ) -> None:
        """Change the parameter's array `w` in place, given its gradient `g`, which is only read."""
        raise NotImplementedError(f"{type(self).__name__} has no update(w, g, state, group).")

    def step(self, closure: Callable[[], object] | None = None) -> object:
        """Update every parameter that has a gradient; return the loss of `closure`, if given."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    w = param._own_array()
                    self.update(w, param.grad.array, self.state[param].arrays, group)
                    clock.tick(w)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every gradient, or fill it with zeros."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none or param.grad is None:
                    param.grad = None
                else:
                    param.grad = param.grad.detach() * 0

    # State

    def state_dict(self) -> dict[str, object]:
        """Return state and hyperparameters, parameters numbered in order, as PyTorch does."""
        params = [param for group in self.param_groups for param in group["params"]]
        number = {id(param): i for i, param in enumerate(params)}
        groups = [
            {**group, "params": [number[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {number[id(p)]: dict(values) for p, values in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken; arrays are copied.

        Raises:
            ArgumentError: other groups, or groups of other sizes.
        """
        if not {"state", "param_groups"} <= state_dict.keys():
            raise ArgumentError(
                f"load_state_dict: got {sorted(state_dict)}, expected 'state' and 'param_groups', "
                "as state_dict() of an optimizer gives them."
            )
        groups = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in groups]
        own = [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise ArgumentError(
                f"load_state_dict: groups differ: got sizes {sizes}, expected {own}. "
                "Build the optimizer over the same parameters first."
            )
        params: dict[int, Tensor] = {}
        for mine, saved in zip(self.param_groups, groups, strict=True):
            params.update(zip(saved["params"], mine["params"], strict=True))
            mine.update({key: value for key, value in saved.items() if key != "params"})
        self.state.clear()
        for key, values in state_dict["state"].items():
            param = params[int(key)]
            self.state[param] = State({name: _own(v, param) for name, v in values.items()})

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def hyperparameters(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters among the `locals()` of a constructor: all its own arguments.

    Raises:
        ArgumentError: one of torch's further options that would change what is computed.
        TypeError: no option of torch's.
    """
    name = type(arguments["self"]).__name__
    for key, value in arguments.get("others", {}).items():
        if key not in HOW | INSTEAD.keys():
            raise TypeError(f"{name}: got an unexpected argument {key!r}.")
        if value and key in INSTEAD:
            raise ArgumentError(f"{name}: got {key}=True, which is not here. {INSTEAD[key]}")
    others = ("self", "params", "others", "__class__")
    return {k: v for k, v in arguments.items() if k not in others}


def _is_within(value: Any, end: float) -> bool:
    """Tell whether a hyperparameter is a number, or a tensor of one, from 0 to below `end`."""
    return not isinstance(value, str) and bool(value >= 0.0) and bool(value < end)


def full_like(w: Array, value: float = 0.0) -> Array:
    """Return an array like `w` filled with one number; never a scalar, which has no memory."""
    return namespace(w).full_like(w, value)


def _own(value: object, param: Tensor) -> Any:
    """Return a copy of a saved array on the parameter's device; numbers as they are."""
    if isinstance(value, list):
        return [_own(item, param) for item in value]
    array = value.array if isinstance(value, Tensor) else value
    return asarray(array, None, param.device) if hasattr(array, "shape") else value
