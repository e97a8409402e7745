"""torch's own tests of DistributedDataParallel, run on CPU over gloo with our class for torch's.

The tests ship in torch's wheel and most of them ask for GPUs. They are read, rewritten as a syntax
tree (no GPU skips, no `.cuda()`, no `device_ids`, devices become the CPU) and run with a process
a rank. Nothing of them is stored here.

    python tests/ddp_lab/data_parallel/torch_ddp_suite.py            # ours
    python tests/ddp_lab/data_parallel/torch_ddp_suite.py --native   # torch's own class
    python tests/ddp_lab/data_parallel/torch_ddp_suite.py -k join    # by name
"""

import argparse
import ast
import importlib.util
import io
import json
import os
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[3]
WORLD_SIZE = 2
LIMIT_S = 120  # a test, on a slow machine; the slowest of torch's waits 10 s for a peer
SOURCE = "torch.testing._internal.distributed.distributed_test"
GPU_DECORATORS = {
    "nccl_skip_if_lt_x_gpu",
    "require_backend_is_available",
    "require_n_gpus_for_nccl_backend",
    "skip_if_lt_x_gpu",
    "skip_if_no_gpu",
}
CPU = ast.Constant("cpu")
WRAPPER = "DistributedDataParallel("


class ToCpu(ast.NodeTransformer):
    """Rewrites a test that asks for GPUs into one that asks for none."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [d for d in node.decorator_list if not is_gpu_skip(d)]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = ast.unparse(node.func)
        if called in ("torch.cuda.set_device", "torch.cuda.synchronize"):
            return ast.Constant(None)
        if called == "torch.device":
            return ast.Call(node.func, [CPU], [])
        if called == "torch.cuda.current_device":
            return CPU
        if called == "init_multigpu_helper":  # rank -> its devices
            return (
                ast.parse("{r: ['cpu'] for r in range(int(os.environ['WORLD_SIZE']))}")
                .body[0]
                .value
            )
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "cuda":
                return node.func.value
            if node.func.attr == "to" and is_device(node.args):
                return ast.Call(node.func, [CPU, *node.args[1:]], node.keywords)
        node.keywords = [k for k in map(self.on_cpu, node.keywords) if k]
        return node

    def on_cpu(self, keyword: ast.keyword) -> ast.keyword | None:
        if keyword.arg in ("device_ids", "output_device"):
            return None
        if keyword.arg == "device" and is_device([keyword.value]):
            return ast.keyword("device", CPU)
        return keyword


def is_gpu_skip(decorator: ast.expr) -> bool:
    text = ast.unparse(decorator)
    return text.split("(")[0] in GPU_DECORATORS or text.startswith("unittest.skipIf(IS_LINUX")


def is_device(args: list[ast.expr]) -> bool:
    """Whether the first argument names a device and not a dtype or a memory format."""
    if not args:
        return False
    return ast.unparse(args[0]) in (
        *("self.rank", "rank", "device", "device_id", "dev_id", "gpu", "'cuda'", "'cpu'"),
        *("rank_to_GPU[rank][0]", "gpu_subset[0]", "torch.cuda.current_device()"),
    )


def load(native: bool) -> types.ModuleType:
    """Return the rewritten test module, with our class in place of torch's unless `native`."""
    spec = importlib.util.find_spec(SOURCE)
    assert spec is not None and spec.origin is not None
    tree = ast.fix_missing_locations(ToCpu().visit(ast.parse(Path(spec.origin).read_text())))
    module = types.ModuleType("torch_ddp_suite_tests")
    module.__file__ = spec.origin
    sys.modules[module.__name__] = module
    import torch

    if not native:
        from tests.ddp_lab.data_parallel.torch_names import ObservedDdp

        torch.nn.parallel.DistributedDataParallel = ObservedDdp
    exec(compile(tree, spec.origin, "exec"), module.__dict__)
    if not native:
        module.DistributedDataParallel = ObservedDdp
    return module


def suite_of(module: types.ModuleType) -> type[unittest.TestCase]:
    """Return the test case; ranks are forked, for spawned ones would not find the module."""

    import torch
    from torch.testing._internal import common_distributed

    common_distributed.TIMEOUT_OVERRIDE.clear()  # some would wait for 400 s

    class TorchDdpTest(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    TorchDdpTest.__module__ = module.__name__
    return TorchDdpTest


def wrapping(tree: ast.Module) -> set[str]:
    """Return the functions that wrap a module, themselves or through others that they call."""
    bodies = {
        node.name: ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    }
    found = {name for name, text in bodies.items() if WRAPPER in text}
    grown = True
    while grown:
        more = {n for n, t in bodies.items() if any(f"self.{f}(" in t for f in found)} - found
        found |= more
        grown = bool(more)
    return found


def names_of(case: type[unittest.TestCase], module: types.ModuleType, pattern: str) -> list[str]:
    """Return the tests in which DistributedDataParallel plays a part."""
    wraps = wrapping(ast.parse(Path(str(module.__file__)).read_text()))
    names = unittest.defaultTestLoader.getTestCaseNames(case)
    return [name for name in names if name in wraps and pattern in name]


def run_one(case: type[unittest.TestCase], name: str) -> str:
    """Return "passed", "skipped" or the last line of what went wrong."""
    errors = io.StringIO()
    result = unittest.TextTestRunner(stream=errors, verbosity=0).run(case(name))
    if result.skipped:
        return "skipped"
    if result.wasSuccessful():
        return "passed"
    return (result.failures + result.errors)[0][1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--native", action="store_true", help="torch's own class")
    parser.add_argument("-k", default="", help="only tests whose name holds this")
    parser.add_argument("--names", nargs="*", help="exactly these tests")
    parser.add_argument("--json", help="write {name: outcome} here")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(
            BACKEND="gloo",
            WORLD_SIZE=str(WORLD_SIZE),
            TEMP_DIR=folder,
            INIT_METHOD=f"file://{folder}/init",
            GLOO_SOCKET_IFNAME="lo",
            OMP_NUM_THREADS="1",
            DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(LIMIT_S),
        )
        for part in ("barrier", "test_dir", "init_dir"):
            (Path(folder) / part).mkdir()
        module = load(options.native)
        case = suite_of(module)
        outcomes = {}
        for name in options.names or names_of(case, module, options.k):
            began = time.perf_counter()
            outcomes[name] = run_one(case, name)
            summary = outcomes[name].strip().splitlines()[-1][:120]
            print(f"{name:75} {time.perf_counter() - began:6.1f}  {summary}", flush=True)
    counts = {s: sum(o == s for o in outcomes.values()) for s in ("passed", "skipped")}
    print(f"{counts['passed']} passed, {counts['skipped']} skipped, of {len(outcomes)}")
    if options.json:
        Path(options.json).write_text(json.dumps(outcomes, indent=1))


if __name__ == "__main__":
    main()
