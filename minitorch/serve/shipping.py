"""Sending a model to its container, once, when it is deployed.

A function or class of a script, of a notebook, or of a file that was loaded by its path is sent
with its code; what can be imported by name is sent by name.

May import: minitorch.errors, extras; cloudpickle, inside functions.
"""

import sys
from importlib.machinery import PathFinder
from typing import Any

from minitorch.errors import ArgumentError
from minitorch.extras import missing


def shipped(model: Any) -> bytes:
    """Return the model for a fresh process that has this one's `sys.path`.

    Raises:
        ArgumentError: it cannot be pickled.
    """
    try:
        import cloudpickle
    except ImportError as error:
        raise ModuleNotFoundError(missing("deploy", "serve", error)) from error
    name = getattr(model, "__module__", None) or type(model).__module__
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    by_value = module is not None and name != "__main__" and file and not can_import(name, file)
    try:
        if not by_value:
            return bytes(cloudpickle.dumps(model))
        cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps(model))
        finally:
            cloudpickle.unregister_pickle_by_value(module)
    except Exception as error:
        raise ArgumentError(
            f"deploy: the model cannot be pickled: {type(error).__name__}: {error}. Give a factory "
            "that makes it in the container."
        ) from error


def can_import(name: str, file: str) -> bool:
    """Tell whether importing `name` in another process would load `file`."""
    path = None
    spec = None
    parts = name.split(".")
    for i in range(len(parts)):
        finders = sys.meta_path if path is None else [PathFinder]
        found = (finder.find_spec(".".join(parts[: i + 1]), path) for finder in finders)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return spec is not None and spec.origin == file
