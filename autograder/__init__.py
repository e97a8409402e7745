"""A judge for notebooks that stands outside the process it judges."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.learner.earlier import earlier
    from autograder.learner.notebook_ui import lab
    from autograder.learner.predictions import compare
    from autograder.learner.progress import progress
    from autograder.learner.rates import keep_rates, kept_rate

__all__ = ["compare", "earlier", "keep_rates", "kept_rate", "lab", "progress"]
__version__ = "0.1.0"

_FROM = {
    "compare": "learner.predictions",
    "earlier": "learner.earlier",
    "keep_rates": "learner.rates",
    "kept_rate": "learner.rates",
    "lab": "learner.notebook_ui",
    "progress": "learner.progress",
}


def __getattr__(name: str) -> Any:
    """Hand a name on when it is asked for: the worker and the command line need none of them."""
    import importlib

    if name not in _FROM:
        raise AttributeError(f"module 'autograder' has no attribute {name!r}")
    module = f"autograder.{_FROM[name]}"
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        from autograder.student.local import Inert  # in the sandbox, where nothing is checked

        return Inert()
