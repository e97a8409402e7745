"""Names of a library without their code: what a lab has its learners write.

A lab lists them once, as `LabSettings(withheld=("ddp_lab.cost:all_reduce_time",))`. Where answers
are graded they are withheld from the beginning, in the process that all workers are copies of; in
the notebook they are while a check runs. A function keeps its identity and loses its code, so no
other name of it, and no class derived from one, gets around that.
"""

import contextlib
import importlib
import inspect
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

MARK = ":"  # between module and name; what has none is a module


def withhold(names: Sequence[str]) -> list[tuple[FunctionType, CodeType]]:
    """Take their code from these functions, and from all methods of these classes; return it.

    A name's module is imported; one that is not installed is nobody's to use.
    """
    taken = []
    for name in names:
        module, _, path = name.partition(MARK)
        with contextlib.suppress(ImportError):
            value: Any = importlib.import_module(module)
            for part in path.split("."):
                value = getattr(value, part)
            for function in _functions(value):
                taken.append((function, function.__code__))
                function.__code__ = _refusal(name.replace(MARK, "."), function)
    return taken


@contextlib.contextmanager
def withheld(names: Sequence[str]) -> Iterator[None]:
    """Withhold these names for as long as this lasts."""
    taken = withhold(names)
    try:
        yield
    finally:
        for function, code in reversed(taken):
            function.__code__ = code


def _functions(value: Any) -> list[FunctionType]:
    """Return a function with what it wraps, or the functions of a class or a table."""
    if isinstance(value, type | dict):
        held = list((value if isinstance(value, dict) else vars(value)).values())
        return [f for each in held if not isinstance(each, type) for f in _functions(each)]
    inner = _functions(value.__wrapped__) if hasattr(value, "__wrapped__") else []
    return [value, *inner] if isinstance(value, FunctionType) else inner


def _refusal(name: str, function: FunctionType) -> CodeType:
    """Return code that raises, and fits where this function's was: of its kind and free names."""
    message = f"{name}: got a call, but what it does is what this lab has you write. Write it out."
    flags, space = function.__code__.co_flags, dict[str, Any]()
    is_async = flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    yields = flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR)
    body = f"    raise RuntimeError({message!r})\n" + "    yield" * bool(yields)
    exec(f"{'async ' * bool(is_async)}def refuse(*args, **kwargs):\n{body}", space)
    code: CodeType = space["refuse"].__code__
    return code.replace(co_freevars=function.__code__.co_freevars, co_name=function.__name__)
