"""Sending a model to its container, once, when it is deployed.

A function or class of a script, a notebook, or any module that is not installed is sent with its
code, since its container may not be able to import it; what is installed is sent by name.

May import: minitorch.errors, extras; cloudpickle, inside functions.
"""

import sys
from pathlib import Path
from typing import Any

from minitorch.errors import ArgumentError
from minitorch.extras import missing

PACKAGE = Path(__file__).parents[1]


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
    file = getattr(module, "__file__", None) or sys.prefix
    installed = file.startswith((sys.prefix, sys.base_prefix, str(PACKAGE)))
    by_value = name != "__main__" and not installed  # cloudpickle sees to __main__ itself
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
