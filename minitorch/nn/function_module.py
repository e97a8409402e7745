"""A function of `nn.functional` as a module: its options are fixed when it is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from minitorch.nn.module import Module
from minitorch.tensor import Tensor


class FunctionModule(Module):
    """A module that calls `function`; a subclass names the `options`, in torch's order.

    Their defaults are those of the function. "inplace" is taken for PyTorch's sake and changes
    nothing: results are always new tensors.
    """

    function: ClassVar[Callable[..., Any]]
    options: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, options: str | None = None) -> None:
        super().__init_subclass__()
        if options is not None:
            known = inspect.signature(cls.function).parameters
            cls.options = tuple(options.split())
            cls.defaults = {name: known[name].default for name in cls.options if name in known}

    def __init__(self, *args: Any, **kwargs: object) -> None:
        super().__init__()
        names = self.options
        given = dict(zip(names, args, strict=False)) | kwargs
        unknown = sorted(given.keys() - set(names))
        if len(args) > len(names) or unknown:
            got = unknown or list(args)
            raise TypeError(f"{self._get_name()}: got {got}, expected {names or 'no arguments'}.")
        for name, default in self.defaults.items():
            value = given.get(name, default)
            if name in ("weight", "pos_weight"):  # of the classes: state, but not trained
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the function of the inputs and the options."""
        options = {name: getattr(self, name) for name in self.defaults}
        result: Tensor = type(self).function(*inputs, **options)
        return result
