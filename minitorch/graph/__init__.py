"""Dataflow graphs with deferred execution, under TensorFlow 1's names.

`import minitorch.graph as tf` runs code written for TensorFlow 1's graphs. Each family of names
lists its own in `__all__`; what few programs use is loaded when it is first asked for (`names`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from minitorch.errors import GraphError as GraphError
from minitorch.graph import nn as nn
from minitorch.graph import train as train
from minitorch.graph.control.cond import merge as merge
from minitorch.graph.control.cond import switch as switch
from minitorch.graph.control.tensor_array import TensorArray as TensorArray
from minitorch.graph.defaults import *  # noqa: F403  (its __all__)
from minitorch.graph.discovery.improve import improve as improve
from minitorch.graph.discovery.search import discover as discover
from minitorch.graph.dtypes import DType as DType
from minitorch.graph.dtypes import as_dtype as as_dtype
from minitorch.graph.dtypes import bool_ as bool_
from minitorch.graph.dtypes import float16 as float16
from minitorch.graph.dtypes import float32 as float32
from minitorch.graph.dtypes import float64 as float64
from minitorch.graph.dtypes import int8 as int8
from minitorch.graph.dtypes import int16 as int16
from minitorch.graph.dtypes import int32 as int32
from minitorch.graph.dtypes import int64 as int64
from minitorch.graph.dtypes import uint8 as uint8
from minitorch.graph.dynamic import trees as trees
from minitorch.graph.explain import explain as explain
from minitorch.graph.gradients import gradients as gradients
from minitorch.graph.initializers import *  # noqa: F403  (its __all__)
from minitorch.graph.nn import one_hot as one_hot
from minitorch.graph.node import Constant as Constant
from minitorch.graph.node import Node as Node
from minitorch.graph.node import placeholder as placeholder
from minitorch.graph.node import placeholder_with_default as placeholder_with_default
from minitorch.graph.operators.elementwise import *  # noqa: F403  (its __all__)
from minitorch.graph.operators.making import *  # noqa: F403  (its __all__)
from minitorch.graph.operators.math import *  # noqa: F403  (its __all__)
from minitorch.graph.operators.random import *  # noqa: F403  (its __all__)
from minitorch.graph.operators.shaping import *  # noqa: F403  (its __all__)
from minitorch.graph.optimize import count_nodes as count_nodes
from minitorch.graph.optimize import mixed_precision as mixed_precision
from minitorch.graph.optimize import optimize as optimize
from minitorch.graph.optimize import recompute as recompute
from minitorch.graph.placing.placed import PlacedSession as PlacedSession
from minitorch.graph.running.compiled import compile as compile
from minitorch.graph.running.plan import memory_plan as memory_plan
from minitorch.graph.running.profiling import profile as profile
from minitorch.graph.scope import *  # noqa: F403  (its __all__)
from minitorch.graph.session import InteractiveSession as InteractiveSession
from minitorch.graph.session import Session as Session
from minitorch.graph.session import get_default_session as get_default_session
from minitorch.graph.spaces.names import LATER, SPACES
from minitorch.graph.state import *  # noqa: F403  (its __all__)
from minitorch.graph.static_shape import Dimension as Dimension
from minitorch.graph.static_shape import as_static as as_static
from minitorch.graph.train.loss_scale import LossScaleOptimizer as LossScaleOptimizer
from minitorch.graph.variable_scope import *  # noqa: F403  (its __all__)

if TYPE_CHECKING:
    from minitorch.graph import layers as layers
    from minitorch.graph.collections import GraphKeys as GraphKeys
    from minitorch.graph.operators.choosing import *  # noqa: F403  (its __all__)
    from minitorch.graph.operators.effects import *  # noqa: F403  (its __all__)
    from minitorch.graph.operators.matrices import *  # noqa: F403  (its __all__)
    from minitorch.graph.operators.ranking import *  # noqa: F403  (its __all__)
    from minitorch.graph.operators.segments import *  # noqa: F403  (its __all__)
    from minitorch.graph.operators.writing import *  # noqa: F403  (its __all__)
    from minitorch.graph.spaces import app as app
    from minitorch.graph.spaces import contrib as contrib
    from minitorch.graph.spaces import data as data
    from minitorch.graph.spaces import errors as errors
    from minitorch.graph.spaces import flags as flags
    from minitorch.graph.spaces import image as image
    from minitorch.graph.spaces import losses as losses
    from minitorch.graph.spaces import metrics as metrics
    from minitorch.graph.spaces import summary as summary
    from minitorch.tracing import cond as cond
    from minitorch.tracing import foldl as foldl
    from minitorch.tracing import foldr as foldr
    from minitorch.tracing import jit as jit
    from minitorch.tracing import map_fn as map_fn
    from minitorch.tracing import scan as scan
    from minitorch.tracing import trace as trace
    from minitorch.tracing import while_loop as while_loop

Tensor = Node
Operation = Node
TensorShape = as_static
bool = bool_
double, half = float64, float16
newaxis = None


def __getattr__(name: str) -> Any:
    """Return one of the names that are handed on when they are first asked for."""
    if name in SPACES:
        return import_module(SPACES[name])
    if name not in LATER:
        raise import_module("minitorch.graph.spaces.absent").no_attribute(__name__, name)
    found = globals()[name] = getattr(import_module(LATER[name]), name)
    return found


def __dir__() -> list[str]:
    """Return all names, those that are not loaded yet among them."""
    return sorted({*globals(), *LATER, *SPACES})
