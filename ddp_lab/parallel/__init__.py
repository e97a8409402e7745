"""Other ways to train in parallel than data parallelism: pipelines, tensors, servers, shards.

Names are handed on when they are asked for: most of the modules need torch, some do not.
"""

from importlib import import_module
from typing import Any

_FROM = {
    "Adagrad": "parameter_server.optimizers",
    "ColumnParallelLinear": "tensor.layers",
    "Mesh": "mesh",
    "ParameterServer": "parameter_server.parameter_server",
    "Pipeline": "pipeline.pipeline",
    "RowParallelLinear": "tensor.layers",
    "SGD": "parameter_server.optimizers",
    "ShardedOptimizer": "sharded.optimizer",
    "Stragglers": "stragglers",
    "VocabParallelEmbedding": "tensor.layers",
    "fully_shard": "sharded.fully_shard",
    "gather_full_params": "sharded.fully_shard",
    "on_spark": "spark",
    "parallelize": "tensor.plan",
    "schedule": "pipeline.schedules",
    "spark_all_reduce": "spark",
    "split": "pipeline.cuts",
    "tree_aggregate": "spark",
}

__all__ = sorted(_FROM)


def __getattr__(name: str) -> Any:
    """Return one of the names, from its module."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FROM[name]}"), name)


def __dir__() -> list[str]:
    """Return all names, those that are not loaded yet among them."""
    return sorted({*globals(), *_FROM})
