"""Products and convolutions on a CUDA device: called with torch's tensors, on its current stream.

May import: errors, tasks, cuda_driver, device_schedule, thread_blocks; torch, inside functions.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from ..errors import ArgumentError, CompileError, DTypeError, ShapeError
from . import cuda_driver
from .device_schedule import DeviceSchedule
from .tasks import Task, check_epilogue, result_shape
from .thread_blocks import BlockPlan


class DeviceProductKernel:
    """A product or a convolution of one shape, by one schedule. Call it with tensors on a device.

    Attributes:
        task: what it computes.
        schedule: how.
        epilogue: what is done to each element at the end, or None.

    Raises:
        CompileError: there is no device here, or no llvmlite.
    """

    def __init__(self, task: Task, schedule: Any = None, epilogue: str | None = None) -> None:
        check_epilogue(task, epilogue)
        self.task, self.epilogue = task, epilogue
        self.schedule = DeviceSchedule(task, schedule)
        self._driver = driver_for(task)
        self._functions: dict[Any, Any] = {}
        self._tables: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"DeviceProductKernel({self.task}, {dict(self.schedule)}, {self.epilogue!r})"

    def __call__(self, a: Any, b: Any, bias: Any = None, out: Any = None) -> Any:
        """Return the result in a new tensor, or in `out`.

        Args:
            a, b, bias: as of `ProductKernel`, tensors on one device; any strides.
            out: contiguous, of the result's shape and dtype, and none of the inputs.
        Raises:
            ShapeError, DTypeError, ArgumentError: a tensor does not fit.
        """
        given = [x for x in (a, b, bias, out) if x is not None]
        self._check(given)
        shape = result_shape(self.task, self.epilogue, a, b, bias)
        out = a.new_empty(shape) if out is None else out
        if tuple(out.shape) != shape or not out.is_contiguous():
            raise ShapeError(
                f"{self.task.operator}: out does not fit: got {tuple(out.shape)}, expected "
                f"contiguous {shape}."
            )
        bias = a if bias is None else bias.contiguous()
        if self.task.operator == "conv2d":
            image, places, offsets = self._windows(a)
            weights = b.reshape(1, b.shape[0], -1)
            self._launch(weights, image, (0, 0, 1), (out, bias, places, offsets))
        else:
            a, b = (x.expand(*shape[:-2], *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (a, b))
            self._launch(a, b, b.stride(), (out, bias, a, a))
        return out

    def _check(self, tensors: Any) -> None:
        name = self.task.operator
        for x in tensors:
            kind = getattr(getattr(x, "device", None), "type", None)
            if kind != self._driver.kind or x.device != tensors[0].device:
                got = type(x).__name__ if kind is None else f"a tensor on {x.device}"
                raise ArgumentError(
                    f"{name}: got {got}, expected tensors on one {self._driver.kind} device. "
                    "Move it there first."
                )
            if str(x.dtype) != f"torch.{self.task.dtype}":
                raise DTypeError(f"{name}: got {x.dtype}, expected {self.task.dtype}. Cast it.")

    def _launch(self, a: Any, b: Any, b_strides: Any, others: Any) -> None:
        """Start the kernel on torch's current stream."""
        if not others[0].numel():
            return
        index, item = a.device.index or 0, self.task.item_bytes
        plan = BlockPlan(self.schedule, self.epilogue, a.stride(1) == 1, b_strides[2] == 1)
        key = (plan.a_by_rows, plan.b_by_columns, index)
        if key not in self._functions:
            self._functions[key] = self._driver.load(self._driver.blocks(plan).text(), index)
        strides = [s * item for s in (a.stride(0), b_strides[0], *a.stride()[1:], *b_strides[1:])]
        addresses = [x.data_ptr() for x in (a, b, *others)]
        held, arguments = cuda_driver.packed([*addresses, *strides])
        count = a.shape[0] * math.prod(self.schedule.blocks)
        threads = math.prod(self.schedule.threads)
        stream = cuda_driver.current_stream(self._driver, index)
        self._driver.launch(self._functions[key], index, count, threads, arguments, stream)
        del held  # the launch has copied them

    def _windows(self, x: Any) -> tuple[object, object, object]:
        """Return the padded image, and on its device the tables that say where windows are."""
        padding, torch = self.task.sizes[8], importlib.import_module("torch")
        image = torch.nn.functional.pad(x, [padding] * 4).contiguous()
        if x.device not in self._tables:
            tables = tables_of(self.task)
            self._tables[x.device] = [torch.as_tensor(t, device=x.device) for t in tables]
        return (image, *self._tables[x.device])


def driver_for(task: Task) -> cuda_driver.Driver:
    """Return the driver that runs kernels on a device.

    Raises:
        CompileError: there is no device here, or no torch to see it.
    """
    try:
        importlib.import_module("torch")
    except ImportError:
        driver = None
    else:
        driver = cuda_driver.current_driver()
    if driver is None:
        raise CompileError(
            f"{task.operator}: no CUDA device here, or no PyTorch that sees it. Leave out device, "
            "and the processor computes."
        )
    return driver


def tables_of(task: Task) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return where a convolution's windows begin and its results lie, and where terms lie."""
    count, c, h, w, o, kh, kw, s, padding = task.sizes
    high, wide = h + 2 * padding, w + 2 * padding
    height, width = task.places
    at, y, x = np.ix_(np.arange(count), np.arange(height), np.arange(width))
    begins = at * c * high * wide + y * s * wide + x * s
    results = at * o * height * width + y * width + x
    channel, i, j = np.ix_(np.arange(c), np.arange(kh), np.arange(kw))
    offsets = channel * high * wide + i * wide + j
    places = np.stack([begins, results], axis=-1)
    return (places * task.item_bytes).reshape(-1), (offsets * task.item_bytes).reshape(-1)
