"""Other ways to train in parallel than data parallelism: pipelines, tensors, servers, shards.

Names are handed on when they are asked for: most of the modules need torch, some do not.
"""

from importlib import import_module
from typing import Any

_FROM = {
    "Adagrad": "parameter_server_optimizers",
    "ColumnParallelLinear": "tensor_parallel",
    "Mesh": "mesh",
    "ParallelAttention": "tensor_parallel",
    "ParameterServer": "parameter_server",
    "Pipeline": "pipeline",
    "RowParallelLinear": "tensor_parallel",
    "SGD": "parameter_server_optimizers",
    "ShardedOptimizer": "sharded",
    "Stragglers": "stragglers",
    "VocabParallelEmbedding": "tensor_parallel",
    "fully_shard": "fully_sharded",
    "gather_full_params": "fully_sharded",
    "measure_costs": "balance",
    "on_spark": "spark",
    "parallelize": "tensor_plan",
    "schedule": "schedules",
    "spark_all_reduce": "spark",
    "split": "balance",
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
