"""Tasks: what a kernel computes, without a word on how; products of matrices and convolutions.

Both are C[i, j] = Σₖ A[i, k] · B[k, j]. Of a convolution A are the kernels (a row an output
channel), B the windows of the image (a column a place of the result), and k counts the elements of
a window.

May import: errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError

MANY = 8  # samples, from which on they lie last: a line of an image is then one run for all
EPILOGUES = (None, "bias", "relu", "bias_relu")
ITEM_BYTES = {"float32": 4, "float64": 8}
_SIZES = {"matmul": ("m", "n", "k"), "conv2d": ("n", "c", "h", "w", "o", "kh", "kw")}


@dataclass(frozen=True)
class Task:
    """A product or a convolution of one shape and dtype.

    Attributes:
        operator: "matmul" or "conv2d".
        sizes: (m, n, k), or (n, c, h, w, o, kh, kw, stride, padding).
        dtype: "float32" or "float64".
    """

    operator: str
    sizes: tuple[int, ...]
    dtype: str = "float32"

    @property
    def key(self) -> tuple[Any, ...]:
        """The task as callers write it; the dtype is left out where it is float32."""
        dtype = () if self.dtype == "float32" else (self.dtype,)
        return (self.operator, *self.sizes, *dtype)

    @property
    def item_bytes(self) -> int:
        """Bytes of a number."""
        return ITEM_BYTES[self.dtype]

    @cached_property
    def places(self) -> tuple[int, int]:
        """The height and width of a convolution's result."""
        _, _, h, w, _, kh, kw, stride, padding = self.sizes
        return (h + 2 * padding - kh) // stride + 1, (w + 2 * padding - kw) // stride + 1

    @property
    def samples_last(self) -> bool:
        """Whether a convolution's image and result lie as (channels, height, width, samples)."""
        return self.operator == "conv2d" and self.sizes[0] >= MANY

    @cached_property
    def lines(self) -> tuple[int, int]:
        """How many runs of columns lie apart, and the columns of one: places of a convolution."""
        if self.operator == "matmul":
            return 1, self.sizes[1]
        (height, width), count = self.places, self.sizes[0]
        return (height, width * count) if self.samples_last else (count * height, width)

    @cached_property
    def axes(self) -> tuple[int, int, int]:
        """Return (m, n, k): rows and columns of the product, and the terms of a sum."""
        if self.operator == "matmul":
            m, n, k = self.sizes
            return m, n, k
        count, c, _, _, o, kh, kw, _, _ = self.sizes
        height, width = self.places
        return o, count * height * width, c * kh * kw

    @property
    def operand_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of both operands; of a product, of one in a batch."""
        if self.operator == "matmul":
            m, n, k = self.sizes
            return (m, k), (k, n)
        count, c, h, w, o, kh, kw, _, _ = self.sizes
        return (count, c, h, w), (o, c, kh, kw)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        m, n, k = self.axes
        return 2 * m * n * k

    def __str__(self) -> str:
        return " ".join(map(str, self.key))


def task_of(task: Task | Sequence[Any]) -> Task:
    """Return the task that a tuple names: ("matmul", m, n, k) or ("conv2d", n, c, h, w, ...).

    A convolution's stride and padding may be left out; a dtype may stand at the end.

    Raises:
        ArgumentError: no such operator or dtype, or sizes that cannot be.
    """
    if isinstance(task, Task):
        return task
    parts = list(task) if isinstance(task, Sequence) and not isinstance(task, str) else []
    if not parts or parts[0] not in _SIZES:
        raise ArgumentError(
            f"task: got {task!r}, expected ('matmul', m, n, k) or "
            "('conv2d', n, c, h, w, o, kh, kw, stride, padding)."
        )
    operator, *sizes = parts
    named = sizes and (isinstance(sizes[-1], type) or not hasattr(sizes[-1], "__index__"))
    dtype = _dtype(sizes.pop()) if named else "float32"
    if operator == "conv2d":
        sizes += [1, 0][len(sizes) - 7 :] if len(sizes) in (7, 8) else []
    return _check_sizes(Task(operator, tuple(sizes), dtype))


def _dtype(dtype: object) -> str:
    name = str(getattr(dtype, "__name__", dtype))
    if name not in ITEM_BYTES:
        raise ArgumentError(f"task: got dtype {dtype!r}, expected float32 or float64.")
    return name


def _check_sizes(task: Task) -> Task:
    names = _SIZES[task.operator]
    if task.operator == "conv2d":
        names += ("stride", "padding")
    if len(task.sizes) != len(names):
        raise ArgumentError(
            f"task: {task.operator} has the sizes {', '.join(names)}: got {task.sizes}."
        )
    for name, size in zip(names, task.sizes, strict=True):
        least = 0 if name == "padding" else 1
        whole = isinstance(size, int) or hasattr(size, "__index__")
        if isinstance(size, bool) or not whole or size < least:
            raise ArgumentError(
                f"{task.operator}: {name} is {size!r}, expected a whole number of {least} or more."
            )
    if task.operator == "conv2d" and min(task.places) < 1:
        raise ArgumentError(
            f"conv2d: the kernel {task.sizes[5:7]} is larger than the padded image "
            f"{task.sizes[2:4]} + 2 * {task.sizes[8]}."
        )
    return Task(task.operator, tuple(int(size) for size in task.sizes), task.dtype)


def result_shape(task: Task, epilogue: str | None, a: Any, b: Any, bias: Any) -> tuple[int, ...]:
    """Return the shape of a kernel's result on these arrays or tensors.

    Raises:
        ArgumentError: a bias too many or too few.
        ShapeError: an operand does not fit.
    """
    name, wants = task.operator, "bias" in (epilogue or "")
    if wants != (bias is not None):
        expected = "a third array, the bias" if wants else "two arrays: it has no bias"
        raise ArgumentError(f"{name}: the epilogue is {epilogue!r}: expected {expected}.")
    product = name == "matmul"
    for title, operand, shape in zip(("first", "second"), (a, b), task.operand_shapes, strict=True):
        if tuple(operand.shape[-2:] if product else operand.shape) != shape:
            raise ShapeError(
                f"{name}: the {title} array has another shape: got {tuple(operand.shape)}, "
                f"expected {shape}."
            )
    biases = (task.axes[1 if product else 0],)
    if wants and tuple(bias.shape) != biases:
        raise ShapeError(f"{name}: got a bias of {tuple(bias.shape)}, expected {biases}.")
    if not product:
        return (task.sizes[0], task.sizes[4], *task.places)
    try:
        batch = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    except ValueError as error:
        raise ShapeError(
            f"matmul: batches do not fit: got {tuple(a.shape)} and {tuple(b.shape)}."
        ) from error
    return (*batch, *task.axes[:2])
