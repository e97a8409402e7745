"""A function of `nn.functional` as a module: its options are fixed when it is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from minitorch.nn.module import Module
from minitorch.tensor import Tensor


class FunctionModule(Module):
    """A module that calls a function; a subclass says which one, and its `options`.

        class Softmax(FunctionModule, of=F.softmax, options="dim"): ...

    The options stand in torch's order; their defaults are those of the function. "inplace" is
    taken for PyTorch's sake and changes nothing: results are always new tensors.
    """

    function: ClassVar[Callable[..., Any]]
    options: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, of: Callable[..., Any] | None = None, options: str = "") -> None:
        super().__init_subclass__()
        if of is not None:
            known = inspect.signature(of).parameters
            cls.function = staticmethod(of)
            cls.options = tuple(options.split())
            cls.defaults = {name: known[name].default for name in cls.options if name in known}

    def __init__(self, *args: Any, **kwargs: object) -> None:
        super().__init__()
        names = self.options
        given = {**self.defaults, **dict(zip(names, args, strict=False)), **kwargs}
        unknown = sorted(given.keys() - set(names))
        if len(args) > len(names) or unknown:
            got = unknown or list(args)
            raise TypeError(f"{self._get_name()}: got {got}, expected {names or 'no arguments'}.")
        for name in self.defaults:
            value = given[name]
            if value is inspect.Parameter.empty:
                raise TypeError(f"{self._get_name()}: got no {name}. Pass one.")
            if name in ("weight", "pos_weight"):  # of the classes: state, but not trained
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the function of the inputs and the options."""
        options = {name: getattr(self, name) for name in self.defaults}
        result: Tensor = type(self).function(*inputs, **options)
        return result

    def extra_repr(self) -> str:
        """Return the options."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.defaults)
