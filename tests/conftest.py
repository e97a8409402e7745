"""What all tests share: tests whose tools are missing say so, and CI refuses them."""

import contextlib
import faulthandler
import gc
import itertools
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite

# The first is the same browser without windows, tabs and menus, which cost as much as the pages.
BROWSERS = ("chromium-headless-shell", "chromium")

NEEDS = {
    "sandbox": (("bwrap",), "bubblewrap is not installed: sudo apt-get install bubblewrap"),
    "browser": (BROWSERS, f"Chromium is not installed: sudo apt-get install {BROWSERS[0]}"),
}

# The reasons for which CI lets a test be skipped: it has no accelerator, or refuses namespaces.
NO_GPU = "no CUDA device"
NO_HOSTS = "hosts: this "  # machine or kernel; a tool that is not installed is refused

os.environ.setdefault("OMP_NUM_THREADS", "1")

gc.disable()  # until all tests are there

# What takes the place of a CUDA device, such as "cpu", as far as that goes: scripts/gpu.py
GPU_DEVICE = os.environ.get("GPU_DEVICE", "cuda")

with contextlib.suppress(ModuleNotFoundError):  # a bare machine with a GPU
    from hypothesis import HealthCheck, settings

    # A stall is no fault of a test, and a run that passed passes again; WIDE=1 draws anew.
    settings.register_profile(
        "unhurried",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=not os.environ.get("WIDE"),
    )
    settings.load_profile("unhurried")

    # Nor does it hang on the modules that are there: Hypothesis also draws constants that it reads
    # in the source of each, which takes every process of a clean checkout seconds.
    if not os.environ.get("WIDE"):
        with contextlib.suppress(ImportError, AttributeError):
            from hypothesis.internal.conjecture import providers

            providers._get_local_constants = lambda: providers._local_constants


crashes: list[str] = []


@pytest.hookimpl(trylast=True)  # after pytest's own, whose stacks are lost among the dots
def pytest_configure(config: pytest.Config) -> None:
    """Let a test process that crashes write the stacks of its threads to a file."""
    if worker := getattr(config, "workerinput", None):
        file = Path(config.option.basetemp).with_name(f"crash-{worker['workerid']}")
        faulthandler.enable(os.open(file, os.O_WRONLY | os.O_CREAT))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Note how a test process ended that should not have: signal 9 leaves no stacks."""
    if error:
        status = node.gateway._io.popen.wait(timeout=60)
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        folder = node.config._tmp_path_factory.getbasetemp()
        stacks = (folder / f"crash-{node.gateway.id}").read_text(encoding="utf-8")
        crashes.append(f"{node.gateway.id} was ended by {how}\n{stacks}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Rewrite the asserts of a share of the tests, where several processes collect all of them.

    In a clean checkout each would otherwise rewrite every file, at the same time as the others.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted(Path(__file__).parent.rglob("test_*.py"))[number % count :: count]:
        with contextlib.suppress(Exception):  # pytest's own, which does it anyway when it collects
            _rewrite_asserts(path, session.config)


def _rewrite_asserts(path: Path, config: pytest.Config) -> None:
    code = rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
    is_fresh = code.exists() and code.stat().st_mtime >= path.stat().st_mtime
    if not is_fresh and rewrite.try_makedirs(code.parent):
        version, rewritten = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], rewritten, version, code)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not os.environ.get("WIDE"):
        wide = [item for item in items if item.get_closest_marker("wide")]
        config.hook.pytest_deselected(items=wide)
        items[:] = [item for item in items if not item.get_closest_marker("wide")]
    if hasattr(config, "workerinput"):
        items.sort(key=place_in_queue)
    lacks = {m: why for m, (names, why) in NEEDS.items() if not any(map(shutil.which, names))}
    for item in items:
        for mark, reason in lacks.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))
        gpu = item.get_closest_marker("gpu")
        if gpu and not gpu_is_present(itself=gpu.kwargs.get("itself", False)):
            item.add_marker(pytest.mark.skip(reason=NO_GPU))


def pytest_collection_finish() -> None:
    if "hypothesis" in sys.modules:  # it makes its generator at the first test, and on Python 3.14
        from hypothesis import given, strategies  # would not find it among what is frozen

        given(strategies.none())(lambda _: None)()
    gc.freeze()  # twelve thousand tests and all of torch stay: no collection need look at them
    gc.set_threshold(10_000)  # not 700: looking so often is a tenth of the time, and finds little
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return what gives each process one group of tests after another.

    Tests that start ranks, time them or count what they leave behind never meet their own kind,
    nor do those of the judge, of the solved labs, of the browser or of PyTorch's tables; the rest
    fills up whichever process has time. There are more processes than cores because ranks,
    sandboxes, kernels and browsers often wait.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

        def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
            """Return how many tests are left, as far as three: xdist asks after each of them."""
            ran = (
                done for tests in reversed(workload.values()) for done in reversed(tests.values())
            )
            return sum(1 for _ in itertools.islice((done for done in ran if not done), 3))

        def remove_node(self, node: Any) -> str | None:
            """Return the test that a process crashed in; xdist would begin with it again."""
            for tests in self.assigned_work.get(node, {}).values():
                for test, is_done in tests.items():
                    if not is_done:
                        tests[test] = True
                        super().remove_node(node)
                        return str(test)
            return super().remove_node(node)

    config.option.loadscopereorder = False  # the longest first, not the one with most tests
    return Groups(config, log)


# The tests that run in one process, one after another: the first that fits. Those go first that
# take longest with all of their waits, as the judge's: whoever begins with them late ends alone.
# The course server's are two groups; all of it that starts processes is in the second.
GROUPS = {
    "judge": ("tests/attacks/", "tests/autograder/test_", "tests/autograder/notebook/"),
    "ranks": ("tests/ddp_lab/", "tests/lessons/"),
    "browser": ("tests/browser/",),
    "course": tuple(
        f"tests/autograder/service/test_service_{name}" for name in ("co", "l", "m", "q", "t")
    ),
    "service": ("tests/autograder/service/",),
    "labs": ("tests/labs/test_lab_sources", "tests/labs/test_right_"),
    "solved": ("tests/labs/",),
    "hosts": ("tests/hosts/",),
    "tables": (  # what reads PyTorch's own tables of operators: one process in place of five
        *(f"tests/minitorch/test_{name}.py" for name in ("bfloat16", "gradcheck", "late_device")),
        *(f"tests/minitorch/test_{name}.py" for name in ("nn_module_db", "opinfo", "optim_db")),
        *("tests/minitorch/graph/test_operators.py", "tests/minitorch/graph/test_trace.py"),
    ),
}


# Of the rest, the files that take longest go first, so that none runs alone at the end.
LONG = (
    "tests/test_site.py",
    "tests/minitorch/test_serve_processes.py",
    "tests/minitorch/compile/test_tuning.py",
    "tests/minitorch/serve/test_generation_processes.py",
    "tests/minitorch/graph/test_random_programs.py",
    "tests/minitorch/test_serve.py",
    "tests/test_wheel.py",
    "tests/test_setup.py",
    "tests/test_architecture.py",
    "tests/test_device_lines.py",
    "tests/test_gpu_runner.py",
    "tests/programs/test_adapters.py",
    "tests/minitorch/compile/test_thread_blocks.py",
    "tests/minitorch/graph/test_work_grows_with_the_graph.py",
    "tests/minitorch/graph/test_pass_agreement.py",
    "tests/minitorch/compile/test_assembler.py",
    "tests/minitorch/test_convolution.py",
    "tests/minitorch/graph/test_deep_graphs.py",
    "tests/minitorch/graph/test_place_loops.py",
)


def group_of(nodeid: str) -> str:
    """Return the name of the tests that run in one process, one after another."""
    file = nodeid.partition("::")[0]
    return next((name for name, folders in GROUPS.items() if file.startswith(folders)), file)


def place_in_queue(item: pytest.Item) -> int:
    """Return where a test's group stands in the queue of work; most files come last."""
    names = [*GROUPS, *LONG, group_of(item.nodeid)]
    return names.index(names[-1])


@pytest.fixture(scope="session")
def chromium_path() -> str | None:
    """The browser to start."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture
def gpu() -> str:
    """The CUDA device, or what stands in for it."""
    return GPU_DEVICE


def gpu_is_present(*, itself: bool) -> bool:
    """Tell whether a test that needs a device can run: the device itself, or a stand-in."""
    import torch

    return torch.cuda.is_available() or (GPU_DEVICE != "cuda" and not itself)


def print_tables(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables that tests have recorded, of what works and what does not."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, text in getattr(report, "user_properties", []):
                if name == "table":
                    terminalreporter.section(report.nodeid)
                    terminalreporter.write_line(text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    print_tables(terminalreporter)
    for crash in crashes:
        terminalreporter.section("a test process crashed", red=True)
        terminalreporter.write_line(crash)
    if refused := refused_skips(terminalreporter):
        terminalreporter.write_line("")
        terminalreporter.write_line("REFUSE_SKIPS is set, and these were skipped:", red=True)
        for reason in sorted(refused):
            terminalreporter.write_line(f"  {reason}", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and reporter and refused_skips(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def refused_skips(reporter: pytest.TerminalReporter) -> set[str]:
    """Return the reasons of skips that CI does not accept."""
    if not os.environ.get("REFUSE_SKIPS"):
        return set()
    reasons = {str(report.longrepr[2]) for report in reporter.stats.get("skipped", [])}
    return {reason for reason in reasons if NO_GPU not in reason and NO_HOSTS not in reason}
