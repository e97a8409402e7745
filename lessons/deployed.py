"""A network traced, its products tuned and compiled, and all of it saved as one file."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from minitorch import compile as code
from minitorch.arrays.library import Array
from minitorch.compile import engine
from minitorch.compile.tiled_loops import Plan, TiledLoops
from minitorch.graph.core.order import list_needed


class Layer(NamedTuple):
    """A product of the graph: x (m, k) times weight (k, n), a bias, and a relu or none."""

    task: tuple[str, int, int, int]
    weight: Array
    bias: Array
    epilogue: str


def products(traced: Any) -> list[Layer]:
    """Return the products of a traced network of linear layers, in order."""
    order = list_needed([traced.outputs], ())[::-1]  # inputs first
    relus = {node.inputs[0] for node in order if node.op is not None and node.op.name == "relu"}
    layers = []
    for node in order:
        if node.op is not None and node.op.name == "linear":
            weight, bias = (traced.captured[i].detach().numpy() for i in node.inputs[1:])
            (m, n), k = node.shape, weight.shape[1]
            epilogue = "bias_relu" if node in relus else "bias"
            transposed = np.ascontiguousarray(weight.T)
            layers.append(Layer(("matmul", m, n, k), transposed, bias, epilogue))
    return layers


def save(path: Path, layers: Sequence[Layer], schedules: Sequence[Any]) -> int:
    """Write code, schedules and weights of all layers into one file; return its bytes."""
    about: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for k, (layer, schedule) in enumerate(zip(layers, schedules, strict=True)):
        loops = TiledLoops(Plan(code.Schedule(layer.task, schedule), layer.epilogue))
        arrays[f"code{k}"] = np.frombuffer(engine.machine_code(loops.text()), np.uint8)
        arrays |= {f"weight{k}": layer.weight, f"bias{k}": layer.bias}
        point = dict(code.Schedule(layer.task, schedule))
        about.append({"tiles": loops.outer_tiles, "buffer_bytes": loops.buffer_bytes} | point)
    np.savez(path, layers=json.dumps(about), **arrays)
    return path.stat().st_size


def run_elsewhere(program: ModuleType, path: Path, x: Array) -> tuple[Array, str]:
    """Return (result, what was printed) of a saved module, run by `program` in a process."""
    input_path, output_path = path.with_suffix(".in.npy"), path.with_suffix(".out.npy")
    np.save(input_path, x)
    command = [sys.executable, program.__file__ or "", *map(str, (path, input_path, output_path))]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    return np.load(output_path), ran.stdout.strip()
