"""Checks of lab 14. Costs are made up here: no check depends on how fast a machine is."""

import itertools
import math
from dataclasses import replace

import numpy as np

from autograder.checks import RANK_SETTINGS, Feedback, check, to_number

WITHHELD = (
    *(f"ddp_lab.simulate.planner:{name}" for name in ("plan_cost", "plan_of", "best_plan")),
    "ddp_lab.simulate.stage_costs:StageCosts",
)
LAB = replace(RANK_SETTINGS, preload=("numpy", "ddp_lab"), withheld=WITHHELD)


def is_near(got, expected, rel=1e-9):
    """Return whether a number is another, but for rounding; NaN is near nothing."""
    return abs(to_number(got) - expected) <= rel * abs(expected) + 1e-15


def draw_graph(rng, nodes, readers=2):
    """Return a graph in which each node reads some of those before it; names are in no order."""
    graph = {}
    for i, number in enumerate(rng.permutation(nodes)):
        before = list(graph)
        count = min(len(before), int(rng.integers(0 if i < 2 else 1, readers + 1)))
        inputs = (
            tuple(str(name) for name in rng.choice(before, count, replace=False)) if before else ()
        )
        graph[f"n{number}"] = (
            float(rng.integers(1, 9)) / 1000,
            int(rng.integers(1, 30)) * 100_000,
            inputs,
        )
    return graph


def leaves_arguments(name, arguments):
    """Return whether a function of the learner leaves what it is given as it was."""
    import copy

    before = copy.deepcopy(arguments)
    globals()[name](*arguments)
    return arguments == before


def require_left_alone(student, name, *arguments):
    """Raise Feedback where a function changes what it is given."""
    if not student.probe(leaves_arguments, name=name, arguments=list(arguments)):
        hint = "Who asks needs it again. Which of your lines takes from it, sorts it or adds to it?"
        raise Feedback(f"{name} changed what it was given.", hint=hint)


def draw_placement(rng, graph, devices):
    return {node: int(rng.integers(devices)) for node in graph}


def list_crossings(graph, where):
    """Return the pairs of a value and a device that it is sent to."""
    return {
        (value, where[node])
        for node, (_, _, inputs) in graph.items()
        for value in inputs
        if where[value] != where[node]
    }


# ---- 1. cut_bytes


@check("cut_bytes")
def one_edge_that_crosses_costs_the_bytes_of_its_value(student, rng):
    """an edge inside a device is free, one that crosses costs the bytes of the value at its tail"""
    a, b = (int(n) for n in rng.integers(100, 999, size=2))
    graph = {"a": (0.1, a, ()), "b": (0.1, b, ("a",))}
    for where, expected in (({"a": 0, "b": 1}, a), ({"a": 3, "b": 1}, a), ({"a": 0, "b": 0}, 0)):
        got = student.call("cut_bytes", graph, where)
        if not is_near(got, expected):
            hint = "Which of the two nodes makes the value that travels?"
            if not expected:
                hint = "Nothing crosses now. What is left over from a call before?"
            raise Feedback(
                f"b reads a, devices {where}: got {got} bytes, expected {expected}. {hint}"
            )


@check("cut_bytes", weight=2, requires="one_edge_that_crosses_costs_the_bytes_of_its_value")
def a_value_goes_once_to_each_device(student, rng):
    """a value is sent once to each device that reads it, however many nodes there do"""
    n = int(rng.integers(100, 999))
    readers = {f"r{i}": (0.1, 7, ("a",)) for i in range(4)}
    graph = {"a": (0.1, n, ()), **readers}
    where = {"a": 0, "r0": 1, "r1": 1, "r2": 2, "r3": 0}
    got = student.call("cut_bytes", graph, where)
    if not is_near(got, 2 * n):
        hint = "How many different devices, other than a's own, need it?"
        if is_near(got, 3 * n):
            hint = "Two readers on one device share one message."
        elif is_near(got, n):
            hint = "A second device needs a message of its own."
        raise Feedback(
            f"a of {n} bytes on device 0, read twice on 1, once on 2 and once on 0: got {got}. {hint}"
        )


@check("cut_bytes", hidden=True, requires="a_value_goes_once_to_each_device")
def any_graph_on_any_devices(student, rng):
    """any graph, three devices, a value that one node reads twice, and two of a size"""
    graph = draw_graph(rng, 9, readers=3)
    graph["n1"] = graph["n0"][:2] + graph["n1"][2:]
    graph["twice"] = (0.001, 5, ("n0", "n0", "n1"))
    where = draw_placement(rng, graph, 3) | {"n0": 0, "n1": 0, "twice": 1}
    expected = sum(graph[value][1] for value, _ in list_crossings(graph, where))
    if not is_near(student.call("cut_bytes", graph, where), expected):
        raise Feedback(
            "a drawn graph: wrong.", hint="Count pairs of a value and a device, each once."
        )


@check("cut_bytes", hidden=True, requires="a_value_goes_once_to_each_device")
def graph_and_placement_stay_as_they_are(student, rng):
    """the graph and the placement are the same after the call"""
    graph = draw_graph(rng, 5)
    require_left_alone(student, "cut_bytes", graph, draw_placement(rng, graph, 2))


# ---- 2. makespan


def run_placement(graph, where, alpha, beta, *, waits=True, sends=True):
    """Return when the last node is done."""
    ends, free = {}, {}
    for node, (seconds, _, inputs) in graph.items():
        here, start = where[node], 0.0
        if waits:
            start = free.get(where[node], 0.0)
        for value in inputs:
            away = where[value] != here and sends
            start = max(start, ends[value] + (alpha + beta * graph[value][1] if away else 0.0))
        ends[node] = free[here] = start + seconds
    return max(ends.values(), default=0.0)


READY = "When is its device free, and when has the last of its inputs arrived?"


def compare_end(student, graph, where, alpha, beta, what, hint=READY):
    """Compare, and say what is missing where that can be told."""
    got, expected = (
        student.call("makespan", graph, where, alpha, beta),
        run_placement(graph, where, alpha, beta),
    )
    if is_near(got, expected):
        return
    if is_near(got, run_placement(graph, where, alpha, beta, waits=False)):
        hint = "A device does one node at a time."
    elif is_near(got, run_placement(graph, where, alpha, beta, sends=False)):
        hint = "A value of another device takes time to arrive."
    elif is_near(got, run_placement(graph, where, 0.0, beta)):
        hint = "Each message also pays alpha."
    elif is_near(got, run_placement(graph, where, alpha, 0.0)):
        hint = "A message takes longer the more bytes it has."
    raise Feedback(f"{what}: got {got:.6g} s, expected {expected:.6g} s. {hint}")


@check("makespan")
def one_device_does_one_node_after_another(student, rng):
    """on one device the nodes' seconds add up"""
    graph = draw_graph(rng, 6)
    compare_end(student, graph, dict.fromkeys(graph, 0), 1e-3, 1e-9, "6 nodes on one device")


@check("makespan", weight=2, requires="one_device_does_one_node_after_another")
def what_is_apart_runs_at_the_same_time_and_messages_take_theirs(student, rng):
    """devices work at the same time, and what crosses arrives alpha + beta * bytes later"""
    n = int(rng.integers(1, 9)) * 100_000
    graph = {"a": (0.002, n, ()), "b": (0.003, n, ()), "c": (0.004, n, ("a", "b"))}
    where = {"a": 0, "b": 1, "c": 0}
    compare_end(student, graph, where, 1e-3, 1e-8, "a and c on device 0, b on 1, c reads both")
    where = {"a": 0, "b": 0, "c": 1}
    compare_end(student, graph, where, 1e-3, 1e-8, "a and b on device 0, c on 1 reads both")


@check("makespan", requires="what_is_apart_runs_at_the_same_time_and_messages_take_theirs")
def the_last_node_of_all_ends_it(student, rng):
    """the end is that of the node that is done last, which need not be the last in order"""
    graph = {"long": (0.5, 10, ()), "short": (0.001, 10, ())}
    where, what = {"long": 0, "short": 1}, "a long and a short node apart"
    hint = "The short one stands last, and ends first. When is the whole done?"
    compare_end(student, graph, where, 1e-3, 1e-9, what, hint)


@check("makespan", hidden=True, requires="the_last_node_of_all_ends_it")
def any_graph_is_played_through(student, rng):
    """drawn graphs on three devices"""
    for _ in range(4):
        graph = draw_graph(rng, 10, readers=3)
        where = draw_placement(rng, graph, 3)
        got = student.call("makespan", graph, where, 2e-3, 3e-9)
        if not is_near(got, run_placement(graph, where, 2e-3, 3e-9)):
            raise Feedback("a drawn graph: wrong.", hint="Take its nodes one by one on paper.")


@check("makespan", hidden=True, requires="the_last_node_of_all_ends_it")
def a_graph_can_be_run_again(student, rng):
    """the graph and the placement are the same after the call"""
    graph = draw_graph(rng, 5)
    require_left_alone(student, "makespan", graph, draw_placement(rng, graph, 2), 1e-3, 1e-9)


def compute_ranks(graph, where, alpha, beta, *, own=True, sends=True, far=max):
    """Return the rank of each node."""
    ranks = {}
    for node in reversed(list(graph)):
        behind = []
        for reader in ranks:
            if node in graph[reader][2]:
                away = sends and where[reader] != where[node]
                behind.append(ranks[reader] + (alpha + beta * graph[node][1] if away else 0.0))
        ranks[node] = (graph[node][0] if own else 0.0) + (far(behind) if behind else 0.0)
    return ranks


def find_readers(graph, node):
    return ", ".join(reader for reader in graph if node in graph[reader][2]) or "nobody"


def compare_ranks(student, graph, where, alpha, beta, what):
    """Compare, and say what is missing where that can be told."""
    got = student.call("upward_rank", graph, where, alpha, beta)
    expected = compute_ranks(graph, where, alpha, beta)
    if not isinstance(got, dict) or set(got) != set(expected):
        raise Feedback("upward_rank should return a dict with each node of the graph.")

    def all_near(other):
        return all(is_near(got[node], other[node]) for node in expected)

    if all_near(expected):
        return
    hint = "Begin with the nodes that nobody reads, and go back from there."
    if all_near(compute_ranks(graph, where, alpha, beta, sends=False)):
        hint = "A reader on another device begins later: by what?"
    elif all_near(compute_ranks(graph, where, alpha, beta, own=False)):
        hint = "Does a node's own time count?"
    elif all_near(compute_ranks(graph, where, alpha, beta, far=sum)):
        hint = "Readers run beside each other. Which of the ways behind a node counts?"
    elif all_near(compute_ranks(graph, dict(zip(graph, range(len(graph)))), alpha, beta)):
        hint = "Is there a message to a reader on the same device?"
    elif all_near({node: graph[node][0] for node in graph}):
        hint = "That is the node itself. What can begin only after it?"
    node = next(node for node in reversed(graph) if not is_near(got[node], expected[node]))
    raise Feedback(
        f"upward_rank, {what}: {node} is {graph[node][0]:g} s long, read by {find_readers(graph, node)}: "
        f"got {float(got[node]):.6g}, expected {expected[node]:.6g}. {hint}"
    )


@check("upward_rank", weight=2)
def a_rank_is_the_longest_way_to_the_end(student, rng):
    """on one device a node's rank is its own time and the longest way behind it"""
    for _ in range(2):
        graph = draw_graph(rng, 7)
        compare_ranks(student, graph, dict.fromkeys(graph, 0), 1e-3, 1e-9, "on one device")


@check("upward_rank", weight=2)
def a_message_lies_on_the_way_to_another_device(student, rng):
    """a reader on another device is further away, by alpha and its bytes"""
    for _ in range(2):
        graph = draw_graph(rng, 8)
        where = draw_placement(rng, graph, 2)
        compare_ranks(student, graph, where, 2e-3, 3e-9, "on two devices")


def calls_of_ranks(graph, where, most):
    """Return the ranks, or None where `upward_rank` makes more than `most` calls."""
    import sys

    calls, before = 0, sys.getprofile()

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"
        if calls > most:
            raise RuntimeError("too many calls")

    sys.setprofile(count)
    try:
        return upward_rank(graph, where, 1e-3, 1e-9)
    except RuntimeError:
        if calls <= most:
            raise
        return None
    finally:
        sys.setprofile(before)


@check("upward_rank", requires="a_rank_is_the_longest_way_to_the_end")
def each_rank_is_worked_out_once(student, rng):
    """a graph of many paths is no more work than one of few"""
    graph = {"a0": (0.001, 10, ()), "b0": (0.002, 10, ())}
    for i in range(1, 25):
        for name in "ab":
            seconds = float(rng.integers(1, 9)) / 1000
            graph[f"{name}{i}"] = (seconds, 10, (f"a{i - 1}", f"b{i - 1}"))
    where, most = dict.fromkeys(graph, 0), 100_000
    got = student.probe(calls_of_ranks, graph=graph, where=where, most=most)
    if got is None:
        raise Feedback(
            f"upward_rank of {len(graph)} nodes, each read by the next two, makes more than "
            f"{most:,} calls.",
            hint="2**24 ways lead from the first to the last. How often is one node's rank worked "
            "out, and where could it be looked up?",
        )
    if not is_near(got["a0"], compute_ranks(graph, where, 1e-3, 1e-9)["a0"]):
        raise Feedback("upward_rank of 25 pairs of nodes: the first node's rank is another.")


@check("upward_rank", hidden=True, requires="a_message_lies_on_the_way_to_another_device")
def an_input_read_twice_and_a_graph_of_one_node(student, rng):
    """a value read twice by a node, three devices, a single node; the graph is the same after it"""
    graph = draw_graph(rng, 6, readers=3)
    require_left_alone(student, "upward_rank", graph, dict.fromkeys(graph, 0), 1e-3, 1e-9)
    graph["twice"] = (0.001, 5, ("n0", "n0"))
    try:
        compare_ranks(student, graph, draw_placement(rng, graph, 3), 1e-3, 1e-9, "drawn")
        compare_ranks(student, {"a": (0.5, 10, ())}, {"a": 2}, 1e-3, 1e-9, "one node")
    except Feedback as told:
        raise Feedback(str(told), hint="How many ways lead from a node to one reader?") from told


# ---- 3. best_placement


def find_least(graph, devices, alpha, beta):
    """Return the least makespan of all placements."""
    choices = itertools.product(range(devices), repeat=len(graph))
    return min(run_placement(graph, dict(zip(graph, c, strict=True)), alpha, beta) for c in choices)


def ask_placement(student, graph, devices, alpha, beta):
    """Return the learner's placement, once it is one."""
    where = student.call("best_placement", graph, devices, alpha, beta)
    if not isinstance(where, dict) or set(where) != set(graph):
        raise Feedback(
            f"best_placement should return a dict with a device for each node: got {where!r:.200}."
        )
    wrong = next((d for d in where.values() if d not in range(devices)), None)
    if wrong is not None:
        raise Feedback(f"best_placement used device {wrong!r}; there are 0 to {devices - 1}.")
    return {node: int(device) for node, device in where.items()}


@check("best_placement", weight=2)
def nothing_is_better_on_drawn_graphs(student, rng):
    """no placement on two devices has a smaller makespan"""
    for alpha, beta in ((1e-4, 1e-10), (1e-3, 3e-9), (5e-3, 1e-8)):
        graph = draw_graph(rng, 7)
        where = ask_placement(student, graph, 2, alpha, beta)
        got, expected = run_placement(graph, where, alpha, beta), find_least(graph, 2, alpha, beta)
        if not is_near(got, expected):
            hint = "Is every one of the 2**7 placements looked at, and by its makespan?"
            if is_near(got, sum(seconds for seconds, _, _ in graph.values())):
                hint = "All on one device is one of the placements, and not the best of these."
            raise Feedback(
                f"7 nodes, 2 devices, alpha {alpha:g}, beta {beta:g}: your placement takes {got:.5g} "
                f"s, the best one {expected:.5g} s. {hint}"
            )


@check("best_placement", requires="nothing_is_better_on_drawn_graphs")
def a_slow_link_keeps_it_together(student, rng):
    """with a link that is slow enough one device does it all"""
    graph = {"a": (0.01, 1000, ()), "b": (0.01, 1000, ()), "c": (0.01, 1000, ("a", "b"))}
    for alpha, beta in ((10.0, 1.0), (10.0, 0.0), (0.0, 1.0)):
        where = ask_placement(student, graph, 2, alpha, beta)
        if len(set(where.values())) != 1:
            message_s = alpha + 1000 * beta
            raise Feedback(
                f"a message of {message_s:g} s, nodes of 10 ms, alpha {alpha:g}, beta {beta:g}: got "
                f"{where}. What does one message cost?"
            )


@check("best_placement", hidden=True, requires="nothing_is_better_on_drawn_graphs")
def three_devices_are_used_where_they_help(student, rng):
    """three devices, and graphs that need all of them"""
    graph = {f"n{i}": (float(rng.integers(2, 5)) / 1000, 10, ()) for i in range(6)}
    where = ask_placement(student, graph, 3, 1e-5, 1e-10)
    if not is_near(run_placement(graph, where, 1e-5, 1e-10), find_least(graph, 3, 1e-5, 1e-10)):
        raise Feedback("three devices: there is a better one.", hint="Are there devices ** nodes?")


# ---- 4. stage_seconds, best_split


def time_ring(n_bytes, ranks, alpha, beta):
    return 2 * (ranks - 1) * (alpha + n_bytes / ranks * beta) if ranks > 1 and n_bytes else 0.0


def time_stage(layers, dp, tp, m, speed, alpha, beta):
    compute = sum(3 * flops for flops, _, _ in layers) / (dp * tp * speed)
    outputs = sum(2 * time_ring(out / dp, tp, alpha, beta) for _, _, out in layers)
    gradients = time_ring(sum(p for _, p, _ in layers) / tp, dp, alpha, beta)
    return compute + outputs + gradients / m


def draw_layers(rng, count):
    return [
        (
            float(rng.uniform(1, 9)) * 1e11,
            float(rng.uniform(1, 9)) * 1e7,
            float(rng.uniform(1, 9)) * 1e6,
        )
        for _ in range(count)
    ]


LINK = (1e14, 1e-5, 1e-10)  # speed, alpha, beta


def compare_stage(student, layers, dp, tp, m, hints):
    got, expected = (
        student.call("stage_seconds", layers, dp, tp, m, *LINK),
        time_stage(layers, dp, tp, m, *LINK),
    )
    if is_near(got, expected):
        return
    hint = next(
        (explanation for value, explanation in hints if is_near(got, value)),
        "Take the three parts one by one.",
    )
    raise Feedback(
        f"stage_seconds of {len(layers)} layers, dp {dp}, tp {tp}, {m} micro-batches: got "
        f"{got:.6g}, expected {expected:.6g}. {hint}"
    )


@check("stage_seconds")
def compute_is_three_times_forward_over_all_devices(student, rng):
    """without communication: forward and twice as much backward, over dp * tp devices"""
    layers = [(flops, 0.0, 0.0) for flops, _, _ in draw_layers(rng, 3)]
    for dp, tp in ((1, 1), (2, 4)):
        expected = time_stage(layers, dp, tp, 4, *LINK)
        hints = [
            (expected / 3, "That is forward. Backward takes twice as long as forward."),
            (expected * 2 / 3, "That is backward. Forward comes before it."),
            (expected * dp * tp, "All devices of the stage work at the same time."),
            (expected * tp, "The tp devices share each layer."),
            (expected * dp, "The dp replicas share the sample."),
        ]
        compare_stage(student, layers, dp, tp, 4, hints)


@check("stage_seconds", weight=2, requires="compute_is_three_times_forward_over_all_devices")
def outputs_are_all_reduced_both_ways(student, rng):
    """tp: an all-reduce of each layer's output in forward and in backward, of a replica's share"""
    layers = [(flops, 0.0, out) for flops, _, out in draw_layers(rng, 3)]
    for dp, tp in ((1, 4), (2, 2)):
        compute = sum(3 * f for f, _, _ in layers) / (dp * tp * LINK[0])
        rings = [time_ring(out / dp, tp, *LINK[1:]) for _, _, out in layers]
        whole_rings = [time_ring(out, tp, *LINK[1:]) for _, _, out in layers]
        together = 2 * time_ring(sum(out for _, _, out in layers) / dp, tp, *LINK[1:])
        hints = [
            (compute, "Products that are shared out end with an all-reduce."),
            (compute + sum(rings), "That is one way. What does backward need?"),
            (compute + 2 * sum(whole_rings), "A replica has only a share 1/dp of the sample."),
            (compute + together, "Each layer has all-reduces of its own, and each pays alpha."),
            (compute + sum(2 * r for r in rings) / 4, "Outputs are reduced for each micro-batch."),
        ]
        compare_stage(student, layers, dp, tp, 4, hints)


@check("stage_seconds", weight=2, requires="compute_is_three_times_forward_over_all_devices")
def gradients_are_averaged_once_a_step(student, rng):
    """dp: one all-reduce of a device's gradients a step, of which each micro-batch bears a part"""
    layers = [(flops, params, 0.0) for flops, params, _ in draw_layers(rng, 3)]
    for dp, tp in ((4, 1), (2, 2)):
        m = int(rng.integers(2, 9))
        compute = sum(3 * f for f, _, _ in layers) / (dp * tp * LINK[0])
        params = sum(p for _, p, _ in layers)
        each = sum(time_ring(p / tp, dp, *LINK[1:]) for _, p, _ in layers)
        hints = [
            (compute, "Replicas have to agree on their gradients."),
            (
                compute + time_ring(params / tp, dp, *LINK[1:]),
                "It happens once a step, not once a micro-batch.",
            ),
            (
                compute + time_ring(params, dp, *LINK[1:]) / m,
                "A device has only 1/tp of the parameters.",
            ),
            (
                compute + each / m,
                "One all-reduce for all parameters together pays alpha only once.",
            ),
        ]
        compare_stage(student, layers, dp, tp, m, hints)


@check("stage_seconds", hidden=True, requires="gradients_are_averaged_once_a_step")
def all_parts_together(student, rng):
    """both kinds of communication at once"""
    layers = draw_layers(rng, 5)
    if not is_near(
        student.call("stage_seconds", layers, 3, 4, 7, *LINK), time_stage(layers, 3, 4, 7, *LINK)
    ):
        raise Feedback("dp and tp above 1: wrong.", hint="Do the parts add up?")


@check("stage_seconds", hidden=True, requires="gradients_are_averaged_once_a_step")
def the_layers_stay_as_they_are(student, rng):
    """the layers are the same after the call"""
    require_left_alone(student, "stage_seconds", draw_layers(rng, 4), 2, 2, 4, *LINK)


@check("best_split", weight=2)
def the_quickest_pair_is_found(student, rng):
    """of all pairs with dp * tp == devices the quickest one"""
    both = [(1e12, 1e9, 4e7)] * 3
    for devices in (4, 6, 8):
        kinds = {
            "many parameters": ([(1e12, 4e8, 1e5)] * 3, 8),
            "large outputs": ([(1e12, 1e6, 4e7)] * 3, 8),
            "something of both": (draw_layers(rng, 4), 8),
            "much of both, 1 micro-batch": (both, 1),
            "much of both, 128 micro-batches": (both, 128),
        }
        for name, (layers, m) in kinds.items():
            got = student.call("best_split", layers, devices, m, *LINK)
            if not isinstance(got, list | tuple | np.ndarray) or len(got) != 2:
                raise Feedback(f"best_split should return a pair (dp, tp): got {got!r}.")
            dp, tp = int(got[0]), int(got[1])
            if dp * tp != devices:
                raise Feedback(
                    f"best_split on {devices} devices gave dp {dp} and tp {tp}: not dp * tp."
                )
            pairs = [(devices // t, t) for t in range(1, devices + 1) if devices % t == 0]
            expected = min(time_stage(layers, *pair, m, *LINK) for pair in pairs)
            if not is_near(time_stage(layers, dp, tp, m, *LINK), expected):
                raise Feedback(
                    f"best_split, {name}, {devices} devices: got {(dp, tp)}, which is not the "
                    "quickest. Is each divisor tried, and is it dp, then tp?"
                )


@check("best_split", hidden=True, requires="the_quickest_pair_is_found")
def the_layers_can_be_split_again(student, rng):
    """the layers are the same after the call"""
    require_left_alone(student, "best_split", draw_layers(rng, 6), 4, 8, *LINK)


# ---- 5. best_stages


def find_best_total(seconds, n, m):
    """Return the least T, by the limit on the slowest stage."""
    best = math.inf
    for limit in set(seconds.values()):
        sums = [math.inf] * n + [0.0]
        for first in reversed(range(n)):
            ends = [
                seconds[first, last] + sums[last]
                for last in range(first + 1, n + 1)
                if seconds.get((first, last), math.inf) <= limit
            ]
            sums[first] = min(ends, default=math.inf)
        best = min(best, sums[0] + (m - 1) * limit)
    return best


def ask_stages(student, seconds, n, m):
    """Return the learner's stages and their T, once they cover all layers."""
    got = student.call("best_stages", seconds, n, m)
    try:
        stages = [(int(first), int(last)) for first, last in got]
    except (TypeError, ValueError):
        raise Feedback(
            f"best_stages should return pairs (first, last): got {got!r:.200}."
        ) from None
    edges = [0, *(last for _, last in stages)]
    if [first for first, _ in stages] != edges[:-1] or edges[-1] != n:
        raise Feedback(
            f"best_stages of {n} layers gave {stages}: stages have to follow each other from 0 to {n}."
        )
    if any(stage not in seconds for stage in stages):
        raise Feedback(
            f"best_stages gave {stages}: one of them does not fit, it is not in the table."
        )
    times = [seconds[stage] for stage in stages]
    return stages, sum(times) + (m - 1) * max(times)


def draw_table(rng, n, overhead, ragged=False):
    """Return the seconds of each run of layers; ragged ones do not add up from layers."""
    until = np.concatenate([[0.0], np.cumsum(rng.uniform(0.2, 2.0, n))])
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n + 1)]
    times = {(i, j): float(until[j] - until[i] + overhead) for i, j in pairs}
    if ragged:
        times = {pair: t * float(rng.uniform(0.7, 1.3)) for pair, t in times.items()}
    return times


def compare_total(student, seconds, n, m, what):
    stages, got = ask_stages(student, seconds, n, m)
    expected = find_best_total(seconds, n, m)
    if not is_near(got, expected):
        times = [seconds[stage] for stage in stages]
        hint = "Is every entry of the table tried as the limit?"
        if is_near(sum(times), find_best_total(seconds, n, 1)):
            hint = "That is the least sum. With many micro-batches the slowest stage counts."
        elif len(stages) == n:
            hint = "A stage for every layer is not always best: look at the sum."
        raise Feedback(
            f"{what}, M = {m}: your {len(stages)} stages take {got:.5g} s, the best {expected:.5g} s. {hint}"
        )


@check("best_stages")
def one_micro_batch_wants_the_least_sum(student, rng):
    """with one micro-batch only the sum counts"""
    compare_total(student, draw_table(rng, 5, 0.3), 5, 1, "5 layers, each stage costs 0.3 s extra")


@check("best_stages", weight=3, requires="one_micro_batch_wants_the_least_sum")
def sum_and_slowest_together_are_least(student, rng):
    """no stages have a smaller T, for few micro-batches and for many"""
    for m in (2, 6, 40):
        compare_total(student, draw_table(rng, 8, 0.4), 8, m, "8 layers, 0.4 s extra a stage")
        compare_total(student, draw_table(rng, 7, 0.2, ragged=True), 7, m, "7 layers, drawn times")


@check("best_stages", requires="one_micro_batch_wants_the_least_sum")
def what_does_not_fit_is_not_used(student, rng):
    """a stage that is not in the table is not used"""
    seconds = {pair: t for pair, t in draw_table(rng, 8, 0.5).items() if pair[1] - pair[0] <= 3}
    compare_total(student, seconds, 8, 4, "8 layers of which at most 3 fit into a stage")


@check("best_stages", weight=2, requires="sum_and_slowest_together_are_least")
def many_layers_take_no_time(student, rng):
    """26 layers have 2**25 cuts: they are not all looked at"""
    compare_total(student, draw_table(rng, 26, 0.3, ragged=True), 26, 12, "26 layers, drawn times")


@check("best_stages", hidden=True, requires="sum_and_slowest_together_are_least")
def equal_times_and_single_layers(student, rng):
    """layers that are all alike, and one layer alone"""
    alike = {(i, j): float(j - i) for i in range(9) for j in range(i + 1, 10)}
    for seconds, n, m in ((alike, 9, 3), ({(0, 1): 2.0}, 1, 5)):
        _, got = ask_stages(student, seconds, n, m)
        if not is_near(got, find_best_total(seconds, n, m)):
            raise Feedback(
                "equal layers: there is a better one.", hint="Try 4 layers of 1 s by hand."
            )


@check("best_stages", hidden=True, requires="sum_and_slowest_together_are_least")
def the_table_stays_as_it_is(student, rng):
    """the table is the same after the call, also where stages are missing in it"""
    seconds = {pair: t for pair, t in draw_table(rng, 5, 0.5).items() if pair[1] - pair[0] <= 3}
    require_left_alone(student, "best_stages", seconds, 5, 4)
