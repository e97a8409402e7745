"""Names of TensorFlow's that are made of others: checks, crops, blocks, casts within a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import as_dtype, int32
from ...errors import GraphError
from ..lined import lined
from ..naming import rename
from ..node import Node, UnknownShape, convert
from ..scope import control_dependencies
from .effects import Assert
from .elementwise import clip_by_value, is_finite
from .late import once_known
from .math import cast, reduce_all
from .random import random_uniform
from .shaping import identity, reshape, transpose
from .shaping import slice as cut
from .sized import filled


@lined
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Node:
    """The value; the run stops with `message` where an element is infinite or no number."""
    node = convert(tensor)
    with control_dependencies([Assert(reduce_all(is_finite(node)), [message, node])]):
        return identity(node, name)


def verify_tensor_all_finite(t: Any, msg: str, name: str | None = None) -> Node:
    """As `check_numerics`."""
    return check_numerics(t, msg, name)


@lined
def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Node:
    """The value repeated along its axes of size 1, and along new ones in front."""
    return rename(filled(shape, input), name)


@lined
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Node:
    """The value as another dtype, cut to that dtype's range first."""
    node, wanted = convert(value), as_dtype(dtype)
    kind: Any = np.finfo if wanted.kind == "f" else np.iinfo
    ends = [_within(kind(wanted).min, node.dtype), _within(kind(wanted).max, node.dtype)]
    return cast(clip_by_value(node, *ends), wanted, name)


def _within(end: Any, dtype: Any) -> Any:
    """Return the end of a range as the nearest number of a dtype that is not outside of it."""
    own: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    if not own.min <= end <= own.max:
        return own.min if end < 0 else own.max
    found = np.asarray(end).astype(dtype)[()]
    return found if abs(int(found)) <= abs(int(end)) else np.nextafter(found, dtype.type(0))


@lined
def random_crop(
    value: Any, size: Sequence[int], seed: int | None = None, name: str | None = None
) -> Node:
    """A block of that size out of a value, from a place drawn anew in each run."""
    node, sizes = convert(value), [int(n) for n in size]
    shape = node.shape
    if isinstance(shape, UnknownShape) or len(shape) != len(sizes) or None in shape:
        raise GraphError(f"random_crop: got shape {shape}, expected {len(sizes)} known sizes.")
    room = [have - n for have, n in zip(shape, sizes, strict=True)]
    if min(room, default=0) < 0:
        raise GraphError(f"random_crop: got size {sizes} for shape {shape}, expected less.")
    begin = [
        random_uniform([], 0, r + 1, int32, None if seed is None else seed + i) if r else 0
        for i, r in enumerate(room)
    ]
    found = cut(node, begin, sizes)
    found.set_shape(sizes)
    return rename(found, name)


@lined
@once_known
def space_to_depth(input: Any, block_size: int, name: str | None = None) -> Node:
    """Blocks of pixels (N, H, W, C) as channels: (N, H / b, W / b, b b C)."""
    _, height, width, channels = _image("space_to_depth", input)
    b = int(block_size)
    if height % b or width % b:
        raise GraphError(f"space_to_depth: got {height} x {width}, expected multiples of {b}.")
    apart = reshape(input, [-1, height // b, b, width // b, b, channels])
    together = transpose(apart, (0, 1, 3, 2, 4, 5))
    return reshape(together, [-1, height // b, width // b, b * b * channels], name)


@lined
@once_known
def depth_to_space(input: Any, block_size: int, name: str | None = None) -> Node:
    """Channels (N, H, W, b b C) as blocks of pixels: (N, H b, W b, C)."""
    _, height, width, channels = _image("depth_to_space", input)
    b = int(block_size)
    if channels % (b * b):
        raise GraphError(
            f"depth_to_space: got {channels} channels, expected a multiple of {b * b}."
        )
    inner = channels // (b * b)
    apart = reshape(input, [-1, height, width, b, b, inner])
    together = transpose(apart, (0, 1, 3, 2, 4, 5))
    return reshape(together, [-1, height * b, width * b, inner], name)


def _image(where: str, x: Node) -> tuple[Any, int, int, int]:
    """Return the sizes of images, all but the first of which must be known."""
    if len(x.shape) != 4 or None in x.shape[1:]:
        raise GraphError(
            f"{where}: got {x.name!r} of shape {x.shape}, expected (N, H, W, C) with H, W and C "
            f"known (built at {x.location})."
        )
    return tuple(x.shape)
