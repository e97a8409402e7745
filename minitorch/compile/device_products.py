"""Products and convolutions on a CUDA device: called with torch's tensors, on its current stream.

May import: errors, tasks, cuda_driver, device_schedule, thread_blocks; torch, inside functions.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

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
        if not out.numel():
            return out
        bias = a if bias is None else bias.contiguous()
        if self.task.operator == "matmul":
            a, b = (x.expand(*shape[:-2], *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (a, b))
            self._launch(a, b, out, bias)
            return out
        count, channels, *places = shape
        y = a.new_empty(channels, count, *places)
        self._launch(b.reshape(1, channels, -1), self._columns(a), y, bias)
        return out.copy_(y.transpose(0, 1))

    def _columns(self, x: Any) -> Any:
        """Return the windows of images side by side (im2col), as one matrix."""
        _, _, _, _, _, kh, kw, stride, padding = self.task.sizes
        unfold = importlib.import_module("torch").nn.functional.unfold
        windows = unfold(x, (kh, kw), padding=padding, stride=stride)
        return windows.transpose(0, 1).reshape(1, windows.shape[1], -1)

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

    def _launch(self, a: Any, b: Any, out: Any, bias: Any) -> None:
        """Start the kernel on torch's current stream."""
        index, item = a.device.index or 0, self.task.item_bytes
        plan = BlockPlan(self.schedule, self.epilogue, a.stride(1) == 1, b.stride(2) == 1)
        key = (plan.a_by_rows, plan.b_by_columns, index)
        if key not in self._functions:
            self._functions[key] = self._driver.load(self._driver.blocks(plan).text(), index)
        strides = [s * item for s in (a.stride(0), b.stride(0), *a.stride()[1:], *b.stride()[1:])]
        addresses = [x.data_ptr() for x in (a, b, out, bias)]
        held, arguments = cuda_driver.packed([*addresses, *strides])
        count = a.shape[0] * math.prod(self.schedule.blocks)
        threads = math.prod(self.schedule.threads)
        stream = cuda_driver.current_stream(self._driver, index)
        self._driver.launch(self._functions[key], index, count, threads, arguments, stream)
        del held  # the launch has copied them


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
