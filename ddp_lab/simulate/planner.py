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

May import: cluster, errors, layers, plan_search, stage_costs.
Source: Zheng et al., Alpa, OSDI 2022, section 5.2, for the objective.
"""

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property

from ddp_lab.errors import DoesNotFit
from ddp_lab.simulate.cluster import Cluster, Mesh
from ddp_lab.simulate.layers import LayerCost, check_layers
from ddp_lab.simulate.plan_search import Search
from ddp_lab.simulate.stage_costs import TERMS, Stage, StageCosts, meshes, splits


class Plan(list[Stage]):
    """Stages in order, with what a step of them costs.

    Attributes:
        cost: seconds of a step.
        breakdown: seconds of the cost by what they go to; together the cost.
    """

    def __init__(self, stages: Sequence[Stage], costs: StageCosts) -> None:
        super().__init__(stages)
        self.cost, self.breakdown = costs.cost(self)
        self._costs = costs

    @cached_property
    def runner_up(self) -> "Plan | None":
        """The best plan with another number of stages, or with one stage split another way."""
        others = [*_split_otherwise(self, self._costs)]
        if (stages := Search(self._costs).best(without=len(self))) is not None:
            others.append(Plan(stages, self._costs))
        return min(others, key=lambda plan: plan.cost, default=None)

    def why(self) -> str:
        """Return in words what the plan costs, what comes next to it, and which term decided."""
        cost = f"{_in_ms(self.cost)} a step: {_shape(self)}."
        other = self.runner_up
        if other is None:
            return f"{cost} There is no other plan."
        more = {term: other.breakdown[term] - self.breakdown[term] for term in TERMS}
        term = max(more, key=more.__getitem__)
        return (
            f"{cost} Next: {_in_ms(other.cost)}, {_shape(other)}; what decides is "
            f"{term.replace('_', ' ')}: {_in_ms(other.breakdown[term])} there, "
            f"{_in_ms(self.breakdown[term])} here."
        )


def _in_ms(seconds: float) -> str:
    return f"{1e3 * seconds:.4g} ms"


def _shape(plan: Sequence[Stage]) -> str:
    words = [
        f"{last - first} on {hosts}x{devices} (replicas {dp}, shares {tp})"
        for first, last, hosts, devices, dp, tp in plan
    ]
    return "layers " + ", ".join(words)


def plans(layers: Sequence[LayerCost], cluster: Cluster) -> Iterator[list[Stage]]:
    """Yield all plans, whether they fit into memory or not; for small cases, there are many."""
    check_layers("plans", layers)

    def rest(first: int, start: int) -> Iterator[list[Stage]]:
        if first == len(layers):
            yield []
        for hosts, devices in meshes(cluster, start):
            for last in range(first + 1, len(layers) + 1):
                for stages in rest(last, start + hosts * devices):
                    for dp, tp in splits(hosts * devices):
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
    costs = StageCosts(layers, cluster, microbatches, "plan_cost")
    costs.check(plan)
    return Plan(plan, costs)


def best_plan(layers: Sequence[LayerCost], cluster: Cluster, microbatches: int) -> Plan:
    """Return the plan of the least cost of all that fit; arguments are as for `plan_cost`.

    Raises:
        DoesNotFit: no plan fits into the devices' memory.
        InvalidArgument: no layer, or no such number of micro-batches.
    """
    costs = StageCosts(layers, cluster, microbatches, "best_plan")
    stages = Search(costs).best()
    if stages is None:
        raise _nothing_fits(costs)
    return Plan(stages, costs)


def _split_otherwise(plan: Sequence[Stage], costs: StageCosts) -> Iterator[Plan]:
    """Yield the plans that split one stage of `plan` another way, and fit."""
    for number, (first, last, hosts, devices, dp, tp) in enumerate(plan):
        for split in splits(hosts * devices):
            if split != (dp, tp):
                changed = [
                    *plan[:number],
                    (first, last, hosts, devices, *split),
                    *plan[number + 1 :],
                ]
                with contextlib.suppress(DoesNotFit):
                    yield Plan(changed, costs)


def _nothing_fits(costs: StageCosts) -> DoesNotFit:
    """Return the error for a cluster without room, with the layer that needs most."""
    cluster, most = costs.cluster, costs.cluster.devices
    candidates = [
        Mesh(cluster, hosts, devices, *split)
        for hosts, devices in meshes(cluster, 0)
        for split in splits(hosts * devices)
    ]
    needs = [
        min(costs.over_bytes(mesh, layer, layer + 1, 1) for mesh in candidates)
        for layer in range(len(costs.layers))
    ]
    worst = max(range(len(needs)), key=needs.__getitem__)
    if needs[worst] > 0:
        about = f"layer {worst} alone is {needs[worst]:.0f} bytes over on the best mesh for it"
    else:
        about = "each layer fits somewhere, but not all of them together"
    return DoesNotFit(
        f"{costs.who}: no plan fits {cluster.memory_bytes:.4g} bytes a device on {most} devices: "
        f"{about}. Use more devices, more memory, or fewer micro-batches.",
        worst,
        max(0.0, needs[worst]),
    )
