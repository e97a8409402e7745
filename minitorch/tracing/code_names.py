"""What code names: the globals and attributes that it reads, and the modules that it imports.

May import: nothing of ours.
"""

import dis
import functools
from itertools import pairwise
from types import CodeType

ANY_NAME = {"getattr", "vars", "__dict__"}  # code with these may read what it does not name
ADDING = ("append", "appendleft", "extend")
LOADS = {  # of a closure's cells by name: Python 3.14 lists LOAD_DEREF among those of locals
    op
    for op, name in enumerate(dis.opname)
    if name.startswith("LOAD_") and (op in dis.hasname or name.endswith("DEREF"))
}


@functools.lru_cache(1024)
def read_by(code: CodeType) -> frozenset[str]:
    """Return the names that code, and the functions inside it, not only calls `append` of."""
    steps = list(dis.get_instructions(code))
    names = {
        step.argval
        for step, following in pairwise([*steps, *steps[-1:]])  # Cython's functions have no steps
        if step.opcode in LOADS and following.argval not in ADDING
    }
    inside = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(names.union(*map(read_by, inside)))


@functools.lru_cache(1024)
def names_of(code: CodeType) -> frozenset[str]:
    """Return the names that code and the functions inside it read: of globals and attributes."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opcode in dis.hasname and not instruction.opname.startswith("STORE")
    }
    inside = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    if not ANY_NAME.isdisjoint(names):  # such as getattr(self, "_scale")
        names.update(text for text in code.co_consts if isinstance(text, str))
    return frozenset(names.union(*map(names_of, inside)))


@functools.lru_cache(1024)
def find_imports(code: CodeType) -> frozenset[str]:
    """Return the modules that code itself imports."""
    steps = dis.get_instructions(code)
    return frozenset(step.argval for step in steps if step.opname == "IMPORT_NAME")
