"""What a stage of a traced step ends with: effects, noted while tracing, done by each run."""

from dataclasses import dataclass, field
from typing import Any

from minitorch.arrays.library import Array
from minitorch.graph.core.node import Node
from minitorch.tensor.tensor import Tensor


class OldGradient:
    """The gradient that a tensor has when a run begins: captured, and written, as a tensor is."""

    requires_grad = False

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.tensor.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.tensor.dtype

    @property
    def array(self) -> Array:
        """The numbers."""
        return self._now.array

    def copy_(self, source: Tensor) -> None:
        """Overwrite it."""
        self._now.copy_(source)

    @property
    def _now(self) -> Tensor:
        grad = self.tensor._grad
        assert grad is not None  # a trace that reads it is taken only where there is one
        return grad


@dataclass(frozen=True)
class Effect:
    """Something to do once its stage is computed.

    Attributes:
        kind: "write" into the memory of `on`; "grad", which `on` gets, None without `value`;
            "add" to the gradient of `on`; "call" of `on`.
        value: the node of the numbers, or a tensor that is handed over itself.
    """

    kind: str
    on: Any
    value: Node | Tensor | None = None


@dataclass
class Stage:
    """The effects at the end of a stage, and the id of the last node before it ends."""

    effects: list[Effect] = field(default_factory=list)
    end: int = -1
