"""Kernels that minitorch compiles to PTX, beside the same expression in PyTorch, eager."""

from typing import Any

import numpy as np
import torch
from measuring import DEVICE, Skipped, Step, attempt, compare

SIDE = 1024
TILED = {
    "rows": 8, "vectors": 2, "lanes": 4, "unroll": 8, "tile_m": 64, "tile_n": 128, "tile_k": 8,
    "pack_a": True, "pack_b": True,
}  # fmt: skip
N = 1 << (16 if DEVICE == "cpu" else 24)


def kernel() -> tuple[Step, Step]:
    from minitorch.compile import Program
    from minitorch.compile import Step as Row
    from minitorch.compile.gpu.cuda_driver import run_on_device

    rows = Row("mul", (0, 1)), Row("add", (-1, 2)), Row("relu", (-2,)), Row("tanh", (-3,))
    program = Program("float32", ("float",) * 3, rows)
    x, w = (torch.randn(N, device=DEVICE) for _ in range(2))
    b = torch.tensor(0.25, device=DEVICE)
    want = torch.tanh(torch.relu(x * w + b))
    got = run_on_device(program, [x, w, b])
    if got is None:
        raise Skipped("no CUDA driver or no llvmlite: nothing can launch PTX")
    torch.testing.assert_close(got, want)
    return (
        lambda: run_on_device(program, [x, w, b]),
        lambda: torch.tanh(torch.relu(x * w + b)),
    )


def product() -> tuple[Step, Step]:
    """Tile by tile in shared memory, float32 arithmetic on both sides."""
    from minitorch.compile import matmul
    from minitorch.errors import CompileError

    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(SIDE, SIDE, device=DEVICE) for _ in range(2))
    try:
        kernel = matmul(SIDE, SIDE, SIDE, schedule=TILED, device="cuda")
    except CompileError as error:
        raise Skipped(str(error)) from error
    torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-4, atol=1e-3)
    return lambda: kernel(a, b), lambda: a @ b


def session() -> tuple[Step, Step]:
    """Fed from the host on both sides."""
    import minitorch.graph as tf

    side = int(N**0.5)
    a = np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)
    x = tf.placeholder(tf.float32, (side, side))
    z = tf.reduce_sum(tf.matmul(tf.nn.relu(x * x + 0.5), tf.sin(x)))
    session = tf.Session(optimize=True, device=DEVICE)

    def theirs() -> torch.Tensor:
        y = torch.as_tensor(a, device=DEVICE)
        return (torch.relu(y * y + 0.5) @ torch.sin(y)).sum()

    return lambda: session.run(z, {x: a}), theirs


def least_of_kernel(device: Any) -> float:
    """Two arrays are read and one is written, each once."""
    return 3 * 4 * N / device.bytes_per_s


def least_of_product(device: Any) -> float:
    from minitorch.compile import DeviceSchedule
    from minitorch.compile.gpu.explain import predict_roofline

    return predict_roofline(DeviceSchedule(("matmul", SIDE, SIDE, SIDE), TILED), device).seconds


def main() -> None:
    compare(f"kernel tanh(relu(x * w + b)), {N} elements", kernel, least_of_kernel)
    compare(f"product {SIDE} x {SIDE} x {SIDE}, float32, of cuBLAS", product, least_of_product)
    compare("session, fused and with a matrix product", session)


if __name__ == "__main__":
    with attempt("kernels"):
        main()
