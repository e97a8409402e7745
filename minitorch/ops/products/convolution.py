"""Convolution over any number of axes, as one matrix product over windows.

Three operators are the three partial derivatives of one form, Σ x[window] · w · y, which is linear
in image x, kernel w and result y alike. So the gradient of each is the other two:

    Convolve        image, kernel -> result         (conv1d, conv2d)
    ConvolveBack    result, kernel -> image         (conv_transpose)
    ConvolveKernel  image, result -> kernel

Letters: N samples, C channels of the image, O of the result, G groups, L places of the result.
Of large ones compiled kernels read the windows where they lie. Otherwise, and along three
axes, they are laid out as (G, C/G·kernel, L·N), so one product serves the whole batch. The samples
come last where there are enough of them: then each line of an image is one run of memory for all
of them, which is copied ten times as fast as lines of four pixels are, and results keep that order.

Source of samples last: cuda-convnet, Krizhevsky, 2012.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...arrays.allocator import matrix_product, rows_of
from ...arrays.library import Array, Index, Namespace, native_device_of, windows
from ...op import Gradients, Methods, Op, Spec, apply
from ..reducing.reduction import sum


class Geometry(NamedTuple):
    """Stride, padding, dilation (one number an axis) and groups of a convolution."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def result_size(self, image: Sequence[Any], kernel: Sequence[Any]) -> tuple[Any, ...]:
        """Return the number of places along each axis."""
        sizes = zip(image, kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple(
            None if n is None else (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes
        )

    def of_planes(self) -> "Geometry":
        """Return the same for lines that are the only ones of a plane."""
        return Geometry((1, *self.stride), (0, *self.padding), (1, *self.dilation), self.groups)


MANY = 8  # samples: fewer are no run that is worth having


def _samples_last(xp: Namespace, n_samples: int) -> bool:
    return xp is np and n_samples >= MANY


def _by_channel(xp: Namespace, y: Array) -> Array:
    """Return a view of (N, C, places) as (C, places, N), or (C, N, places) of few samples."""
    axes = range(2, len(y.shape))
    last = _samples_last(xp, y.shape[0])
    return xp.permute_dims(y, (1, *axes, 0) if last else (1, 0, *axes))


def _by_sample(
    xp: Namespace, y: Array, channels: int, n_samples: int, places: Sequence[int]
) -> Array:
    """Return the result that has these rows, one a channel, as (N, C, places)."""
    axes = range(1, len(places) + 1)
    if _samples_last(xp, n_samples):
        y = y.reshape((channels, *places, n_samples))
        return xp.permute_dims(y, (len(places) + 1, 0, *axes))
    y = y.reshape((channels, n_samples, *places))
    return xp.permute_dims(y, (1, 0, *(d + 1 for d in axes)))


def _pad(xp: Namespace, x: Array, padding: tuple[int, ...]) -> Array:
    """Return the image with its border, laid out as `_by_channel` has it."""
    last = _samples_last(xp, x.shape[0])
    if not any(padding) and (not last or x.strides[0] == x.itemsize):
        return x
    sizes = [n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)]
    shape = (x.shape[1], *sizes, x.shape[0]) if last else (*x.shape[:2], *sizes)
    out = xp.zeros(shape, dtype=x.dtype, **native_device_of(x))
    if last:
        out = np.moveaxis(out, -1, 0)
    inside = [slice(p, p + n) for n, p in zip(x.shape[2:], padding, strict=True)]
    out[(slice(None), slice(None), *inside)] = x
    return out


def _columns(
    xp: Namespace, x: Array, kernel: tuple[int, ...], how: Geometry, places: tuple[int, ...]
) -> Array:
    """Return the first `places` windows of `x` along each axis as (G, C/G·kernel, L·N)."""
    k = len(kernel)
    view = windows(
        _pad(xp, x, how.padding), tuple(range(2, 2 + k)), kernel, how.stride, how.dilation
    )
    view = view[(slice(None), slice(None), *(slice(0, n) for n in places))]
    spots = (*range(2, 2 + k), 0) if _samples_last(xp, x.shape[0]) else (0, *range(2, 2 + k))
    rows = x.shape[1] // how.groups * math.prod(kernel)
    turned = xp.permute_dims(view, (1, *range(2 + k, 2 + 2 * k), *spots))
    shape = (how.groups, rows, math.prod(turned.shape[1 + k :]))
    return rows_of(turned, shape) if xp is np else turned.reshape(shape)


def _rows(xp: Namespace, y: Array, groups: int) -> Array:
    """Return a result (N, O, places) as (G, O/G, L·N)."""
    return _by_channel(xp, y).reshape((groups, y.shape[1] // groups, -1))


def _product(xp: Namespace, a: Array, b: Array) -> Array:
    """Return the product of the matrices of each group."""
    return matrix_product(a[0], b[0])[None] if xp is np and len(a) == 1 else xp.matmul(a, b)


def _windows_for(
    xp: Namespace, x: Array, other: Array, channels: int, kernel: Sequence[int],
    places: Sequence[int], how: Geometry, **options: bool,
) -> Any:  # fmt: skip
    """Return the windows that compiled kernels read where they lie, where that pays."""
    if xp is not np:
        return None
    kernel, places = tuple(kernel), tuple(places)
    return _kernels().windows_for(x, other, channels, kernel, places, how, **options)


@functools.cache
def _kernels() -> Any:
    """Return the module that chooses compiled kernels of convolutions."""
    from ...compile.images import convolutions

    return convolutions


@functools.cache
def _tuned() -> Any:
    """Return the module of the kernels that somebody has tuned."""
    from ...compile import tuned

    return tuned


class FormDerivative(Op):
    """Base of the three partial derivatives of the form.

    Args:
        how: stride, padding, dilation, groups.
        size: of the last axes of what it gives.
    """

    on_arrays = True
    promotes = "same"
    reads_output = False
    takes: ClassVar[str]
    gives: ClassVar[str]
    """Which of image x, kernel w and result y it takes, and which it gives."""

    def __init__(self, how: Geometry, size: tuple[int, ...] | None = None) -> None:
        self.how, self.size = how, size

    def compute(self, xp: Namespace, a: Array, b: Array, *bias: Array) -> Array:
        """Return the derivative; kernels that are compiled know planes, not lines."""
        if xp is np and len(a.shape) == 3:
            of_planes = type(self)(self.how.of_planes(), self.size and (1, *self.size))
            lines: Array = of_planes._compute(np, a[:, :, None], b[:, :, None], *bias)
            return lines[:, :, 0]
        return self._compute(xp, a, b, *bias)

    def _compute(self, xp: Namespace, a: Array, b: Array, *bias: Array) -> Array:
        raise NotImplementedError

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the other two derivatives of the form."""
        inputs = dict(zip(self.takes, node.inputs, strict=False))
        values, shares = inputs | {self.gives: out_grad}, []
        for (name, source), wanted in zip(inputs.items(), node.wants, strict=False):
            other = DERIVATIVES[name](self.how, tuple(source.shape[2:]))
            operands = (values[taken] for taken in other.takes)
            shares.append(apply(other, *operands) if wanted else None)
        return shares


class Convolve(FormDerivative):
    """The result for image (N, C, ...), kernel (O, C/G, ...) and, where there is one, bias (O,)."""

    name = "conv"
    takes, gives = "xw", "y"

    def _compute(self, xp: Namespace, x: Array, w: Array, *bias: Array) -> Array:
        """Return (N, O, places): one product of kernels by windows."""
        places = self.size or self.how.result_size(x.shape[2:], w.shape[2:])
        tuned = self.find_tuned(x, w) if xp is np else None
        windows = None
        if tuned is None:
            windows = _windows_for(xp, x, w, w.shape[0], w.shape[2:], places, self.how)
        if windows is not None:
            y: Array = windows.convolve(x, w, *bias)
            return y
        y = self._product(xp, x, w, places) if tuned is None else tuned(x, w)
        if bias:
            y += bias[0].reshape((-1, *(1,) * len(places)))
        return y

    def _product(self, xp: Namespace, x: Array, w: Array, places: tuple[int, ...]) -> Array:
        kernels = w.reshape((self.how.groups, w.shape[0] // self.how.groups, -1))
        y = _product(xp, kernels, _columns(xp, x, tuple(w.shape[2:]), self.how, places))
        return _by_sample(xp, y, w.shape[0], x.shape[0], places)

    def find_tuned(self, x: Array, w: Array) -> Any:
        """Return the kernel that somebody has tuned for such inputs, if there is any."""
        how = self.how
        if how.groups != 1 or set(how.dilation) != {1} or self.size is not None:
            return None
        return _tuned().convolution(x, w, how.stride, how.padding)

    def infer(self, *specs: Spec) -> Spec:
        """Return (N, O, places)."""
        x, w = specs[0].shape, specs[1].shape
        places = self.size or self.how.result_size(x[2:], w[2:])
        return Spec((x[0], w[0], *places), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the other two derivatives of the form, and what the bias gets."""
        shares = [*super().gradient(out_grad, node)]  # type: ignore[misc]  # one for each
        if len(node.wants) > 2:
            places = range(2, len(out_grad.shape))
            shares.append(sum(out_grad, (0, *places)) if node.wants[2] else None)
        return shares


class ConvolveBack(FormDerivative):
    """The image of size `size` for result (N, O, ...) and kernel (O, C/G, ...)."""

    name = "conv_transpose"
    takes, gives = "yw", "x"
    size: tuple[int, ...]

    def _compute(self, xp: Namespace, y: Array, w: Array, *_: Array) -> Array:
        """Return (N, C, image): kernels times results, added up where windows overlap."""
        how, kernel = self.how, tuple(w.shape[2:])
        if xp is np:
            from ...compile.images.strided import images_for

            images = images_for(y, w, (len(y), w.shape[1] * how.groups, *self.size), how)
            if images is not None:
                x: Array = images.back(y, w)
                return x
            if set(how.stride) == {1} and min(self._border(kernel)) >= 0:
                return self._convolve(y, w, kernel)
        kernels = w.reshape((how.groups, w.shape[0] // how.groups, -1))
        columns = _product(xp, xp.permute_dims(kernels, (0, 2, 1)), _rows(xp, y, how.groups))
        n, channels, places = y.shape[0], w.shape[1] * how.groups, tuple(y.shape[2:])
        columns = _by_sample(xp, columns, channels * math.prod(kernel), n, places)
        columns = columns.reshape((n, channels, *kernel, *places))
        size = [n + 2 * p for n, p in zip(self.size, how.padding, strict=True)]
        zeros = xp.zeros((channels, n * math.prod(size)), dtype=y.dtype, **native_device_of(y))
        out, whole = _by_sample(xp, zeros, channels, n, size), slice(None)
        for at in itertools.product(*map(range, kernel)):
            spots = zip(at, how.stride, how.dilation, places, strict=True)
            into = [slice(i * d, i * d + (n - 1) * s + 1, s) for i, s, d, n in spots]
            taken: tuple[Index, ...] = (whole, whole, *at)
            out[(whole, whole, *into)] += columns[taken]
        inside = [slice(p, p + n) for p, n in zip(how.padding, self.size, strict=True)]
        return out[(whole, whole, *inside)]

    def _border(self, kernel: tuple[int, ...]) -> tuple[int, ...]:
        """Return the zeros around the result from which each element gathers a whole window."""
        sizes = zip(kernel, self.how.dilation, self.how.padding, strict=True)
        return tuple((size - 1) * gap - padding for size, gap, padding in sizes)

    def _convolve(self, y: Array, w: Array, kernel: tuple[int, ...]) -> Array:
        """Return the image as a convolution of the result with the kernels turned around."""
        axes, groups = tuple(range(2, w.ndim)), self.how.groups
        turned = np.flip(w, axes).reshape((groups, -1, *w.shape[1:])).swapaxes(1, 2)
        turned = turned.reshape((groups * w.shape[1], -1, *kernel))
        how = Geometry(self.how.stride, self._border(kernel), self.how.dilation, groups)
        return Convolve(how).compute(np, y, turned)

    def infer(self, *specs: Spec) -> Spec:
        """Return (N, C, image)."""
        y, w = specs[0].shape, specs[1].shape
        channels = None if w[1] is None else w[1] * self.how.groups
        return Spec((y[0], channels, *self.size), specs[0].dtype)


class ConvolveKernel(FormDerivative):
    """The kernel of size `size` for image (N, C, ...) and result (N, O, ...)."""

    name = "conv_kernel"
    takes, gives = "xy", "w"
    size: tuple[int, ...]

    def _compute(self, xp: Namespace, x: Array, y: Array, *_: Array) -> Array:
        """Return (O, C/G, kernel): results times windows, summed over samples and places."""
        how, shape = self.how, (y.shape[1], x.shape[1] // self.how.groups, *self.size)
        windows = _windows_for(xp, x, y, y.shape[1], self.size, y.shape[2:], how, gradient=True)
        if windows is not None and not windows.short:
            sums: Array = windows.gather(x, y, shape)
            return sums
        columns = _columns(xp, x, self.size, how, tuple(y.shape[2:]))
        w = _product(xp, _rows(xp, y, how.groups), xp.permute_dims(columns, (0, 2, 1)))
        return w.reshape(shape)

    def infer(self, *specs: Spec) -> Spec:
        """Return (O, C/G, kernel)."""
        x, y = specs[0].shape, specs[1].shape
        channels = None if x[1] is None else x[1] // self.how.groups
        return Spec((y[1], channels, *self.size), specs[0].dtype)


DERIVATIVES = {kind.gives: kind for kind in (Convolve, ConvolveBack, ConvolveKernel)}
"""The partial derivatives by what they give."""
