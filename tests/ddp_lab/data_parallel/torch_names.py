"""Our class with the names by which torch's own tests look inside a DistributedDataParallel.

Nobody else asks for them, so the package has none of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from ddp_lab.data_parallel.torch import module_inspection
from ddp_lab.data_parallel.torch.ddp import TorchDistributedDataParallel
from ddp_lab.data_parallel.torch.process_groups import broadcast_coalesced


class ObservedDdp(TorchDistributedDataParallel):
    """Notes of each iteration what torch's C++ reducer and logger would know of it."""

    broadcast_bucket_size = 250 * 1024 * 1024  # bytes; torch's

    def _build_reducer(self, *args: Any) -> None:
        self.hook_name: str | None = None
        self.last_error: Exception | None = None
        self.joins = False
        self.buffer_hook: tuple[Any, Any, bool] | None = None  # its state, and if before forward
        super()._build_reducer(*args)
        self.seen = Seen(self.reducer)

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.last_error = error
            raise

    def _start_iteration(self, syncs: bool) -> None:
        with self._noting_errors():
            super()._start_iteration(syncs)

    def _set_static_graph(self) -> None:
        with self._noting_errors():
            super()._set_static_graph()

    def register_comm_hook(self, state: object, hook: Any) -> None:
        with self._noting_errors():
            super().register_comm_hook(state, hook)
        self.hook_name = hook.__qualname__

    def _register_builtin_comm_hook(self, kind: Any) -> None:
        super()._register_builtin_comm_hook(kind)
        self.hook_name = str(kind)

    def _register_buffer_comm_hook(self, state: Any, hook: Any, location: Any = None) -> None:
        before = location is not None and location.name == "PRE_FORWARD"
        self.buffer_hook = hook, state, before

    def _sync_buffers(self, joined: bool) -> None:
        if self.buffer_hook is None:
            super()._sync_buffers(joined)
        elif self.buffer_hook[2]:
            self._run_buffer_hook()

    def _post_forward(self, output: Any) -> Any:
        if self.buffer_hook is not None and not self.buffer_hook[2]:
            self._run_buffer_hook()
        return super()._post_forward(output)

    def _run_buffer_hook(self) -> None:
        asked = self.require_forward_param_sync and self.forward_sync_buffers
        if asked and self._has_buffers and self.buffer_hook:
            hook, state, _ = self.buffer_hook
            ignored = self.parameters_to_ignore
            named = self.module.named_buffers()
            buffers = {name: b.detach() for name, b in named if name not in ignored}
            with torch.no_grad(), _unsafe_preserve_version_counter(tuple(buffers.values())):
                self.seen.futures.extend(hook(state, buffers) or ())

    def join(self, *args: Any, **kwargs: Any) -> Any:
        self.joins = True
        return super().join(*args, **kwargs)

    @property
    def _join_config(self) -> Any:
        return SimpleNamespace(enable=self.uneven is not None)

    @property
    def _authoritative_rank(self) -> int:
        return self.seen.took_over_from

    def broadcast_state(self, root: int, with_buffers: bool) -> None:
        super().broadcast_state(root, with_buffers)
        if hasattr(self, "seen"):
            self.seen.took_over_from = root

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Return what is known of the buckets and options, under torch's keys; no times."""
        plan, specs = self.reducer.plan, self.reducer.slots.specs
        facts = {
            "world_size": self.group.size,
            "rank": self.group.rank,
            "module_name": type(self.module).__name__,
            "iteration": self.reducer.iterations,
            "num_buckets_reduced": self.seen.buckets_reduced,
            "join_uneven_inputs": int(self.joins),
            "static_graph": int(self.static_graph),
            "has_sync_bn": int(any("SyncBatchNorm" in type(m).__name__ for m in self.modules())),
        }
        if self.hook_name is not None:
            facts["comm_hook"] = self.hook_name
        if self.last_error is not None:
            facts.update(has_error=1, error=str(self.last_error))
        if self.reducer.rebuilt_order is not None:
            facts["has_rebuilt_buckets"] = 1
            facts["rebuilt_bucket_sizes"] = ", ".join(map(str, plan.bucket_bytes(specs)))
            facts["rebuilt_per_bucket_param_indices"] = ", ".join(
                " ".join(map(str, bucket)) for bucket in plan.buckets
            )
        return facts

    def _check_reducer_finalized(self) -> None:
        self.reducer.check_finished()

    def _default_broadcast_coalesced(
        self,
        bufs: Sequence[Tensor] | None = None,
        bucket_size: int | None = None,
        authoritative_rank: int = 0,
    ) -> None:
        buffers = module_inspection.buffers(self.module, self.parameters_to_ignore)
        broadcast_coalesced(self.group, bufs or buffers, authoritative_rank)

    def _build_params_for_reducer(self) -> tuple[list[nn.Parameter], list[bool]]:
        managed = module_inspection.managed_params(self.module, self.parameters_to_ignore)
        return managed.params, [spec.sparse for spec in managed.specs]

    def _build_debug_param_to_name_mapping(self, parameters: Sequence[Any]) -> dict[int, str]:
        """Return the names of `parameters` by their position, which must be the module's."""
        managed = module_inspection.managed_params(self.module, self.parameters_to_ignore)
        names = {id(p): s.name for p, s in zip(managed.params, managed.specs, strict=True)}
        passed = {id(param) for param in parameters}
        missing = [name for key, name in names.items() if key not in passed]
        if missing:
            raise ValueError(f"Param with name {missing[0]} is in the module but not passed")
        if len(passed) != len(names):
            raise ValueError("Expected param to name mapping to cover all parameters")
        return {index: names[id(param)] for index, param in enumerate(parameters)}


class Seen:
    """What happened in a reducer, by looking on; the reducer gets torch's two names for it."""

    def __init__(self, reducer: Any) -> None:
        self.buckets_reduced = 0  # in the last iteration
        self.used: list[int] | None = None  # by parameter: how many ranks used it
        self.took_over_from = 0  # whose model all had at the end of a join
        self.is_static = True  # the same parameters were unused in every iteration
        self.futures: list[Any] = []  # of buffer hooks: backward has to wait for them
        self._unused: list[int] | None = None
        usage, finish, agree = reducer.usage, reducer.finish, reducer.usage.find_unused_everywhere
        expect = usage.expect_unused

        def counted_finish() -> None:
            self.buckets_reduced = len(reducer._works)
            finish()
            while self.futures:
                self.futures.pop().wait()

        def noted_agree(otherwise: set[int]) -> set[int]:
            sums = usage._sum
            unused: set[int] = agree(otherwise)
            if sums is not None:
                self.used = sums[0].tolist()
            return unused

        def noted_expect(indices: Sequence[int]) -> None:
            self.is_static &= self._unused in (None, list(indices))
            self._unused = list(indices)
            expect(indices)

        reducer.finish = counted_finish
        usage.find_unused_everywhere, usage.expect_unused = noted_agree, noted_expect
        reducer._ddp_graph_static = lambda: self.is_static
        reducer._get_local_used_map = lambda: torch.tensor(
            self.used or usage.marks, dtype=torch.int32
        )
