"""Walks over a tree of modules: by name, each module and each tensor once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitorch.nn.module import Module


def named_modules(
    module: Module, memo: set[int] | None, prefix: str, remove_duplicate: bool
) -> Iterator[tuple[str, Module]]:
    """Yield `module` and all below it with dotted names, parents first."""
    memo = set() if memo is None else memo
    if remove_duplicate:
        if id(module) in memo:
            return
        memo.add(id(module))
    yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            yield from named_modules(child, memo, dotted(prefix, name), remove_duplicate)


def named_tensors(
    module: Module, store: str, prefix: str, recurse: bool, remove_duplicate: bool
) -> Iterator[tuple[str, Any]]:
    """Yield what the modules keep in `store` ("_parameters" or "_buffers") with dotted names."""
    seen: set[int] = set()
    walk = named_modules(module, None, prefix, remove_duplicate) if recurse else [(prefix, module)]
    for path, part in walk:
        for name, value in part.__dict__[store].items():
            if value is None or (remove_duplicate and id(value) in seen):
                continue
            seen.add(id(value))
            yield dotted(path, name), value


def find_module(module: Module, target: str) -> Module:
    """Return the module with this dotted name, `module` itself for the empty name."""
    found: Any = module
    for name in target.split(".") if target else ():
        found = found._modules.get(name)
        if found is None:
            raise AttributeError(
                f"{type(module).__name__}: there is no module {target!r}: {name!r} is missing. "
                "named_modules() lists them."
            )
    return found  # type: ignore[no-any-return]


def find_tensor(module: Module, store: str, target: str) -> Any:
    """Return the parameter or buffer with this dotted name."""
    path, _, name = target.rpartition(".")
    found = find_module(module, path).__dict__[store].get(name)
    if found is None:
        kind = store.strip("_")
        raise AttributeError(
            f"{type(module).__name__}: there is no {kind[:-1]} {target!r}. named_{kind}() lists "
            "them."
        )
    return found


def dotted(prefix: str, name: str) -> str:
    """Return `prefix.name`, or `name` where there is no prefix."""
    return f"{prefix}.{name}" if prefix else name
