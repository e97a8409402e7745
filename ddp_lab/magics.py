"""`%load_ext ddp_lab.magics`, then `%%ranks 4` in front of a cell runs it on four ranks.

In the cell, `comm` is the rank's communicator, and the notebook's own functions, classes, modules
and plain data are there by their names. What the cell assigns stays with its rank; the value of
its last line, if it is an expression, is returned for all ranks.
"""

import ast
from typing import Any

import cloudpickle

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import DdpLabError, InvalidArgument
from ddp_lab.launch.launcher import launch
from ddp_lab.launch.pickling import dumps


def load_ipython_extension(shell: Any) -> None:
    """Register `%%ranks` with a notebook."""
    shell.register_magic_function(lambda line, cell: ranks(shell, line, cell), "cell", "ranks")


def ranks(shell: Any, line: str, cell: str) -> list[Any] | None:
    """Run a cell on several ranks; print what went wrong, if anything did."""
    world_size, transport = parse(line)
    source = "\n" + shell.transform_cell(cell)  # lines count from that of `%%ranks`
    filename = shell.compile.cache(source, shell.execution_count)
    try:
        compile(source, filename, "exec")
        names = used_names(source, shell.user_ns)
        results = launch(run_cell, world_size, source, filename, names, transport=transport)
    except (DdpLabError, SyntaxError) as error:  # without this package's own lines
        raise error.with_traceback(None) from None
    return list(results) if any(result is not None for result in results) else None


def parse(line: str) -> tuple[int, str]:
    """Return the number of ranks and the transport from `4` or `4 tcp`."""
    words = line.split()
    if not words or not words[0].isdigit() or len(words) > 2:
        raise InvalidArgument(
            f"%%ranks: expected a number of ranks: got {line!r}. Write for example `%%ranks 4`."
        )
    return int(words[0]), words[1] if len(words) == 2 else "shm"


def used_names(source: str, namespace: dict[str, Any]) -> bytes:
    """Return, pickled, what the cell may use of the notebook: what can be sent, by name."""
    named = read_names(source)
    if "get_ipython" in named:
        raise InvalidArgument(
            "%%ranks: ranks are plain Python: got a line that begins with % or !, expected none. "
            "Put it in a cell of its own."
        )
    sendable = {}
    for name in sorted(named & namespace.keys()):
        try:
            dumps(namespace[name])
        except Exception as error:
            raise InvalidArgument(
                f"%%ranks: {name} cannot be sent to the ranks: {error}. Make it in the cell itself."
            ) from error
        sendable[name] = namespace[name]
    return dumps(sendable)


def read_names(source: str) -> set[str]:
    """Return the names whose values a cell reads, but for `comm`, which is the rank's own."""
    nodes = list(ast.walk(ast.parse(source)))
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    targets = [n.target for n in nodes if isinstance(n, ast.AugAssign)]
    added_to = {target.id for target in targets if isinstance(target, ast.Name)}
    return (read | added_to) - {"comm"}


def run_cell(comm: Communicator, source: str, filename: str, names: bytes) -> Any:
    """Execute a cell on one rank; return the value of its last expression."""
    namespace: dict[str, Any] = {"__name__": "__main__", **cloudpickle.loads(names), "comm": comm}
    tree = ast.parse(source, filename)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, filename, "exec"), namespace)
        return None
    tree.body.pop()
    exec(compile(tree, filename, "exec"), namespace)
    return eval(compile(ast.Expression(last.value), filename, "eval"), namespace)
