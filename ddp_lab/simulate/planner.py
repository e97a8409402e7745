"""Plans of parallel training searched: which layers on which devices, each stage split its own way.

    plan = best_plan(layers, cluster, microbatches=16)
    for first, last, hosts, devices, dp, tp in plan: ...     # layers[first:last], dp * tp devices
    plan.cost, plan.breakdown, print(plan.why())

A plan cuts the layers into stages and gives each some devices of one host, or whole hosts; stages
take devices in order, none lies across the edge of a host, and devices may be left over at the
end. Within a stage, dp replicas share each micro-batch and tp neighbours each layer. A micro-batch
takes t_i seconds in stage i, both ways, with what the stage sends and its share of averaging the
gradients once a step. As in a pipeline without gaps but filling and draining, a step takes

    sum of t_i  +  (microbatches - 1) * max of t_i

For a limit on the maximum the least sum comes by dynamic programming over (layer, device, stages
that follow); the stages that follow say how many micro-batches a stage holds at once. A lower
limit never gives a lower sum, so that whole ranges of limits are ruled out at once, and the plan
that is left has the least cost of all.

May import: NumPy, arguments, cluster, errors, layers.
Source: Zheng et al., Alpa, OSDI 2022, section 5.2, for the objective and its dynamic program.
"""

import contextlib
import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from ddp_lab.arguments import check_count
from ddp_lab.errors import DoesNotFit, InvalidArgument
from ddp_lab.simulate.cluster import Cluster, Mesh
from ddp_lab.simulate.layers import BACKWARD, STATES, LayerCost, check_layers

Stage = tuple[int, int, int, int, int, int]  # first, last (one after), hosts, devices, dp, tp
Kind = tuple[int, int, bool, bool]  # hosts, devices; are its neighbours on the same host?
Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
TERMS = ("compute", "tensor_parallel", "transfers", "data_parallel")


class Plan(list[Stage]):
    """Stages in order, with what a step of them costs.

    Attributes:
        cost: seconds of a step.
        breakdown: seconds of the cost by what they go to; together the cost.
    """

    def __init__(self, stages: Sequence[Stage], problem: "_Problem") -> None:
        super().__init__(stages)
        self.cost, self.breakdown = problem.cost(self)
        self._problem = problem

    @cached_property
    def runner_up(self) -> "Plan | None":
        """The best plan with another number of stages, or with one stage split another way."""
        problem = self._problem
        others = [*_split_otherwise(self, problem)]
        other = _Search(problem).best(len(self))
        others += [] if other is None else [other]
        return min(others, key=lambda plan: plan.cost, default=None)

    def why(self) -> str:
        """Return in words what the plan costs, what comes next to it, and which term decided."""
        cost = f"{self.cost:.4g} s a step: {_shape(self)}."
        other = self.runner_up
        if other is None:
            return f"{cost} There is no other plan."
        more = {term: other.breakdown[term] - self.breakdown[term] for term in TERMS}
        term = max(more, key=more.__getitem__)
        return (
            f"{cost} Next: {other.cost:.4g} s, {_shape(other)}; what decides is "
            f"{term.replace('_', ' ')}: {other.breakdown[term]:.4g} s there, "
            f"{self.breakdown[term]:.4g} s here."
        )


def _shape(plan: Sequence[Stage]) -> str:
    words = [f"{last - first} on {h}x{d} (dp {dp}, tp {tp})" for first, last, h, d, dp, tp in plan]
    return "layers " + ", ".join(words)


def plans(layers: Sequence[LayerCost], cluster: Cluster) -> Iterator[list[Stage]]:
    """Yield all plans, whether they fit into memory or not; for small cases, there are many."""
    check_layers("plans", layers)

    def rest(first: int, start: int) -> Iterator[list[Stage]]:
        if first == len(layers):
            yield []
        for hosts, devices in _meshes(cluster, start):
            for last in range(first + 1, len(layers) + 1):
                for stages in rest(last, start + hosts * devices):
                    for dp, tp in _splits(hosts * devices):
                        yield [(first, last, hosts, devices, dp, tp), *stages]

    return rest(0, 0)


def plan_cost(
    plan: Sequence[Stage], layers: Sequence[LayerCost], cluster: Cluster, microbatches: int
) -> float:
    """Return the seconds of a step.

    Args:
        plan: stages `(first, last, hosts, devices, dp, tp)` of layers[first:last], in order.
        layers: the layers of a micro-batch of one sample; dp replicas take a share of it each.
        cluster: where it runs.
        microbatches: micro-batches of a step.

    Raises:
        DoesNotFit: a stage needs more memory than a device has; says which, and how much.
        InvalidArgument: the plan leaves a layer out or overlaps, or there are not such devices.
    """
    return plan_of(plan, layers, cluster, microbatches).cost


def plan_of(
    plan: Sequence[Stage], layers: Sequence[LayerCost], cluster: Cluster, microbatches: int
) -> Plan:
    """Return a plan of one's own with its cost and what it goes to; as `plan_cost`."""
    problem = _Problem(layers, cluster, microbatches, "plan_cost")
    problem.check(plan)
    return Plan(plan, problem)


def best_plan(layers: Sequence[LayerCost], cluster: Cluster, microbatches: int) -> Plan:
    """Return the plan of the least cost of all that fit; arguments are as for `plan_cost`.

    Raises:
        DoesNotFit: no plan fits into the devices' memory.
        InvalidArgument: no layer, or no such number of micro-batches.
    """
    problem = _Problem(layers, cluster, microbatches, "best_plan")
    plan = _Search(problem).best()
    if plan is None:
        raise _nothing_fits(problem)
    return plan


def _meshes(cluster: Cluster, start: int) -> Iterator[tuple[int, int]]:
    """Yield hosts and devices on each of the meshes that may begin at device `start`."""
    full = cluster.devices_per_host
    room = full - start % full
    if start < cluster.devices:
        yield from ((1, devices) for devices in range(1, min(room, full - 1) + 1))
        if room == full:
            yield from ((h, full) for h in range(1, cluster.hosts - start // full + 1))


def _splits(devices: int) -> Iterator[tuple[int, int]]:
    """Yield dp and tp whose product is the number of devices."""
    yield from ((devices // tp, tp) for tp in range(1, devices + 1) if devices % tp == 0)


class _Problem:
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
            if (hosts, devices) not in set(_meshes(self.cluster, start)):
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


class _Search:
    """Finds the best plan of a problem.

    A stage is looked up by its kind: its hosts and devices, and whether its neighbours before and
    after are on the same host. Of each kind there is the time of every run of layers, split as
    suits it best.
    """

    def __init__(self, problem: _Problem) -> None:
        self._problem = problem
        cluster, layers = problem.cluster, len(problem.layers)
        self._most = min(layers, cluster.devices)  # stages
        self._kinds: dict[Kind, list[tuple[Array, Array]]] = {}
        self._starts: list[list[tuple[int, Kind]]] = []
        full = cluster.devices_per_host
        for start in range(cluster.devices):
            self._starts.append([])
            for hosts, devices in _meshes(cluster, start):
                end = start + hosts * devices
                kind = (hosts, devices, start % full > 0, end % full > 0)
                if kind not in self._kinds:
                    splits = _splits(hosts * devices)
                    self._kinds[kind] = [self._option(hosts, devices, start, s) for s in splits]
                self._starts[-1].append((end, kind))
        tightest = min(float(held.min()) for held in self._held())
        self._binds = tightest < min(problem.microbatches, self._most)

    def _option(
        self, hosts: int, devices: int, start: int, split: tuple[int, int]
    ) -> tuple[Array, Array]:
        """Return seconds of each run of layers, and how many micro-batches it can hold."""
        mesh = Mesh(self._problem.cluster, hosts, devices, *split)
        seconds = np.sum(self._problem.terms(mesh, start), axis=0)
        held = self._problem.most_held(mesh)
        runs = np.tri(len(held)) > 0  # a run has a layer
        return np.where(runs, math.inf, seconds), np.where(runs, math.inf, held)

    def _held(self) -> Iterator[Array]:
        for options in self._kinds.values():
            yield from (held for _, held in options)

    def best(self, without: int = 0) -> Plan | None:
        """Return the best plan, or the best without so many stages; None if there is none."""
        by_stages = self._binds or without > 0
        times, eased = self._times(by_stages), self._times(by_stages=False)
        limits = np.unique(np.concatenate([t[np.isfinite(t)] for t in times.values()]))
        most = self._most if by_stages else None
        best: Plan | None = None
        repeat = self._problem.microbatches - 1
        ranges = [(0.0, 0, len(limits) - 1)] if len(limits) else []
        while ranges:
            bound, low, high = heapq.heappop(ranges)
            if best is not None:
                if bound >= best.cost:
                    break
                least = self._least(eased, limits[high], None)[0, 0, 0]
                if least + repeat * limits[low] >= best.cost:
                    continue
            table = self._least(times, limits[high], most)
            allowed = [s for s in range(len(table)) if not by_stages or s not in (0, without)]
            if not allowed:
                break  # only the number that is left out could be better
            stages = min(allowed, key=lambda s: table[s, 0, 0])
            least = float(table[stages, 0, 0])
            if not math.isfinite(least):
                continue  # nor is there one with a lower limit
            plan = Plan(list(self._walk(times, table, stages, limits[high])), self._problem)
            if best is None or plan.cost < best.cost:
                best = plan
                most = self._stages_below(best.cost) if by_stages else None
            middle = (low + high - 1) // 2
            for part in ((low, middle), (middle + 1, high - 1)):
                if part[0] <= part[1]:
                    heapq.heappush(ranges, (least + repeat * limits[part[0]], *part))
        return best

    def _stages_below(self, cost: float) -> int:
        """Return the most stages that a plan of less than `cost` can have.

        The slowest of n stages takes an nth of their sum or more.
        """
        counts = np.arange(1, len(self._sums) + 1)
        better = self._sums * (1 + (self._problem.microbatches - 1) / counts) < cost
        return int(counts[better].max(initial=1))

    @cached_property
    def _sums(self) -> Array:
        """The least sum of stage times by the number of stages, as far as memory is no matter."""
        return self._least(self._times(by_stages=False), math.inf, self._most)[1:, 0, 0]

    def _times(self, by_stages: bool) -> dict[Kind, Array]:
        """Return for each kind the seconds of each run of layers, its split chosen.

        With `by_stages` there is one matrix more for each number of stages from here to the end,
        for so many micro-batches are held at once; else as if one were.
        """
        most = self._most if by_stages else 1
        count = min(most, self._problem.microbatches)
        times = {}
        for kind, options in self._kinds.items():
            fit = [
                np.min([np.where(held >= h, t, math.inf) for t, held in options], axis=0)
                for h in range(1, count + 1)
            ]
            times[kind] = np.array(fit + [fit[-1]] * (most - count))
        return times

    def _least(self, times: Mapping[Kind, Array], limit: float, most: int | None) -> Array:
        """Return the least sum of stage times by stages, first layer and first device.

        No stage takes longer than `limit`. Without `most` the number of stages is not told apart.
        """
        layers, devices = len(self._problem.layers), self._problem.cluster.devices
        table = np.full(((most or 0) + 1, layers + 1, devices + 1), math.inf)
        table[0, layers] = 0.0
        within = {kind: np.where(t <= limit, t, math.inf) for kind, t in times.items()}
        for start in reversed(range(devices)):
            for end, kind in self._starts[start]:
                after = table[:-1, None, :, end] if most else table[:, None, :, end]
                place = table[1:, :, start] if most else table[:, :, start]
                np.minimum(place, (within[kind][:most] + after).min(axis=2), out=place)
        return table

    def _walk(
        self,
        times: Mapping[Kind, Array],
        table: Array,
        stages: int,
        limit: float,
    ) -> Iterator[Stage]:
        """Yield the stages that the least sum of `table` is made of."""
        layer = start = 0
        layers, told_apart = len(self._problem.layers), len(table) > 1
        while layer < layers:
            after = stages - 1 if told_apart else 0
            row = after if told_apart else 0
            choices = []
            for end, kind in self._starts[start]:
                seconds = times[kind][row, layer]
                sums = np.where(seconds <= limit, seconds, math.inf) + table[after, :, end]
                last = int(sums.argmin())
                choices.append((float(sums[last]), last, end, kind))
            _, last, end, kind = min(choices)
            yield self._stage(kind, layer, last, float(times[kind][row, layer, last]), stages)
            layer, start, stages = last, end, stages - 1

    def _stage(self, kind: Kind, first: int, last: int, seconds: float, stages: int) -> Stage:
        """Return the stage with the split that takes `seconds` and fits."""
        hosts, devices = kind[:2]
        held = min(self._problem.microbatches, max(stages, 1))
        splits = zip(_splits(hosts * devices), self._kinds[kind], strict=True)
        dp, tp = next(
            split
            for split, (times, most) in splits
            if times[first, last] == seconds and most[first, last] >= held
        )
        return first, last, hosts, devices, dp, tp


def _split_otherwise(plan: Sequence[Stage], problem: _Problem) -> Iterator[Plan]:
    """Yield the plans that split one stage of `plan` another way, and fit."""
    for number, (first, last, hosts, devices, dp, tp) in enumerate(plan):
        for split in _splits(hosts * devices):
            if split != (dp, tp):
                changed = [
                    *plan[:number],
                    (first, last, hosts, devices, *split),
                    *plan[number + 1 :],
                ]
                with contextlib.suppress(DoesNotFit):
                    yield Plan(changed, problem)


def _nothing_fits(problem: _Problem) -> DoesNotFit:
    """Return the error for a cluster without room, with the layer that needs most."""
    cluster, most = problem.cluster, problem.cluster.devices
    meshes = [
        Mesh(cluster, hosts, devices, *split)
        for hosts, devices in _meshes(cluster, 0)
        for split in _splits(hosts * devices)
    ]
    needs = [
        min(problem.over_bytes(mesh, layer, layer + 1, 1) for mesh in meshes)
        for layer in range(len(problem.layers))
    ]
    worst = max(range(len(needs)), key=needs.__getitem__)
    if needs[worst] > 0:
        about = f"layer {worst} alone is {needs[worst]:.0f} bytes over on the best mesh for it"
    else:
        about = "each layer fits somewhere, but not all of them together"
    return DoesNotFit(
        f"{problem.who}: no plan fits {cluster.memory_bytes:.4g} bytes a device on {most} devices: "
        f"{about}. Use more devices, more memory, or fewer micro-batches.",
        worst,
        max(0.0, needs[worst]),
    )


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
