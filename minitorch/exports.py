"""The names that a package hands on, without a second list of them. Imports nothing."""

from collections.abc import Iterable, Mapping
from types import ModuleType

OURS = {"FUNCTIONS", "TYPE_CHECKING", "TYPE_NAMES", "Any", "import_module", "public_names"}
"""What an `__init__` imports for itself."""


def public_names(namespace: Mapping[str, object], more: Iterable[str] = ()) -> list[str]:
    """Return the public names of a package's namespace: all but modules, and `more`."""
    names = {
        name
        for name, value in namespace.items()
        if not name.startswith("_") and name not in OURS and not isinstance(value, ModuleType)
    }
    return sorted({*names, *more})


def own_names(namespace: Mapping[str, object]) -> list[str]:
    """Return the public names of the functions that a module itself defines.

    A type checker finds them by itself, and is to see no `__all__` that it cannot read.
    """
    here = namespace["__name__"]
    return sorted(
        name
        for name, value in namespace.items()
        if not name.startswith("_") and callable(value) and value.__module__ == here
    )
