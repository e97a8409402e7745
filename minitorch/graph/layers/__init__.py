"""Layers that make their own variables, under TensorFlow's names: `tf.layers`.

Each opens a variable scope: the name it is given, or its kind made unique ("dense", "dense_1").
Its variables are called `kernel` and `bias` there. A regularizer's loss goes into the collection
REGULARIZATION_LOSSES, and what must run beside training into UPDATE_OPS.
"""

from importlib import import_module
from typing import Any

from .conv import conv1d as conv1d
from .conv import conv2d as conv2d
from .conv import conv2d_transpose as conv2d_transpose
from .conv import separable_conv2d as separable_conv2d
from .normalized import batch_normalization as batch_normalization
from .plain import average_pooling1d as average_pooling1d
from .plain import average_pooling2d as average_pooling2d
from .plain import dense as dense
from .plain import dropout as dropout
from .plain import flatten as flatten
from .plain import max_pooling1d as max_pooling1d
from .plain import max_pooling2d as max_pooling2d

CLASSES = (
    "AveragePooling1D",
    "AveragePooling2D",
    "BatchNormalization",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Dense",
    "Dropout",
    "Flatten",
    "Layer",
    "MaxPooling1D",
    "MaxPooling2D",
    "SeparableConv2D",
)


def __getattr__(name: str) -> Any:
    """Return a layer as a class, `Dense` for `dense`, loaded when it is first asked for."""
    if name in CLASSES:
        return getattr(import_module(f"{__name__}.classes"), name)
    raise import_module("minitorch.graph.spaces.absent").no_attribute(__name__, name)
