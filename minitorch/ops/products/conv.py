"""Torch's convolutions by name: arguments checked, made one number an axis, and handed on."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import ArgumentError, ShapeError
from ...op import Kind, Methods, apply
from ..shaping.movement import insert_axes, remove_axes, reshape, sizes
from ..unknown_sizes import put_off
from .convolution import Convolve, ConvolveBack, Geometry


def over_axes(function: Callable[..., Any], count: int, name: str, says: str) -> Callable[..., Any]:
    """Return `function`, whose first argument is the number of axes, for `count` of them."""
    own = inspect.signature(function)

    def call(*args: object, **options: object) -> Any:
        try:
            return function(count, *args, **options)
        except TypeError as error:
            return put_off(call, args, options, error)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = says
    parameters = list(own.parameters.values())[1:]
    call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def each(name: str, value: Any, count: int) -> tuple[int, ...]:
    """Return a number for each of `count` axes, from one number or a sequence.

    Raises:
        ArgumentError: another count.
        DTypeError: one is no whole number.
    """
    if type(value) is int:
        return (value,) * count
    numbers = sizes((value,))
    numbers = numbers * count if len(numbers) == 1 else numbers
    if len(numbers) != count:
        raise ArgumentError(f"{name}: got {numbers}, expected one number or {count}.")
    return numbers


def _geometry(
    name: str,
    kernel: tuple[int, ...],
    stride: int | Sequence[int],
    padding: int | str | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
) -> tuple[Geometry, int]:
    """Return the geometry, and how much wider the border is after than before ("same")."""
    k = len(kernel)
    if not k:
        raise ShapeError(f"{name}: got a weight without sizes, expected (O, C/groups, ...).")
    steps, gaps = each(name, stride, k), each(name, dilation, k)
    if padding == "valid":
        padding = 0
    uneven = 0
    if padding == "same":
        if set(steps) != {1}:
            raise ArgumentError(f"{name}: padding='same' needs stride 1: got {steps}.")
        spans = [d * (n - 1) for d, n in zip(gaps, kernel, strict=True)]
        padding, uneven = [(span + 1) // 2 for span in spans], any(span % 2 for span in spans)
    borders = each(name, padding, k)
    if min(steps) < 1 or min(gaps) < 1 or min(borders) < 0 or groups < 1:
        raise ArgumentError(
            f"{name}: got stride {steps}, padding {borders}, dilation {gaps}, groups {groups}, "
            "expected positive numbers, padding 0 or more."
        )
    return Geometry(steps, borders, gaps, groups), int(uneven)


def _check(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    bias: Methods | None,
    count: int,
    channels: int | None,
    out: int | None,
) -> None:
    if len(w) != count + 2 or len(x) != count + 2:
        raise ShapeError(
            f"{name}: got input {x} and weight {w}, expected {count + 2} axes each ({count + 1} "
            "for an input without batch)."
        )
    if x[1] != channels:
        raise ShapeError(
            f"{name}: channels differ: got input {x} and weight {w}: the input has {x[1]} "
            f"channels, expected {channels}."
        )
    if bias is not None and tuple(bias.shape) != (out,):
        raise ShapeError(f"{name}: got bias {tuple(bias.shape)}, expected ({out},).")


def _conv(
    count: int,
    input: Kind,
    weight: Kind,
    bias: Kind | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Kind:
    name, x, w = f"conv{count}d", tuple(input.shape), tuple(weight.shape)
    if len(x) == count + 1:
        batch, how = insert_axes(input, (0,)), (stride, padding, dilation, groups)
        return remove_axes(_conv(count, batch, weight, bias, *how), (0,))
    kernel = w[2:]
    geometry, uneven = _geometry(name, kernel, stride, padding, dilation, groups)
    _check(name, x, w, bias, count, w[1] * groups if len(w) > 1 else None, w[0])
    if w[0] % groups:
        raise ShapeError(f"{name}: got {w[0]} kernels for {groups} groups, expected a multiple.")
    places = geometry.result_size(x[2:], kernel)
    if any(n is not None and n < 1 for n in places):
        raise ShapeError(
            f"{name}: the kernel {kernel} is larger than the padded input {x[2:]}. Pad more, or "
            "use a smaller kernel."
        )
    inputs = (input, weight) if bias is None else (input, weight, bias)
    y = apply(Convolve(geometry), *inputs)
    if uneven:
        spans = [d * (k - 1) % 2 for d, k in zip(geometry.dilation, kernel, strict=True)]
        y = y[(slice(None), slice(None), *(slice(odd, None) for odd in spans))]
    return y


conv1d = over_axes(
    _conv, 1, "conv1d", "Return the convolution of (N, C, length) with kernels (O, C/groups, k)."
)

conv2d = over_axes(
    _conv,
    2,
    "conv2d",
    """Return the convolution of (N, C, height, width) with kernels (O, C/groups, kh, kw).

    Args:
        input: the images; the batch axis may be left out.
        weight: the kernels.
        bias: (O,), added to each channel of the result.
        stride: distance between windows, one number or one an axis.
        padding: zeros around the image; or "valid", or "same" for a result of the same size.
        dilation: distance between the elements of a window.
        groups: channels fall into groups, convolved each on its own.

    Raises:
        ShapeError: channels or axes do not fit, or the kernel is larger than the image.
        ArgumentError: a stride or dilation below 1.
    """,
)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Any:
    """Return the transposed convolution of (N, C, height, width) by (C, O/groups, kh, kw).

    It is the gradient of `conv2d` with respect to its image.
    """
    name = "conv_transpose2d"
    if len(input.shape) == 3:
        how = (weight, bias, stride, padding, output_padding, groups, dilation)
        return remove_axes(conv_transpose2d(insert_axes(input, (0,)), *how), (0,))
    geometry, _ = _geometry(name, tuple(weight.shape[2:]), stride, padding, dilation, groups)
    out = weight.shape[1] * groups if len(weight.shape) > 1 else None
    _check(name, tuple(input.shape), tuple(weight.shape), bias, 2, weight.shape[0], out)
    more = each(name, output_padding, 2)
    steps, gaps = geometry.stride, geometry.dilation
    if any(m >= max(s, d) for m, s, d in zip(more, steps, gaps, strict=True)):
        raise ArgumentError(
            f"{name}: got output_padding {more}, expected less than stride or dilation."
        )
    each_size = zip(
        input.shape[2:], weight.shape[2:], steps, geometry.padding, gaps, more, strict=True
    )
    image = tuple((n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, d, m in each_size)
    if min(image) < 1:
        raise ShapeError(f"{name}: nothing is left: the result would have size {image}.")
    x = apply(ConvolveBack(geometry, image), input, weight)
    return x if bias is None else x + reshape(bias, (1, -1, 1, 1))
