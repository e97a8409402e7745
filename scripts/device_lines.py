"""Count the statements that only a CUDA device reaches: `docs/gpu.md` names them by function.

The functions below are those that ask what device they have. Tests run them on the processor and
over stand-ins while every line is noted; what no test reaches is left to a device. `--check` says
whether the table is what the tests give; without it the table is written.
"""

import ast
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/gpu.md"
BEGIN, END = "<!-- device lines -->\n", "<!-- end -->\n"
ASKING: dict[str, tuple[str, ...]] = {  # functions; all of a file's if none
    "ddp_lab/device_array.py": (),
    "ddp_lab/launch/launcher.py": ("on_gpus",),
    "ddp_lab/transport/connect.py": ("device_of",),
    "ddp_lab/transport/device.py": (),
    "minitorch/arrays/generator.py": ("Generator.manual_seed", "Generator._draw"),
    "minitorch/arrays/library.py": (
        *("device", "cuda_device_count", "native_module", "device_of", "native_device"),
        "to_numpy",
    ),
    "minitorch/compile/gpu/cuda_driver.py": (),
    "minitorch/graph/passes/fused.py": ("Fused.on_device",),
    "minitorch/nn/module.py": ("Module.cuda",),
    "minitorch/ops/shaping/adding.py": ("add_at",),
    "minitorch/tensor/conversions.py": ("Conversions.is_cuda", "Conversions.cuda"),
    "minitorch/torch_names/accelerator.py": (),
    "minitorch/torch_names/cuda.py": (),
}
TESTS = (
    *("tests/ddp_lab/test_device.py", "tests/ddp_lab/test_device_streams.py"),
    *("tests/minitorch/test_late_device.py", "tests/minitorch/compile/test_cuda_driver.py"),
    "tests/minitorch/compile/test_thread_blocks.py",
    "tests/minitorch/test_program_names.py::"
    "test_questions_about_an_accelerator_are_answered_without_one",
    "tests/minitorch/test_tensor.py::test_the_gpus_code_path_trains_over_torch_arrays",
    "tests/minitorch/test_torch_names.py::test_without_a_gpu_cuda_says_so",
)
LEFT_OUT = (  # which reach nothing more, or only in other processes
    "test_processes or between_processes or every_operator or Backwards or Loops-2 or Loops-3 or "
    "Loops-1-1 or curve_of_the_cpu or every_collective_waits or 3-cpu or 4-cpu or is_needed or "
    "waits_for_its_buckets or ragged_schedules or every_element_once or "
    "nothing_outside or a_search_on"
)


class LineRecorder:
    """Which lines of the asking files have run, in all threads."""

    def __init__(self) -> None:
        self.files = {str(ROOT / name): name for name in ASKING}
        self.lines: set[tuple[str, int]] = set()

    def pytest_collection_finish(self) -> None:
        """Begin, once everything is imported."""
        threading.settrace(self.trace)
        sys.settrace(self.trace)

    def trace(self, frame: FrameType, event: str, value: Any) -> Any:
        """Note a line of the asking files; leave all others alone."""
        name = self.files.get(frame.f_code.co_filename)
        if name is None:
            return None
        self.lines.add((name, frame.f_lineno))
        return self.trace


def statements(name: str) -> Iterator[tuple[str, range]]:
    """Yield each statement of the asking functions of a file, by function, as its lines."""
    asking = ASKING[name]

    def visit(node: ast.AST, path: str) -> Iterator[tuple[str, range]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                yield from visit(child, f"{path}.{child.name}".lstrip("."))
            elif isinstance(child, ast.stmt) and path and not _is_text(child):
                body = getattr(child, "body", None)
                end = body[0].lineno - 1 if body else child.end_lineno or child.lineno
                yield path, range(child.lineno, max(end, child.lineno) + 1)
                yield from visit(child, path)
            elif isinstance(child, ast.excepthandler):
                yield from visit(child, path)

    tree = ast.parse((ROOT / name).read_text("utf-8"))
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for path, lines in visit(tree, ""):
        is_field = path in classes
        if not is_field and (not asking or any((path + ".").startswith(f"{w}.") for w in asking)):
            yield path, lines


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def table(reached: set[tuple[str, int]]) -> str:
    """Return the table of functions with statements that nothing reached, and their number."""
    rows, total, everything = [], 0, 0
    for name in ASKING:
        unreached: Counter[str] = Counter()
        for function, lines in statements(name):
            everything += 1
            unreached[function] += not any((name, line) in reached for line in lines)
        rows += [f"| `{name}` | `{f}` | {n} |" for f, n in unreached.items() if n]
        total += sum(unreached.values())
    head = f"{total} of {everything} statements are left to a device.\n\n"
    return head + "\n".join(["| file | function | statements |", "|---|---|---:|", *rows]) + "\n"


def main() -> int:
    """Write the table, or check it; return the exit status."""
    recorder = LineRecorder()
    options = ["-q", "-k", f"not ({LEFT_OUT})", "--no-header"]
    status = pytest.main([*options, *(str(ROOT / test) for test in TESTS)], plugins=[recorder])
    sys.settrace(None)
    if status:
        return int(status)
    rows, text = table(recorder.lines), PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    old, _, after = rest.partition(END)
    if "--check" not in sys.argv:
        PAGE.write_text(f"{before}{BEGIN}{rows}{END}{after}", "utf-8")
    elif old != rows:
        print(f"docs/gpu.md is not what the tests give; run scripts/device_lines.py:\n{rows}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
