"""What a stage of a plan takes: seconds of a micro-batch, and memory, for each run of layers.

All stages of all plans are looked at, so that everything here is a matrix: by the first layer of a
stage and the one after its last.

May import: NumPy, arguments, cluster, errors, layers.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ddp_lab.arguments import check_count
from ddp_lab.errors import DoesNotFit, InvalidArgument
from ddp_lab.simulate.cluster import Cluster, Mesh
from ddp_lab.simulate.layers import BACKWARD, STATES, LayerCost, check_layers

Stage = tuple[int, int, int, int, int, int]  # first, last (one after), hosts, devices, dp, tp
Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
TERMS = ("compute", "tensor_parallel", "transfers", "data_parallel")


def meshes(cluster: Cluster, start: int) -> Iterator[tuple[int, int]]:
    """Yield hosts and devices on each of the meshes that may begin at device `start`."""
    full = cluster.devices_per_host
    room = full - start % full
    if start < cluster.devices:
        yield from ((1, devices) for devices in range(1, min(room, full - 1) + 1))
        if room == full:
            yield from ((h, full) for h in range(1, cluster.hosts - start // full + 1))


def splits(devices: int) -> Iterator[tuple[int, int]]:
    """Yield dp and tp whose product is the number of devices."""
    yield from ((devices // tp, tp) for tp in range(1, devices + 1) if devices % tp == 0)


class StageCosts:
    """Layers, a cluster and a number of micro-batches, with sums over runs of layers at hand."""

    def __init__(
        self, layers: Sequence[LayerCost], cluster: Cluster, microbatches: int, who: str
    ) -> None:
        check_layers(who, layers)
        check_count(who, "microbatches", microbatches)
        self.who, self.layers, self.cluster = who, layers, cluster
        self.microbatches = microbatches
        self._flops = _until([layer.flops for layer in layers])
        self._params = _until([layer.param_bytes for layer in layers])
        self._outputs = np.array([layer.activation_bytes for layer in layers])
        self._kept = _until(list(self._outputs))

    def terms(self, mesh: Mesh, start: int) -> list[Array]:
        """Return a matrix for each of `TERMS`: seconds of a micro-batch, by first and last layer.

        `start` is the first device of the stage.
        """
        full, share = self.cluster.devices_per_host, 1 / mesh.dp
        end = start + mesh.hosts * mesh.devices
        between = self._outputs[:-1] * share
        on, back = (
            np.array([0.0, *(mesh.to_next_stage(n, edge % full > 0) for n in between), 0.0])
            for edge in (end, start)
        )
        tensor = _until([mesh.tensor(n) for n in self._outputs * share])
        compute = _runs(self._flops) * (share / mesh.tp * (1 + BACKWARD) / self.cluster.flops)
        averaged = _each(lambda n: mesh.data("all_reduce", n), _runs(self._params) / mesh.tp)
        return [
            compute,
            2 * _runs(tensor),
            on[None, :] + back[:, None],
            averaged / self.microbatches,
        ]

    def most_held(self, mesh: Mesh) -> Array:
        """Return how many micro-batches a stage can hold at once, by first and last layer."""
        states = STATES * _runs(self._params) / mesh.tp
        room = self.cluster.memory_bytes - states
        kept_bytes = _runs(self._kept) / mesh.dp
        with np.errstate(divide="ignore", invalid="ignore"):
            held = np.where(kept_bytes > 0, np.floor(room / kept_bytes), math.inf)
        return np.where(room < 0, 0.0, held)

    def over_bytes(self, mesh: Mesh, first: int, last: int, held: int) -> float:
        """Return how many bytes too much a device of the stage needs; below 0 it has room."""
        states = STATES * (self._params[last] - self._params[first]) / mesh.tp
        kept_bytes = (self._kept[last] - self._kept[first]) / mesh.dp
        return float(states + held * kept_bytes - self.cluster.memory_bytes)

    def check(self, plan: Sequence[Stage]) -> None:
        """Raise InvalidArgument unless each layer is in one stage, on devices that are there."""
        layer = start = 0
        for number, stage in enumerate(plan):
            first, last, hosts, devices, dp, tp = stage
            if first != layer or not first < last <= len(self.layers):
                raise self._wrong(number, stage, f"layers from {layer} on, one or more")
            if (hosts, devices) not in set(meshes(self.cluster, start)):
                raise self._wrong(number, stage, f"devices of one host, or hosts, from {start} on")
            if dp * tp != hosts * devices or dp < 1:
                raise self._wrong(number, stage, f"dp * tp = {hosts * devices}")
            layer, start = last, start + hosts * devices
        if layer != len(self.layers):
            raise InvalidArgument(
                f"{self.who}: the plan ends early: got {layer} layers, expected "
                f"{len(self.layers)}. Each layer is in one stage."
            )

    def _wrong(self, number: int, stage: Stage, expected: str) -> InvalidArgument:
        return InvalidArgument(
            f"{self.who}: stage {number} cannot be: got {tuple(stage)}, expected {expected}. "
            "A stage is (first, last, hosts, devices, dp, tp), its layers first to last - 1."
        )

    def cost(self, plan: Sequence[Stage]) -> tuple[float, Mapping[str, float]]:
        """Return the seconds of a step, and what they go to.

        Raises:
            DoesNotFit: a stage needs too much memory.
        """
        start, spent = 0, []
        for number, (first, last, hosts, devices, dp, tp) in enumerate(plan):
            mesh = Mesh(self.cluster, hosts, devices, dp, tp)
            held = min(self.microbatches, len(plan) - number)
            over = self.over_bytes(mesh, first, last, held)
            if over > 0:
                raise DoesNotFit(
                    f"{self.who}: stage {number} does not fit: {over:.0f} bytes over on each "
                    f"device, with {held} micro-batch{'es' * (held > 1)} at once, expected at most "
                    f"{self.cluster.memory_bytes:.4g}. Use more stages or a larger tp.",
                    number,
                    over,
                )
            spent.append([float(term[first, last]) for term in self.terms(mesh, start)])
            start += hosts * devices
        slowest = max(spent, key=sum)
        times = self.microbatches - 1
        whole = [sum(every) + times * most for *every, most in zip(*spent, slowest, strict=True)]
        total = sum(map(sum, spent)) + times * sum(slowest)
        return total, dict(zip(TERMS, whole, strict=True))


def _until(values: Sequence[float] | Array) -> Array:
    """Return the sums of the first 0, 1, 2, ... values."""
    return np.concatenate([[0.0], np.cumsum(np.asarray(values, dtype=float))])


def _runs(until: Array) -> Array:
    """Return the sum of each run of values, by its first and the one after its last."""
    return np.maximum(until[None, :] - until[:, None], 0.0)


def _each(seconds: Callable[[float], float], values: Array) -> Array:
    """Return the function of each value, computed once for each that is there."""
    different, where = np.unique(values, return_inverse=True)
    return np.array([seconds(float(v)) for v in different])[where].reshape(values.shape)
