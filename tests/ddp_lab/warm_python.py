"""Runs Python programs in forks of one process that has imported torch, which takes seconds.

A line of JSON `{"program": text, "name": str, "runs": [...]}` has a fork for each run, all at the
same time, and is answered by the list of their exit statuses once all have ended. A run has
`arguments`, `environment`, and `output` and `errors`, the paths of its standard streams. The first
run ends as every interpreter does; the others do not take apart what is imported, which costs a
fork 0.4 s and copies the memory of torch. Ends when its input closes.
"""

import atexit
import gc
import importlib
import json
import os
import sys
import tempfile
import threading
import types
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

HEAVY = (
    *("torch._dynamo", "torch.distributed.fsdp", "torch.distributed.optim"),
    *("torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks", "ddp_lab.torch_backend"),
)


def main() -> None:
    gc.disable()
    warnings.simplefilter("ignore")
    for name in HEAVY:
        importlib.import_module(name)
    gc.freeze()  # what is here stays, and no fork need look at it
    gc.enable()
    assert len(list(Path("/proc/self/task").iterdir())) == 1  # a fork takes one thread along
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        children = []
        for run in request["runs"]:
            child = os.fork()
            if child == 0:
                answers.close()
                take_streams(run.pop("output"), run.pop("errors"))
                program = partial(become, request["program"], request["name"], **run)
                return end_early(program) if children else program()
            children.append(child)
        ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        answers.write(json.dumps(ended) + "\n")
        answers.flush()
    return None


def end_early(program: Callable[[], None]) -> NoReturn:
    """Run the program, and all that an interpreter does at its end before it takes itself apart."""
    status = 0
    try:
        program()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:
        sys.last_type, sys.last_value, sys.last_traceback = sys.exc_info()
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def take_streams(output: str, errors: str) -> None:
    """Say to two files what this process says from now on, and hear nothing."""
    for number, path in enumerate((os.devnull, output, errors)):
        flags = os.O_RDWR | (number and os.O_CREAT)
        os.dup2(os.open(path, flags, 0o600), number)


def become(
    program: str,
    name: str,
    arguments: list[str],
    environment: dict[str, str],
) -> None:
    """Be the program, to the end of this process."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # to be looked up in this environment
    sys.argv = [name, *arguments]
    is_file = name.endswith(".py")
    sys.path[0] = str(Path(name).parent) if is_file else ""
    module: Any = types.ModuleType("__main__")
    if is_file:
        module.__file__ = name
    sys.modules["__main__"] = module
    exec(compile(program, name, "exec"), module.__dict__)


if __name__ == "__main__":
    main()
