"""What torch's `_get_ddp_logging_data` reports, under torch's keys.

May import: reducer. It reads a model and its reducer through their attributes.
"""

import os
from collections.abc import Sequence
from typing import Any

from ddp_lab.data_parallel.reducer import Timeline

ALWAYS_SAMPLED = 10  # iterations at the start that are all recorded
PHASES = (
    "forward_compute_time",
    "backward_compute_time",
    "backward_comm_time",
    "backward_compute_comm_overlap_time",
)
ENVIRONMENT = {
    "master_port": "MASTER_PORT",
    "master_addr": "MASTER_ADDR",
    "torch_distributed_debug": "TORCH_DISTRIBUTED_DEBUG",
    "cuda_visible_devices": "CUDA_VISIBLE_DEVICES",
}
GLOO_ENVIRONMENT = {
    "gloo_socket_ifname": "GLOO_SOCKET_IFNAME",
    "gloo_device_transport": "GLOO_DEVICE_TRANSPORT",
}
DTYPE_NAMES = {"float32": "float", "float64": "double", "float16": "c10::Half", "int64": "long"}


class DdpLog:
    """Facts of one model and the times of its sampled iterations, in nanoseconds."""

    def __init__(self, model: Any) -> None:
        self._model_facts = construction_facts(model)
        self._reducer = model.reducer
        self.sample_rate = 100
        self.hook_name = ""
        self.uneven_inputs = False
        self._runtime: dict[str, Any] = {}
        self._sums = dict.fromkeys(PHASES, 0)
        self._samples = 0

    def sample(self) -> None:
        """Record the iteration that has just ended, when its turn has come."""
        reducer = self._reducer
        done = reducer.iterations
        if not done or (done > ALWAYS_SAMPLED and done % self.sample_rate):
            return
        times = phases(reducer.timeline)
        self._samples += 1
        for name in PHASES:
            self._sums[name] += times[name]
        self._runtime = {
            **times,
            **{f"avg_{name}": self._sums[name] // self._samples for name in PHASES},
            "iteration": done,
            "prev_iteration_grad_ready_order_indices": _list(list(reducer.order.ready)),
            "unused_parameter_size": sum(reducer.specs[i].nbytes for i in reducer.unused),
        }

    def note_error(self, error: Exception) -> None:
        """Keep the message of an error."""
        self._runtime.update(has_error=1, error=str(error), iteration=self._reducer.iterations)

    def data(self) -> dict[str, Any]:
        """Return everything known now."""
        reducer = self._reducer
        facts = {**self._model_facts, **self._runtime}
        if self.hook_name:
            facts["comm_hook"] = self.hook_name
        facts["static_graph"] = int(reducer.static is not None)
        facts["num_buckets_reduced"] = reducer.buckets_reduced
        facts["join_uneven_inputs"] = int(self.uneven_inputs)
        facts["has_rebuilt_buckets"] = int(reducer.rebuilt)
        facts["can_set_static_graph"] = int(reducer.graph_is_static)
        if reducer.rebuilt:
            facts["rebuilt_bucket_sizes"] = _list(reducer.plan.bucket_bytes(reducer.specs))
            facts["rebuilt_per_bucket_param_indices"] = _list(
                [" ".join(map(str, bucket)) for bucket in reducer.plan.buckets]
            )
        return facts


def phases(times: Timeline) -> dict[str, int]:
    """Return durations and moments of one iteration."""
    comm_start = times.launches[0] if times.launches else times.compute_end
    return {
        "forward_compute_time": times.backward_start - times.forward_start,
        "backward_compute_time": times.compute_end - times.backward_start,
        "backward_comm_time": times.backward_end - comm_start,
        "backward_compute_comm_overlap_time": max(0, times.compute_end - comm_start),
        "forward_compute_time_start": times.forward_start,
        "backward_compute_time_start": times.backward_start,
        "backward_compute_time_end": times.compute_end,
        "backward_comm_time_start": comm_start,
        "backward_comm_time_end": times.backward_end,
    }


def construction_facts(model: Any) -> dict[str, Any]:
    """Return what is known once a model has been wrapped."""
    reducer = model.reducer
    specs = reducer.specs
    kinds = sorted({str(spec.kind[0]).removeprefix("torch.") for spec in specs})
    backend = getattr(model.process_group, "name", lambda: "ddp_lab")()
    facts = {
        "world_size": model.group.size,
        "rank": model.group.rank,
        "module_name": type(model.module).__name__,
        "device_ids": _list(model.device_ids or []),
        "output_device": -1 if model.output_device is None else model.output_device,
        "broadcast_buffers": int(model.forward_sync_buffers),
        "bucket_cap_bytes": model.bucket_bytes_cap,
        "find_unused_parameters": int(model.find_unused_parameters),
        "gradient_as_bucket_view": int(model.gradient_as_bucket_view),
        "backend_name": backend,
        "dtypes": _list(sorted(DTYPE_NAMES.get(kind, kind) for kind in kinds)),
        "total_parameter_size_bytes": sum(spec.nbytes for spec in specs),
        "num_parameter_tensors": len(specs),
        "bucket_sizes": _list(reducer.plan.bucket_bytes(specs)),
        "has_sync_bn": int(any("SyncBatchNorm" in type(m).__name__ for m in model.modules())),
    }
    return {**facts, **_environment(backend)}


def _environment(backend: str) -> dict[str, Any]:
    """Return the environment variables that torch reports, N/A where unset."""
    names = {**ENVIRONMENT, **(GLOO_ENVIRONMENT if backend == "gloo" else {})}
    facts: dict[str, Any] = {key: os.environ.get(name, "N/A") for key, name in names.items()}
    if backend == "gloo":
        facts["gloo_num_threads"] = 2
    return facts


def _list(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))
