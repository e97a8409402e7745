"""Layers as objects, which have their variables once and may be called again: `layers.Dense`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..node import Node
from ..state import Variable
from ..variable_scope import AUTO_REUSE, VariableScope, variable_scope
from . import conv, normalized, plain


class Layer:
    """Base: takes what its function takes after the inputs; its first call makes its variables."""

    function: ClassVar[Callable[..., Node]]
    kind: ClassVar[str]
    has_variables: ClassVar[bool] = True

    def __init__(self, *args: Any, name: str | None = None, **options: Any) -> None:
        self.args, self.options, self._called = args, options, name
        self._scope: VariableScope | None = None
        self._graph: Any = None

    def __call__(self, inputs: Any, **more: Any) -> Node:
        """Return the layer's outputs; every call uses the same variables."""
        function = type(self).function
        if not self.has_variables:
            return function(inputs, *self.args, **self.options, **more)
        if self._scope is None:
            with variable_scope(self._called, self.kind) as made:
                self._scope = made
        how = {**self.options, **more}
        found = function(inputs, *self.args, **how, name=self._scope, reuse=AUTO_REUSE)
        self._graph = found.graph
        return found

    apply = __call__

    @property
    def variables(self) -> list[Variable]:
        """The layer's variables, none before the first call."""
        if self._scope is None or self._graph is None:
            return []
        inside = f"{self._scope.name}/"
        return [v for v in self._graph.variables if v.name.startswith(inside)]

    @property
    def trainable_variables(self) -> list[Variable]:
        """Those that optimizers update."""
        return [v for v in self.variables if v.trainable]

    weights = variables
    trainable_weights = trainable_variables

    def __getattr__(self, name: str) -> Any:
        """Return one of the layer's variables: `kernel`, `bias`, `gamma`."""
        if not name.startswith("_"):
            for variable in self.variables:
                if variable.name == f"{self._scope.name}/{name}":  # type: ignore[union-attr]
                    return variable
        raise AttributeError(
            f"{type(self).__name__} has no {name!r} (or not before its first call)."
        )


def _of(function: Callable[..., Node], name: str, has_variables: bool = True) -> type[Layer]:
    said = f"`layers.{function.__name__}` as an object."
    parts = {
        "__doc__": said,
        "__module__": __name__,
        "function": staticmethod(function),
        "kind": function.__name__,
        "has_variables": has_variables,
    }
    return type(name, (Layer,), parts)


AveragePooling1D = _of(plain.average_pooling1d, "AveragePooling1D", has_variables=False)
AveragePooling2D = _of(plain.average_pooling2d, "AveragePooling2D", has_variables=False)
BatchNormalization = _of(normalized.batch_normalization, "BatchNormalization")
Conv1D = _of(conv.conv1d, "Conv1D")
Conv2D = _of(conv.conv2d, "Conv2D")
Conv2DTranspose = _of(conv.conv2d_transpose, "Conv2DTranspose")
Dense = _of(plain.dense, "Dense")
Dropout = _of(plain.dropout, "Dropout", has_variables=False)
Flatten = _of(plain.flatten, "Flatten", has_variables=False)
MaxPooling1D = _of(plain.max_pooling1d, "MaxPooling1D", has_variables=False)
MaxPooling2D = _of(plain.max_pooling2d, "MaxPooling2D", has_variables=False)
SeparableConv2D = _of(conv.separable_conv2d, "SeparableConv2D")
