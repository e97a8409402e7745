"""`tf.image`: colours turned between spaces, and images compared; part of `image`.

An image is (..., 3) of floats from 0 to 1. Hue, saturation and value are Smith's, SIGGRAPH 1978;
SSIM is that of Wang et al., IEEE Transactions on Image Processing 13(4), 2004.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import GraphError
from ..lined import lined
from ..naming import rename
from ..node import Node, convert
from ..operators.elementwise import abs as size_of
from ..operators.elementwise import clip_by_value, equal, log, pow, square, where
from ..operators.images import depthwise_conv2d
from ..operators.making import constant
from ..operators.math import cast, matmul, reduce_max, reduce_mean, reduce_min, reduce_sum
from ..operators.random import random_uniform
from ..operators.shaping import pad, reshape, reverse, shape, stack, transpose

YIQ = np.array(
    [
        [0.299, 0.59590059, 0.2115],
        [0.587, -0.27455667, -0.52273617],
        [0.114, -0.32134392, 0.31119955],
    ]
)
YUV = np.array(
    [
        [0.299, -0.14714119, 0.61497538],
        [0.587, -0.28886916, -0.51496512],
        [0.114, 0.43601035, -0.10001026],
    ]
)


def _floats(where_: str, images: Any) -> Node:
    """Return images of three channels.

    Raises:
        GraphError: they have no three, or are no floats.
    """
    node = convert(images)
    if node.shape.ndims in (None, 0) or node.shape[-1] != 3 or node.dtype.kind != "f":
        raise GraphError(
            f"{where_}: got {node.name!r} of {node.dtype} and shape {node.shape}, expected floats "
            f"(..., 3) (built at {node.location}). Use convert_image_dtype."
        )
    return node


@lined
def rgb_to_hsv(images: Any, name: str | None = None) -> Node:
    """Hue (a turn is 1), saturation and value of each pixel."""
    node = _floats("rgb_to_hsv", images)
    r, g, b = (node[..., i] for i in range(3))
    most, least = reduce_max(node, -1), reduce_min(node, -1)
    spread = most - least
    flat, black = equal(spread, 0.0), equal(most, 0.0)
    safe = where(flat, spread + 1.0, spread)
    turn = where(
        equal(most, r),
        (g - b) / safe,
        where(equal(most, g), (b - r) / safe + 2.0, (r - g) / safe + 4.0),
    )
    hue = where(flat, spread * 0.0, (turn / 6.0) % 1.0)
    saturation = spread / where(black, most + 1.0, most)
    return rename(stack([hue, saturation, most], -1), name)


@lined
def hsv_to_rgb(images: Any, name: str | None = None) -> Node:
    """Red, green and blue of each pixel."""
    node = _floats("hsv_to_rgb", images)
    hue, saturation, value = (node[..., i] for i in range(3))
    parts = []
    for place in (3.0, 2.0, 4.0):
        away = size_of(hue * 6.0 - place)
        share = away - 1.0 if place == 3.0 else 2.0 - away
        parts.append(value * (1.0 - saturation * (1.0 - clip_by_value(share, 0.0, 1.0))))
    return rename(stack(parts, -1), name)


def _through(matrix: Any, images: Any, where_: str) -> Node:
    node = _floats(where_, images)
    sizes = [-1 if n is None else n for n in tuple(node.shape)]
    return reshape(matmul(reshape(node, [-1, 3]), constant(matrix.astype(node.dtype))), sizes)


@lined
def rgb_to_yiq(images: Any) -> Node:
    """Brightness and two differences of colours, as in NTSC."""
    return _through(YIQ, images, "rgb_to_yiq")


@lined
def yiq_to_rgb(images: Any) -> Node:
    """The inverse of `rgb_to_yiq`."""
    return _through(np.linalg.inv(YIQ), images, "yiq_to_rgb")


@lined
def rgb_to_yuv(images: Any) -> Node:
    """Brightness and two differences of colours, as in PAL."""
    return _through(YUV, images, "rgb_to_yuv")


@lined
def yuv_to_rgb(images: Any) -> Node:
    """The inverse of `rgb_to_yuv`."""
    return _through(np.linalg.inv(YUV), images, "yuv_to_rgb")


# ── changed ─────────────────────────────────────────────────────────────────────────────────────


def _changed(image: Any, where_: str, hue: Any, saturation: Any, name: str | None) -> Node:
    hsv = rgb_to_hsv(_floats(where_, image))
    turned = (hsv[..., 0] + hue) % 1.0
    fuller = clip_by_value(hsv[..., 1] * saturation, 0.0, 1.0)
    return rename(hsv_to_rgb(stack([turned, fuller, hsv[..., 2]], -1)), name)


@lined
def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Node:
    """The image with its hues turned by `delta`; 1 is a whole turn."""
    return _changed(image, "adjust_hue", delta, 1.0, name)


@lined
def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Node:
    """The image with its saturation times a factor, at most 1."""
    return _changed(image, "adjust_saturation", 0.0, saturation_factor, name)


@lined
def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Node:
    """The image with its hues turned by a number from [-max_delta, max_delta), anew in each run."""
    if not 0 <= max_delta <= 0.5:
        raise GraphError(f"random_hue: got max_delta {max_delta}, expected 0 to 0.5.")
    return adjust_hue(image, random_uniform([], -max_delta, max_delta, seed=seed))


@lined
def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Node:
    """The image's saturation times a factor from [lower, upper), drawn anew in each run."""
    if not 0 <= lower < upper:
        raise GraphError(f"random_saturation: got {lower} to {upper}, expected 0 <= lower < upper.")
    return adjust_saturation(image, random_uniform([], lower, upper, seed=seed))


@lined
def adjust_gamma(image: Any, gamma: Any = 1.0, gain: Any = 1.0) -> Node:
    """gain image^gamma, of floats from 0 to 1.

    Raises:
        GraphError: the image is no floats, or gamma is below 0.
    """
    node = convert(image)
    if node.dtype.kind != "f" or (isinstance(gamma, int | float) and gamma < 0):
        raise GraphError(
            f"adjust_gamma: got {node.dtype} and gamma {gamma}, expected floats and 0 or more."
        )
    return pow(node, gamma) * gain  # type: ignore[no-any-return]


@lined
def rot90(image: Any, k: int = 1, name: str | None = None) -> Node:
    """The image, or each of a batch, turned to the left by k quarters."""
    node = convert(image)
    axes = list(range(len(node.shape)))
    order = [*axes[:-3], axes[-2], axes[-3], axes[-1]]
    turns = int(k) % 4
    if turns in (1, 3):
        node = transpose(node, order)
        node = reverse(node, [-3 if turns == 1 else -2])
    elif turns == 2:
        node = reverse(node, [-3, -2])
    return rename(node, name)


# ── compared ────────────────────────────────────────────────────────────────────────────────────


@lined
def image_gradients(image: Any) -> tuple[Node, Node]:
    """Differences to the pixel below and to the one on the right, 0 at the end; (N, H, W, C)."""
    node = convert(image)
    down = pad(node[:, 1:] - node[:, :-1], [[0, 0], [0, 1], [0, 0], [0, 0]])
    right = pad(node[:, :, 1:] - node[:, :, :-1], [[0, 0], [0, 0], [0, 1], [0, 0]])
    return down, right


@lined
def sobel_edges(image: Any) -> Node:
    """Sobel's vertical and horizontal slopes of each channel: (N, H, W, C, 2)."""
    node = convert(image)
    channels = int(node.shape[-1])
    row = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], node.dtype)
    kernels = np.stack([row, row.T], -1)[:, :, None, :].repeat(channels, 2)
    wide = pad(node, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    found = depthwise_conv2d(wide, constant(kernels), [1, 1, 1, 1], "VALID")
    sizes = [shape(node)[i] if n is None else n for i, n in enumerate(tuple(node.shape))]
    return reshape(found, [*sizes, 2])


@lined
def total_variation(images: Any, name: str | None = None) -> Node:
    """The sum of the absolute differences of neighbours, of each image."""
    node = convert(images)
    down = size_of(node[..., 1:, :, :] - node[..., :-1, :, :])
    right = size_of(node[..., 1:, :] - node[..., :-1, :])
    return rename(reduce_sum(down, [-3, -2, -1]) + reduce_sum(right, [-3, -2, -1]), name)


@lined
def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Node:
    """The ratio of the largest value to the mean squared difference, in decibels."""
    one, other = cast(convert(a), "float32"), cast(convert(b), "float32")
    error = reduce_mean(square(one - other), [-3, -2, -1])
    return rename((2.0 * log(convert(float(max_val))) - log(error)) * (10.0 / np.log(10.0)), name)


@lined
def ssim(
    img1: Any,
    img2: Any,
    max_val: float,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Node:
    """How alike two batches of images (N, H, W, C) look, 1 for equal ones; one number each."""
    one, other = cast(convert(img1), "float32"), cast(convert(img2), "float32")
    channels = int(one.shape[-1])
    away = np.arange(filter_size) - (filter_size - 1) / 2
    bell = np.exp(-(away**2) / (2 * filter_sigma**2))
    window = np.outer(bell, bell) / bell.sum() ** 2
    kernel = constant(np.tile(window[:, :, None, None], (1, 1, channels, 1)).astype(np.float32))

    def mean(x: Any) -> Any:
        return depthwise_conv2d(x, kernel, [1, 1, 1, 1], "VALID")

    c1, c2 = (k1 * max_val) ** 2, (k2 * max_val) ** 2
    m1, m2 = mean(one), mean(other)
    bright = (m1 * m2 * 2.0 + c1) / (square(m1) + square(m2) + c1)
    both = mean(one * other) * 2.0 - m1 * m2 * 2.0
    spread = mean(square(one) + square(other)) - square(m1) - square(m2)
    return reduce_mean(bright * (both + c2) / (spread + c2), [1, 2, 3])
