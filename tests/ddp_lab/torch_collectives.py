"""Run torch's own tests of collectives over a backend.

    python tests/ddp_lab/torch_collectives.py gloo|ddp_lab [--spoil] [NAME ...]

The tests ship in torch's wheel. Four things are changed, in memory: the group is made with the
backend asked for, while conditions such as "gloo supports this" hold; ranks are forked, not
spawned; what needs a GPU or more ranks is left out, before there are ranks; and these have longer
to meet, for machines that stall, but look more often whether they have. Prints
`NAME ok|skipped|failed` a line. With --spoil, results are made slightly wrong, to see that the
tests notice.
"""

import importlib.util
import os
import re
import sys
import tempfile
import types
import unittest
import warnings

PATIENT = {
    "timeout = timedelta(seconds=1)\n": "timeout = timedelta(seconds=5)\n",
    "def sync(cls, wait_for=None, timeout=10):": "def sync(cls, wait_for=None, timeout=100):",
    "self._barrier(timeout=20)": "self._barrier(timeout=100)",
    "time.sleep(0.1)\n": "time.sleep(0.02)\n",
}
LEFT_OUT = re.compile("ddp|DistributedDataParallel|cuda|gpu|nccl|Sync|sparse|post_localSGD|Join")
SOURCE = "torch.testing._internal.distributed.distributed_test"


def prepare() -> None:
    os.environ.update(
        BACKEND="gloo",
        WORLD_SIZE=os.environ.get("WORLD_SIZE", "3"),
        TEMP_DIR=tempfile.mkdtemp(),
        GLOO_SOCKET_IFNAME="lo",
        MASTER_ADDR="127.0.0.1",
        OMP_NUM_THREADS="1",
    )
    for folder in ("barrier", "init_dir", "test_dir"):
        os.makedirs(os.path.join(os.environ["TEMP_DIR"], folder), exist_ok=True)  # noqa: PTH103, PTH118


def load(backend: str) -> types.ModuleType:
    """Return torch's test module, changed to make its groups with `backend`."""
    spec = importlib.util.find_spec(SOURCE)
    assert spec is not None and spec.origin is not None
    with open(spec.origin) as file:  # noqa: PTH123
        text = file.read()
    for old, new in {**PATIENT, "backend=BACKEND,": f"backend={backend!r},"}.items():
        assert old in text, old
        text = text.replace(old, new)
    module = types.ModuleType(SOURCE)
    module.__file__ = spec.origin
    sys.modules[SOURCE] = module
    exec(compile(text, spec.origin, "exec"), module.__dict__)
    return module


def fork_ranks() -> None:
    import torch
    from torch.testing._internal import common_distributed

    def spawn(self: object) -> None:
        self._start_processes(torch.multiprocessing.get_context("fork").Process)  # type: ignore[attr-defined]

    common_distributed.MultiProcessTestCase._spawn_processes = spawn


def skip_here() -> None:
    """Skip what needs a GPU, or more ranks, in this process: torch has each rank find that out."""
    from torch.testing._internal import common_distributed

    needs_gpu = unittest.skip("needs a GPU")
    common_distributed.skip_if_no_gpu = needs_gpu
    common_distributed.skip_if_lt_x_gpu = lambda _: needs_gpu
    few = int(os.environ["WORLD_SIZE"]) < 8
    common_distributed.skip_if_small_worldsize = unittest.skipIf(few, "needs 8 ranks")


def spoil() -> None:
    """Have every result copied into its tensor, 0.05 % wrong."""
    import torch

    from ddp_lab.torch_backend import process_group, tensor_collectives, work

    def fill(tensor: torch.Tensor, values: torch.Tensor, source: str = "") -> None:
        with torch.no_grad():
            tensor.copy_(values.reshape(tensor.shape) * 1.0005)

    process_group.can_write_directly = tensor_collectives.can_write_directly = lambda *_: False
    work.place_of = lambda _: None
    process_group.fill = tensor_collectives.fill = work.fill = fill


class Lines(unittest.TestResult):
    """Says how each test went as soon as it is known."""

    def addSuccess(self, test: unittest.TestCase) -> None:
        print(test._testMethodName, "ok", flush=True)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        print(test._testMethodName, "skipped", flush=True)

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        print(test._testMethodName, "failed", flush=True)
        print(self._exc_info_to_string(err, test), file=sys.stderr)  # type: ignore[attr-defined]

    addError = addFailure


def main() -> None:
    warnings.simplefilter("ignore")
    backend, *wanted = sys.argv[1:]
    prepare()
    import ddp_lab.torch_backend  # noqa: F401

    if "--spoil" in wanted:
        wanted.remove("--spoil")
        spoil()
    fork_ranks()
    skip_here()
    module = load(backend)
    base = module.DistributedTest._DistTestBase

    class Case(module.TestDistBackend, base):  # type: ignore[misc, name-defined]
        def setUp(self) -> None:
            super().setUp()
            self._spawn_processes()

    names = [n for n in dir(Case) if n.startswith("test_") and not LEFT_OUT.search(n)]
    result = Lines()
    for name in wanted or names:
        unittest.TestSuite([Case(name)]).run(result)


if __name__ == "__main__":
    main()
