"""Sending functions to ranks: by name where a rank can import them, else code and all.

cloudpickle sends what a notebook or a script defines by value, but trusts that every other module
can be imported. A test module or a file that was loaded by its path is known to one process alone.
"""

import io
import sys
import threading
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import Any

import cloudpickle

NO_FILE = "<dynamic-code>"  # cloudpickle's name for the file of all code

_known: dict[tuple[str, str], bool] = {}
_registering = threading.Lock()  # what is sent by value is known to cloudpickle process-wide


def dumps_for_ranks(value: Any) -> bytes:
    """Return `value` pickled so that a fresh process with this one's `sys.path` can load it."""
    with _registering:
        private = {module for module in list(sys.modules.values()) if _is_private(module)}
        for module in private:
            cloudpickle.register_pickle_by_value(module)
        try:
            return dumps(value)
        finally:
            for module in private:
                cloudpickle.unregister_pickle_by_value(module)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Keeps the file names of code, for which newer versions of cloudpickle send `NO_FILE`.

    Without them a rank's traceback shows no line, and a report of a hang names no file.
    """

    def reducer_override(self, obj: Any) -> Any:
        """Return how to make `obj` again."""
        if not isinstance(obj, CodeType):
            return super().reducer_override(obj)
        make, parts = self.dispatch_table[CodeType](obj)
        return make, tuple(obj.co_filename if part == NO_FILE else part for part in parts)


def dumps(value: Any) -> bytes:
    """Return `value` pickled by cloudpickle, the file names of its code included."""
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()


def _is_private(module: ModuleType) -> bool:
    name, file = getattr(module, "__name__", ""), getattr(module, "__file__", None)
    if not isinstance(file, str) or name == "__main__" or sys.modules.get(name) is not module:
        return False
    if file.startswith((sys.prefix, sys.base_prefix)):
        return False
    key = (name, file)
    if key not in _known:
        _known[key] = not _can_import(name, file)
    return _known[key]


def _can_import(name: str, file: str) -> bool:
    """Return whether importing `name` in another process would load `file`."""
    top, *rest = name.split(".")
    spec = _find(top)
    for i in range(len(rest)):
        if spec is None or spec.submodule_search_locations is None:
            return False
        package = sys.modules.get(".".join([top, *rest[:i]]))  # which may have added folders
        path = list(getattr(package, "__path__", spec.submodule_search_locations))
        spec = PathFinder.find_spec(".".join([top, *rest[: i + 1]]), path)
    return spec is not None and spec.origin == file


def _find(name: str) -> ModuleSpec | None:
    """Return the spec of a top-level module, from the path or from an editable installation."""
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec is not None:
            return spec
    return None
