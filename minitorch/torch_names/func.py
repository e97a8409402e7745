"""Torch's names for modules as functions of their parameters."""

from collections.abc import Mapping
from typing import Any, NoReturn

from minitorch.nn.module import Module
from minitorch.tensor.tensor import Tensor


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor],
    args: object = None,
    kwargs: Mapping[str, object] | None = None,
) -> Any:
    """Return what `module` gives with other parameters and buffers, which gradients flow to.

    Args:
        parameter_and_buffer_dicts: tensors by dotted name; the module's own stand in for others.
        args: a tuple, or one argument.
    """
    places = []
    for target, value in parameter_and_buffer_dicts.items():
        path, _, name = target.rpartition(".")
        part = module.get_submodule(path)
        stores = [part.__dict__[store] for store in ("_parameters", "_buffers")]
        store = next((store for store in stores if name in store), None)
        if store is None:
            raise KeyError(f"functional_call: the module has no parameter or buffer {target!r}.")
        places.append((store, name, value))
    before = [(store, name, store[name]) for store, name, _ in places]
    try:
        for store, name, value in places:
            store[name] = value
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for store, name, value in before:
            store[name] = value


def vmap(*args: object, **options: object) -> NoReturn:
    """Refuse: functions are not mapped over an axis."""
    raise NotImplementedError(
        "vmap: functions are not mapped over an axis. Write the function for a batch, or stack "
        "its results for each element."
    )


__all__ = ["functional_call", "vmap"]
