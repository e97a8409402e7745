"""The teaching ladder: data-parallel training in five steps, each correct, each faster.

    1 EachParameter   after backward, one all-reduce a parameter
    2 OneFlat         after backward, one all-reduce for all
    3 Hooked          during backward, one all-reduce a parameter, from its hook
    4 Bucketed        during backward, one all-reduce a bucket
    5 Overlapped      the same, and backward goes on meanwhile

All are used alike, with torch and minitorch modules:

    model = Overlapped(module, comm)
    loss(model(x), y).backward()
    model.finish()                      # gradients are now averages over the ranks
    optimizer.step()

DistributedDataParallel is step 5 with what practice asks for besides.

May import: NumPy, bucketing, errors, launch_order, module_protocol.
Source: Li et al., PyTorch Distributed, VLDB 2020, section 3.2.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ddp_lab.data_parallel.bucketing import MIB, offsets, reverse_plan
from ddp_lab.data_parallel.errors import UnusedParameters
from ddp_lab.data_parallel.launch_order import LaunchOrder
from ddp_lab.data_parallel.module_protocol import (
    Array,
    Module,
    array_specs,
    fill,
    replace_grad,
    trainable,
    values,
)


class Replica:
    """A module that starts equal on all ranks; the steps of the ladder add how it stays so."""

    def __init__(self, module: Module, comm: Any) -> None:
        self.module = module
        self.comm = comm
        self.names, self.params = zip(*trainable(module), strict=True)
        for param in module.parameters():
            fill(param, comm.broadcast(values(param), root=0))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the module's output."""
        return self.module(*args, **kwargs)

    def parameters(self) -> Iterable[Any]:
        """Return the module's parameters."""
        return self.module.parameters()

    def finish(self) -> None:
        """Return once every gradient is the average over the ranks."""
        raise NotImplementedError(f"{type(self).__name__}.finish")

    def grad(self, index: int) -> Array:
        """Return the array of a parameter's gradient.

        Raises:
            UnusedParameters: backward has left it out; the other ranks would wait for it.
        """
        grad = self.params[index].grad
        if grad is None:
            name = self.names[index]
            raise UnusedParameters(f"finish: {name} has no gradient. Use it in the loss.", [name])
        return values(grad)


class EachParameter(Replica):
    """Step 1: n all-reduces after backward. Pays the latency of a message n times."""

    def finish(self) -> None:
        """Average the gradients one by one."""
        for index in range(len(self.params)):
            replace_grad(self.params[index], self.comm.all_reduce(self.grad(index), op="avg"))


class OneFlat(Replica):
    """Step 2: one all-reduce after backward. Pays latency once, and two copies; hides nothing."""

    def finish(self) -> None:
        """Average all gradients as one long vector."""
        grads = [self.grad(index) for index in range(len(self.params))]
        flat = self.comm.all_reduce(np.concatenate([g.reshape(-1) for g in grads]), op="avg")
        ends = np.cumsum([g.size for g in grads])
        for param, part in zip(self.params, np.split(flat, ends[:-1]), strict=True):
            replace_grad(param, part)


class Hooked(Replica):
    """Step 3: each gradient is averaged from its parameter's hook, in one order on all ranks.

    The hook is handed the *parameter*; its gradient is `param.grad`. To average the argument
    would average weights, and training would go on as if nothing had happened.
    """

    def __init__(self, module: Module, comm: Any, bucket_mb: float = 0.0) -> None:
        super().__init__(module, comm)
        self.specs = array_specs(zip(self.names, self.params, strict=True))
        self.buckets = reverse_plan(self.specs, [int(bucket_mb * MIB)]).buckets
        self.order = LaunchOrder(self.buckets)
        for index, param in enumerate(self.params):
            param.register_post_accumulate_grad_hook(self._hook(index))

    def _hook(self, index: int) -> Callable[[Any], None]:
        def on_ready(_param: Any) -> None:
            for bucket in self.order.mark(index):
                self.launch(bucket)

        return on_ready

    def launch(self, bucket: int) -> None:
        """Average the gradients of a bucket one by one, now; backward waits."""
        for index in self.buckets[bucket]:
            replace_grad(self.params[index], self.comm.all_reduce(self.grad(index), op="avg"))

    def finish(self) -> None:
        """Check that nothing was left out, and get ready for the next iteration."""
        if not self.order.complete:
            names = [self.names[index] for index in self.order.missing]
            raise UnusedParameters(
                f"finish: no gradient came for {', '.join(names)}. Use them in the loss.", names
            )
        self.order.reset()


class Bucketed(Hooked):
    """Step 4: gradients go into buckets, last layer first; a full bucket is averaged at once."""

    def __init__(self, module: Module, comm: Any, bucket_mb: float = 25.0) -> None:
        super().__init__(module, comm, bucket_mb)
        self.starts = [offsets(self.specs, bucket) for bucket in self.buckets]
        self.flats = [
            comm.empty((starts[-1],), values(self.params[bucket[0]]).dtype)
            for bucket, starts in zip(self.buckets, self.starts, strict=True)
        ]

    def launch(self, bucket: int) -> None:
        """Copy the gradients in, average, copy them out."""
        self.fill(bucket)
        self.comm.all_reduce(self.flats[bucket], op="avg", out=self.flats[bucket])
        self.empty_out(bucket)

    def fill(self, bucket: int) -> None:
        """Copy the bucket's gradients into its flat buffer."""
        for index, part in self._parts(bucket):
            part[...] = self.grad(index).reshape(-1)

    def empty_out(self, bucket: int) -> None:
        """Make the averages the gradients."""
        for index, part in self._parts(bucket):
            replace_grad(self.params[index], part)

    def _parts(self, bucket: int) -> Iterable[tuple[int, Array]]:
        flat, starts = self.flats[bucket], self.starts[bucket]
        for position, index in enumerate(self.buckets[bucket]):
            yield index, flat[starts[position] : starts[position + 1]]


class Overlapped(Bucketed):
    """Step 5: a full bucket is sent off, and backward goes on with the layers below."""

    def __init__(self, module: Module, comm: Any, bucket_mb: float = 25.0) -> None:
        super().__init__(module, comm, bucket_mb)
        self.works: list[tuple[int, Any]] = []

    def launch(self, bucket: int) -> None:
        """Start averaging; another thread does it."""
        self.fill(bucket)
        flat = self.flats[bucket]
        self.works.append((bucket, self.comm.all_reduce(flat, op="avg", async_op=True, out=flat)))

    def finish(self) -> None:
        """Wait for the buckets in turn."""
        super().finish()
        for bucket, work in self.works:
            work.wait()
            self.empty_out(bucket)
        self.works.clear()


LADDER = (EachParameter, OneFlat, Hooked, Bucketed, Overlapped)
