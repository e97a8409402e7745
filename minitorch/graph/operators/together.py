"""`tuple`: values that wait for each other, under TensorFlow's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..gradients import Identity
from ..lined import lined
from ..naming import rename_all
from ..node import build
from ..scope import control_dependencies

__all__ = ["tuple"]


@lined
def tuple(
    tensors: Sequence[Any], name: str | None = None, control_inputs: Sequence[Any] | None = None
) -> list[Any]:
    """The values, each of them only once all (and the control inputs) have been computed."""
    nodes = [t for t in tensors if t is not None]
    with control_dependencies([*nodes, *(control_inputs or ())]):
        found = [None if t is None else build(Identity(), (t,)) for t in tensors]
    rename_all([t for t in found if t is not None], name)
    return found
