"""Windows over the last axes: their elements, their number, the border that they reach into."""

import functools
import itertools
import math
from typing import NamedTuple

from ...arrays.library import Index
from ...errors import ArgumentError, ShapeError
from ...op import Kind, Methods, Op, Spec
from ..products.conv import each
from ..shaping.borders import pad as padded


class Windows(NamedTuple):
    """Windows over the last axes: their size, step, dilation, and how many there are."""

    size: tuple[int, ...]
    step: tuple[int, ...]
    gap: tuple[int, ...]
    places: tuple[int, ...]


@functools.lru_cache(128)
def list_slices(how: Windows) -> list[tuple[Index, ...]]:
    """Return, for each element of a window, the index of that element of all windows."""
    spans: list[tuple[Index, ...]] = []
    for at in itertools.product(*map(range, how.size)):
        spots = zip(at, how.step, how.gap, how.places, strict=True)
        spans.append((..., *(slice(i * g, i * g + (n - 1) * s + 1, s) for i, s, g, n in spots)))
    return spans


@functools.lru_cache(128)
def list_slices_by_axis(how: Windows) -> list[list[tuple[Index, ...]]]:
    """Return the same for windows along one axis alone, first axis first."""
    spans: list[list[tuple[Index, ...]]] = []
    for d, (k, s, g, n) in enumerate(
        zip(how.size, how.step, how.gap, how.places, strict=True), -len(how.size)
    ):
        whole = (slice(None),) * (-1 - d)
        spans.append([(..., slice(i * g, i * g + (n - 1) * s + 1, s), *whole) for i in range(k)])
    return spans


class OfWindows(Op):
    """Base of the operators of windows."""

    on_arrays = True

    def __init__(self, how: Windows) -> None:
        self.how = how

    def infer(self, *specs: Spec) -> Spec:
        shape = specs[0].shape
        return Spec((*shape[: len(shape) - len(self.how.places)], *self.how.places), specs[0].dtype)


@functools.lru_cache(256)
def lay_out(
    name: str,
    image: tuple[int, ...],
    size: tuple[int, ...],
    step: tuple[int, ...],
    border: tuple[int, ...],
    gap: tuple[int, ...],
    ceil_mode: bool,
) -> tuple[Windows, tuple[int, ...]]:
    """Return the windows along an image's last axes, and the border that they reach into.

    It is as `pad` takes it: before and after, the last axis first.

    Raises:
        ShapeError: there is no window.
        ArgumentError: sizes that no window has, or a border wider than half of one.
    """
    if min(size) < 1 or min(step) < 1 or min(gap) < 1:
        raise ArgumentError(
            f"{name}: got windows {size}, step {step}, dilation {gap}, expected 1 or more."
        )
    if any(2 * p > k for p, k in zip(border, size, strict=True)) or min(border) < 0:
        raise ArgumentError(
            f"{name}: got padding {border} for windows {size}, expected half at most."
        )
    places: list[int] = []
    widths: list[int] = []
    for n, k, s, p, d in zip(image, size, step, border, gap, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        count = (math.ceil(room / s) if ceil_mode else room // s) + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1
        if count < 1:
            raise ShapeError(f"{name}: got size {image}, too small for windows {size}.")
        places.append(count)
        reach = (count - 1) * s + d * (k - 1) + 1
        widths = [p, max(reach - n - p, 0), *widths]
    return Windows(size, step, gap, tuple(places)), tuple(widths)


def add_border(x: Kind, widths: tuple[int, ...], value: float) -> Kind:
    """Return `x` with a border of one number, which may be nowhere."""
    return padded(x, widths, value=value) if any(widths) else x


def check_sizes(
    name: str,
    x: Methods,
    count: int,
    kernel: object,
    stride: object,
    padding: object,
) -> tuple[tuple[int, ...], ...]:
    """Return an image's last axes, a window's size, step and border, a number an axis each.

    Raises:
        ShapeError, ArgumentError: another number of axes.
    """
    shape = tuple(x.shape)
    if len(shape) not in (count + 1, count + 2):
        raise ShapeError(f"{name}: got shape {shape}, expected {count + 2} axes.")
    size = each(name, kernel, count)
    same = stride is None or (isinstance(stride, tuple | list) and not stride)
    step = size if same else each(name, stride, count)
    return shape[-count:], size, step, each(name, padding, count)
