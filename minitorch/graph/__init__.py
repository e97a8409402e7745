"""Dataflow graphs with deferred execution, under TensorFlow 1's names.

`import minitorch.graph as tf` runs programs in the manner of TensorFlow's early tutorials. The
names are those that the course needs: `docs/graph_names.md` lists them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from minitorch.arrays import library as arrays
from minitorch.arrays.library import as_dtype as as_dtype
from minitorch.arrays.library import float16 as float16
from minitorch.arrays.library import float32 as float32
from minitorch.arrays.library import float64 as float64
from minitorch.arrays.library import int8 as int8
from minitorch.arrays.library import int16 as int16
from minitorch.arrays.library import int32 as int32
from minitorch.arrays.library import int64 as int64
from minitorch.arrays.library import uint8 as uint8
from minitorch.errors import GraphError as GraphError
from minitorch.exports import public_names
from minitorch.graph import nn as nn
from minitorch.graph import train as train
from minitorch.graph.control.cond import merge as merge
from minitorch.graph.control.cond import switch as switch
from minitorch.graph.core.gradients import gradients as gradients
from minitorch.graph.core.graph import *  # noqa: F403  (its __all__)
from minitorch.graph.core.node import Constant as Constant
from minitorch.graph.core.node import Node as Node
from minitorch.graph.core.placeholders import placeholder as placeholder
from minitorch.graph.core.placeholders import placeholder_with_default as placeholder_with_default
from minitorch.graph.core.session import Session as Session
from minitorch.graph.core.session import compile as compile
from minitorch.graph.core.variables import *  # noqa: F403  (its __all__)
from minitorch.graph.discovery.search import discover as discover
from minitorch.graph.memory.plan import memory_plan as memory_plan
from minitorch.graph.nn import one_hot as one_hot
from minitorch.graph.operators.creation import *  # noqa: F403  (its __all__)
from minitorch.graph.operators.elementwise import *  # noqa: F403  (its __all__)
from minitorch.graph.operators.math import *  # noqa: F403  (its __all__)
from minitorch.graph.operators.random import *  # noqa: F403  (its __all__)
from minitorch.graph.operators.shaping import *  # noqa: F403  (its __all__)
from minitorch.graph.passes.optimize import count_nodes as count_nodes
from minitorch.graph.passes.optimize import optimize as optimize
from minitorch.graph.placement.placed import PlacedSession as PlacedSession

if TYPE_CHECKING:
    from minitorch.tracing import cond as cond
    from minitorch.tracing import jit as jit
    from minitorch.tracing import trace as trace
    from minitorch.tracing import while_loop as while_loop

Tensor = Node
bool = arrays.bool_

_OF_TRACING = ("cond", "jit", "trace", "while_loop")

__all__ = public_names(globals(), ["nn", "train", *_OF_TRACING])


def __getattr__(name: str) -> Any:
    """Return one of the names of `minitorch.tracing`, which stands above this package."""
    if name not in _OF_TRACING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module("minitorch.tracing"), name)
    return value


def __dir__() -> list[str]:
    """Return all names, those that are not loaded yet among them."""
    return sorted({*globals(), *_OF_TRACING})
