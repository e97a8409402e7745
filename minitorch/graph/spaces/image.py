"""`tf.image`: images cut, turned, resized and brightened, for pipelines and models.

An image is (H, W, C), a batch (N, H, W, C). Resizing is by TensorFlow 1's rule: pixel i of the
result is read at i * in / out of the input, or with `align_corners` at i * (in - 1) / (out - 1).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ...errors import GraphError
from ...ops import matrices
from ..control.cond import cond
from ..lined import lined
from ..naming import rename
from ..node import Constant, Node, UnknownShape, convert
from ..operators.elementwise import clip_by_value, maximum, sqrt
from ..operators.making import constant
from ..operators.math import cast, matmul, reduce_mean
from ..operators.random import random_uniform
from ..operators.shaping import gather, reshape, reverse
from ..operators.shaping import transpose as permuted
from .absent import no_attribute
from .names import PICTURES


class ResizeMethod:
    """How `resize_images` fills the pixels between."""

    BILINEAR, NEAREST_NEIGHBOR, BICUBIC, AREA = 0, 1, 2, 3


def _sizes(where: str, node: Node) -> tuple[int, int]:
    """Return height and width, which must be known now."""
    if isinstance(node.shape, UnknownShape) or len(node.shape) not in (3, 4):
        raise GraphError(
            f"{where}: got {node.name!r} of shape {node.shape}, expected (H, W, C) or "
            f"(N, H, W, C) (built at {node.location})."
        )
    height, width = tuple(node.shape)[-3:-1]
    if height is None or width is None:
        raise GraphError(
            f"{where}: the size of {node.name!r} is not known: got {node.shape} (built at "
            f"{node.location}). Use set_shape."
        )
    return int(height), int(width)


# ── turned and cut ──────────────────────────────────────────────────────────────────────────────


@lined
def flip_left_right(image: Any) -> Node:
    """The image, or each of a batch, seen in a mirror."""
    return reverse(convert(image), [-2])


@lined
def flip_up_down(image: Any) -> Node:
    """The image, or each of a batch, upside down."""
    return reverse(convert(image), [-3])


@lined
def transpose_image(image: Any) -> Node:
    """Rows and columns of an image exchanged."""
    return permuted(image, (1, 0, 2))


@lined
def random_flip_left_right(image: Any, seed: int | None = None) -> Node:
    """The image or, as often, its mirror image; drawn anew in each run."""
    return _perhaps(image, seed, -2)


@lined
def random_flip_up_down(image: Any, seed: int | None = None) -> Node:
    """The image or, as often, the image upside down; drawn anew in each run."""
    return _perhaps(image, seed, -3)


def _perhaps(image: Any, seed: int | None, axis: int) -> Node:
    node = convert(image)
    turned = reverse(node, [axis])
    found: Node = cond(random_uniform([], seed=seed) < 0.5, lambda: turned, lambda: node)
    return found


@lined
def crop_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Node:
    """The part of an image, or of each of a batch, that begins there and is so large."""
    node = convert(image)
    height, width = _sizes("crop_to_bounding_box", node)
    if (
        min(offset_height, offset_width) < 0
        or offset_height + target_height > height
        or offset_width + target_width > width
    ):
        raise GraphError(
            f"crop_to_bounding_box: got {target_height} x {target_width} from ({offset_height}, "
            f"{offset_width}), expected a part of {height} x {width}."
        )
    rows = slice(offset_height, offset_height + target_height)
    columns = slice(offset_width, offset_width + target_width)
    return node[..., rows, columns, :]  # type: ignore[no-any-return]


@lined
def pad_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Node:
    """An image, or each of a batch, put there into zeros of that size."""
    node = convert(image)
    height, width = _sizes("pad_to_bounding_box", node)
    below, right = target_height - offset_height - height, target_width - offset_width - width
    if min(offset_height, offset_width, below, right) < 0:
        raise GraphError(
            f"pad_to_bounding_box: got {height} x {width} at ({offset_height}, {offset_width}), "
            f"expected one that fits into {target_height} x {target_width}."
        )
    border = [0, 0, offset_width, right, offset_height, below]
    return matrices.pad(node, border)  # type: ignore[no-any-return]


@lined
def central_crop(image: Any, central_fraction: float) -> Node:
    """The middle of an image: that share of its height and of its width."""
    if not 0 < central_fraction <= 1:
        raise GraphError(f"central_crop: got {central_fraction}, expected a share in (0, 1].")
    node = convert(image)
    height, width = _sizes("central_crop", node)
    top = int((height - height * central_fraction) / 2)
    left = int((width - width * central_fraction) / 2)
    return crop_to_bounding_box(node, top, left, height - 2 * top, width - 2 * left)


@lined
def resize_image_with_crop_or_pad(image: Any, target_height: int, target_width: int) -> Node:
    """The image in that size: its middle, or zeros around it."""
    node = convert(image)
    height, width = _sizes("resize_image_with_crop_or_pad", node)
    top, left = max(height - target_height, 0) // 2, max(width - target_width, 0) // 2
    inside = min(height, target_height), min(width, target_width)
    middle = crop_to_bounding_box(node, top, left, *inside)
    above, before = (target_height - inside[0]) // 2, (target_width - inside[1]) // 2
    return pad_to_bounding_box(middle, above, before, target_height, target_width)


# ── resized ─────────────────────────────────────────────────────────────────────────────────────


@lined
def resize_bilinear(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None
) -> Node:
    """Images in another size, pixels between the old ones mixed of the four around; float32."""
    node = cast(convert(images), "float32")
    height, width = _sizes("resize_bilinear", node)
    rows, columns = _two("resize_bilinear", size)
    by_row = constant(_mixing(height, rows, align_corners))
    by_column = constant(_mixing(width, columns, align_corners))
    *first, _, _, channels = tuple(node.shape)
    if channels is None:
        raise GraphError("resize_bilinear: the number of channels is not known. Use set_shape.")
    before = [-1 if n is None else n for n in first]
    tall = matmul(by_row, reshape(node, [*before, height, width * channels]))
    wide = matmul(by_column, reshape(tall, [*before, rows, width, channels]))
    return rename(wide, name)


@lined
def resize_nearest_neighbor(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None
) -> Node:
    """Images in another size, each pixel that of the nearest old one."""
    node = convert(images)
    height, width = _sizes("resize_nearest_neighbor", node)
    rows, columns = _two("resize_nearest_neighbor", size)
    axis = len(node.shape) - 3
    tall = gather(node, _nearest(height, rows, align_corners), axis=axis)
    return rename(gather(tall, _nearest(width, columns, align_corners), axis=axis + 1), name)


@lined
def resize_images(
    images: Any,
    size: Any,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
) -> Node:
    """Images in another size, by one of the two methods that are here.

    Raises:
        GraphError: another method.
    """
    if method == ResizeMethod.BILINEAR:
        return resize_bilinear(images, size, align_corners)
    if method == ResizeMethod.NEAREST_NEIGHBOR:
        return resize_nearest_neighbor(images, size, align_corners)
    raise GraphError(
        f"resize_images: method {method} is not supported. Use ResizeMethod.BILINEAR or "
        "NEAREST_NEIGHBOR."
    )


def _two(where: str, size: Any) -> tuple[int, int]:
    given = size.value.tolist() if isinstance(size, Constant) else size
    if isinstance(given, Node) or len(given) != 2 or min(int(n) for n in given) < 1:
        raise GraphError(f"{where}: got size {size!r}, expected (height, width) as numbers.")
    return int(given[0]), int(given[1])


def _places(old: int, new: int, align_corners: bool) -> Any:
    """Return where in the old pixels each of the new ones is read."""
    step = (old - 1) / (new - 1) if align_corners and new > 1 else old / new
    return np.arange(new) * step


def _mixing(old: int, new: int, align_corners: bool) -> Any:
    """Return the matrix (new, old) of how much of each old pixel a new one has."""
    places = _places(old, new, align_corners)
    below = np.minimum(np.floor(places).astype(int), old - 1)
    share = (places - below).astype(np.float32)
    found = np.zeros((new, old), np.float32)
    np.add.at(found, (np.arange(new), below), 1 - share)
    np.add.at(found, (np.arange(new), np.minimum(below + 1, old - 1)), share)
    return found


def _nearest(old: int, new: int, align_corners: bool) -> Any:
    places = _places(old, new, align_corners)
    found = np.floor(places + 0.5) if align_corners else np.floor(places)
    return np.minimum(found, old - 1).astype(np.int32)


# ── brightened ──────────────────────────────────────────────────────────────────────────────────


@lined
def per_image_standardization(image: Any) -> Node:
    """The image with mean 0 and deviation 1; of a flat one the deviation counts as 1 / root(n)."""
    node = cast(convert(image), "float32")
    height, width = _sizes("per_image_standardization", node)
    axes, count = [-3, -2, -1], height * width * int(node.shape[-1] or 1)
    mean = reduce_mean(node, axes, keepdims=True)
    spread = sqrt(reduce_mean((node - mean) * (node - mean), axes, keepdims=True))
    return (node - mean) / maximum(spread, float(count) ** -0.5)  # type: ignore[no-any-return]


@lined
def adjust_brightness(image: Any, delta: Any) -> Node:
    """The image with `delta` added to every element."""
    return convert(image) + delta  # type: ignore[no-any-return]


@lined
def adjust_contrast(images: Any, contrast_factor: Any) -> Node:
    """Each channel's distance from its mean over the image times a factor."""
    node = convert(images)
    mean = reduce_mean(node, [-3, -2], keepdims=True)
    return (node - mean) * contrast_factor + mean  # type: ignore[no-any-return]


@lined
def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Node:
    """The image with a number from [-max_delta, max_delta) added, drawn anew in each run."""
    if max_delta < 0:
        raise GraphError(f"random_brightness: got max_delta {max_delta}, expected 0 or more.")
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


@lined
def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Node:
    """The image's contrast times a factor from [lower, upper), drawn anew in each run."""
    if not 0 <= lower < upper:
        raise GraphError(f"random_contrast: got {lower} to {upper}, expected 0 <= lower < upper.")
    return adjust_contrast(image, random_uniform([], lower, upper, seed=seed))


@lined
def convert_image_dtype(image: Any, dtype: Any, name: str | None = None) -> Node:
    """The image as another dtype: whole numbers up to their largest stand for 0 to 1."""
    node = convert(image)
    wanted = np.dtype(dtype)
    if node.dtype.kind in "iu" and wanted.kind == "f":
        return rename(cast(node, wanted) * (1.0 / float(np.iinfo(node.dtype).max)), name)
    if node.dtype.kind == "f" and wanted.kind in "iu":
        most = float(np.iinfo(wanted).max)
        return rename(cast(clip_by_value(node * (most + 0.5), 0.0, most), wanted), name)
    return cast(node, wanted, name)


@lined
def grayscale_to_rgb(images: Any, name: str | None = None) -> Node:
    """The one channel three times."""
    return rename(gather(convert(images), np.zeros(3, np.int32), axis=-1), name)


@lined
def rgb_to_grayscale(images: Any, name: str | None = None) -> Node:
    """How bright each pixel is to the eye: 0.2989 red, 0.587 green, 0.114 blue."""
    node = convert(images)
    weights = constant(np.array([[0.2989], [0.5870], [0.1140]], node.dtype))
    shape = [-1 if n is None else n for n in tuple(node.shape)]
    return rename(reshape(matmul(reshape(node, [-1, 3]), weights), [*shape[:-1], 1]), name)


transpose = transpose_image
resize, resize_with_crop_or_pad = resize_images, resize_image_with_crop_or_pad


def __getattr__(name: str) -> Any:
    """Return a name of a module that is loaded when it is first asked for; raise for others."""
    if name in PICTURES:
        return getattr(import_module(PICTURES[name]), name)
    raise no_attribute(__name__, name)
