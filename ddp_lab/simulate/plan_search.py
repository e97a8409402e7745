"""The search for the best plan: dynamic programming below a limit on the slowest stage.

For a limit on the maximum the least sum comes by dynamic programming over (layer, device, stages
that follow); the stages that follow say how many micro-batches a stage holds at once. A lower
limit never gives a lower sum, so that whole ranges of limits are ruled out at once, and the plan
that is left has the least cost of all.

May import: NumPy, cluster, stage_costs.
Source: Zheng et al., Alpa, OSDI 2022, section 5.2.
"""

import heapq
import math
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from ddp_lab.simulate.cluster import Mesh
from ddp_lab.simulate.stage_costs import Array, Stage, StageCosts, meshes, splits

Kind = tuple[int, int, bool, bool]  # hosts, devices; are its neighbours on the same host?


class Search:
    """Finds the best plan for some layers on a cluster.

    A stage is looked up by its kind: its hosts and devices, and whether its neighbours before and
    after are on the same host. Of each kind there is the time of every run of layers, split as
    suits it best.
    """

    def __init__(self, costs: StageCosts) -> None:
        self._costs = costs
        cluster, layers = costs.cluster, len(costs.layers)
        self._most = min(layers, cluster.devices)  # stages
        self._kinds: dict[Kind, list[tuple[Array, Array]]] = {}
        self._starts: list[list[tuple[int, Kind]]] = []
        full = cluster.devices_per_host
        for start in range(cluster.devices):
            self._starts.append([])
            for hosts, devices in meshes(cluster, start):
                end = start + hosts * devices
                kind = (hosts, devices, start % full > 0, end % full > 0)
                if kind not in self._kinds:
                    self._kinds[kind] = [
                        self._option(hosts, devices, start, split)
                        for split in splits(hosts * devices)
                    ]
                self._starts[-1].append((end, kind))
        tightest = min(float(held.min()) for kind in self._kinds.values() for _, held in kind)
        self._binds = tightest < min(costs.microbatches, self._most)

    def _option(
        self, hosts: int, devices: int, start: int, split: tuple[int, int]
    ) -> tuple[Array, Array]:
        """Return seconds of each run of layers, and how many micro-batches it can hold."""
        mesh = Mesh(self._costs.cluster, hosts, devices, *split)
        seconds = np.sum(self._costs.terms(mesh, start), axis=0)
        held = self._costs.most_held(mesh)
        runs = np.tri(len(held)) > 0  # a run has a layer
        return np.where(runs, math.inf, seconds), np.where(runs, math.inf, held)

    def best(self, without: int = 0) -> list[Stage] | None:
        """Return the best plan, or the best without so many stages; None if there is none."""
        by_stages = self._binds or without > 0
        times, eased = self._times(by_stages), self._times(by_stages=False)
        limits = np.unique(np.concatenate([t[np.isfinite(t)] for t in times.values()]))
        most = self._most if by_stages else None
        best: list[Stage] | None = None
        best_cost = math.inf
        repeat = self._costs.microbatches - 1
        ranges = [(0.0, 0, len(limits) - 1)] if len(limits) else []
        while ranges:
            bound, low, high = heapq.heappop(ranges)
            if best is not None:
                if bound >= best_cost:
                    break
                least = self._least(eased, limits[high], None)[0, 0, 0]
                if least + repeat * limits[low] >= best_cost:
                    continue
            table = self._least(times, limits[high], most)
            allowed = [s for s in range(len(table)) if not by_stages or s not in (0, without)]
            if not allowed:
                break  # only the number that is left out could be better
            stages = min(allowed, key=lambda s: table[s, 0, 0])
            least = float(table[stages, 0, 0])
            if not math.isfinite(least):
                continue  # nor is there one with a lower limit
            plan = list(self._walk(times, table, stages, limits[high]))
            cost, _ = self._costs.cost(plan)
            if cost < best_cost:
                best, best_cost = plan, cost
                most = self._stages_below(cost) if by_stages else None
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
        better = self._sums * (1 + (self._costs.microbatches - 1) / counts) < cost
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
        count = min(most, self._costs.microbatches)
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
        layers, devices = len(self._costs.layers), self._costs.cluster.devices
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
        self, times: Mapping[Kind, Array], table: Array, stages: int, limit: float
    ) -> Iterator[Stage]:
        """Yield the stages that the least sum of `table` is made of."""
        layer = start = 0
        layers, told_apart = len(self._costs.layers), len(table) > 1
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
        held = min(self._costs.microbatches, max(stages, 1))
        options = zip(splits(hosts * devices), self._kinds[kind], strict=True)
        dp, tp = next(
            split
            for split, (times, most) in options
            if times[first, last] == seconds and most[first, last] >= held
        )
        return first, last, hosts, devices, dp, tp
