"""Other ways to train in parallel: servers, and all-reduce as Spark does it."""

import importlib
from typing import Any

_HOMES = {
    "SGD": "parameter_server_optimizers",
    "Adagrad": "parameter_server_optimizers",
    "ParameterServer": "parameter_server",
    "Report": "parameter_server",
    "Stragglers": "stragglers",
    "on_spark": "spark",
    "spark_all_reduce": "spark",
    "tree_aggregate": "spark",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
