"""The kernels of products and convolutions, for the processor or a CUDA device.

May import: products, device_products, device_schedule, tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .device_products import DeviceProductKernel
from .device_schedule import DeviceSchedule, schedule_for
from .products import ProductKernel
from .tasks import task_of


def kernel_of(task: Any, schedule: Any, epilogue: str | None, device: str) -> Any:
    """Return the kernel of a task; see `matmul`."""
    on_device = schedule_for(device) is DeviceSchedule
    kernel = DeviceProductKernel if on_device else ProductKernel
    return kernel(task_of(task), schedule, epilogue)


def matmul(
    m: int,
    n: int,
    k: int,
    dtype: Any = "float32",
    schedule: Mapping[str, Any] | None = None,
    epilogue: str | None = None,
    *,
    device: str = "cpu",
) -> Any:
    """Return a kernel that multiplies (m, k) by (k, n), or batches of them.

    Args:
        dtype: float32 or float64.
        schedule: a point or a Schedule; None is the naive loop nest.
        epilogue: None, "bias", "relu" or "bias_relu"; the bias is the kernel's third array.
        device: "cpu" for NumPy's arrays; "cuda" for PyTorch's tensors on CUDA devices, where
            tiles are thread blocks (see `DeviceSchedule`).
    Raises:
        ArgumentError: a ValueError: sizes, dtype, epilogue or schedule that cannot be; says why.
        CompileError: device is "cuda", and there is none here.
    """
    return kernel_of(("matmul", m, n, k, np.dtype(dtype).name), schedule, epilogue, device)


def conv2d(
    n: int,
    c: int,
    h: int,
    w: int,
    o: int,
    kh: int,
    kw: int,
    stride: int = 1,
    padding: int = 0,
    dtype: Any = "float32",
    schedule: Mapping[str, Any] | None = None,
    epilogue: str | None = None,
    *,
    device: str = "cpu",
) -> Any:
    """Return a kernel that convolves images (n, c, h, w) with kernels (o, c, kh, kw).

    Args and Raises: as `matmul`.
    """
    sizes = (n, c, h, w, o, kh, kw, stride, padding)
    return kernel_of(("conv2d", *sizes, np.dtype(dtype).name), schedule, epilogue, device)
