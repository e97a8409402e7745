# Wrong answers that the checks of lab 14 must catch, each with a message of its own.

# %% wrong="follows_every_path" question="upward_rank" check="each_rank_is_worked_out_once" says="where could it be looked up"
def upward_rank(graph, where, alpha, beta):
    def rank(node):
        seconds, n_bytes, _ = graph[node]
        ways = [0.0]
        for reader in graph:
            if node in graph[reader][2]:
                away = where[reader] != where[node]
                ways.append(rank(reader) + (alpha + beta * n_bytes if away else 0.0))
        return seconds + max(ways)

    return {node: rank(node) for node in graph}


# %% wrong="always_eight_micro_batches" question="best_split" check="the_quickest_pair_is_found" says="much of both"
def best_split(layers, devices, microbatches, speed, alpha, beta):
    pairs = [(devices // tp, tp) for tp in range(1, devices + 1) if devices % tp == 0]
    return min(pairs, key=lambda pair: stage_seconds(layers, *pair, 8, speed, alpha, beta))


# %% wrong="counts_each_reader" question="cut_bytes" check="a_value_goes_once_to_each_device" says="share one message"
def cut_bytes(graph, where):
    return sum(
        graph[value][1]
        for node, (_, _, inputs) in graph.items()
        for value in inputs
        if where[value] != where[node]
    )


# %% wrong="counts_each_value_once" question="cut_bytes" check="a_value_goes_once_to_each_device" says="a message of its own"
def cut_bytes(graph, where):
    sent = {
        value
        for node, (_, _, inputs) in graph.items()
        for value in inputs
        if where[value] != where[node]
    }
    return sum(graph[value][1] for value in sent)


# %% wrong="bytes_of_the_reader" question="cut_bytes" check="one_edge_that_crosses_costs_the_bytes_of_its_value" says="makes the value"
def cut_bytes(graph, where):
    return sum(
        n_bytes
        for node, (_, n_bytes, inputs) in graph.items()
        if any(where[value] != where[node] for value in inputs)
    )


# %% wrong="devices_do_everything_at_once" question="makespan" check="one_device_does_one_node_after_another" says="one node at a time"
def makespan(graph, where, alpha, beta):
    done = {}
    for node, (seconds, _, inputs) in graph.items():
        start = 0.0
        for value in inputs:
            travel = 0.0 if where[value] == where[node] else alpha + beta * graph[value][1]
            start = max(start, done[value] + travel)
        done[node] = start + seconds
    return max(done.values(), default=0.0)


# %% wrong="messages_are_free" question="makespan" check="what_is_apart_runs_at_the_same_time_and_messages_take_theirs" says="takes time to arrive"
def makespan(graph, where, alpha, beta):
    done, free = {}, dict.fromkeys(where.values(), 0.0)
    for node, (seconds, _, inputs) in graph.items():
        start = max([free[where[node]], *(done[value] for value in inputs)])
        done[node] = free[where[node]] = start + seconds
    return max(done.values(), default=0.0)


# %% wrong="no_latency" question="makespan" check="what_is_apart_runs_at_the_same_time_and_messages_take_theirs" says="also pays alpha"
def makespan(graph, where, alpha, beta):
    done, free = {}, dict.fromkeys(where.values(), 0.0)
    for node, (seconds, _, inputs) in graph.items():
        start = free[where[node]]
        for value in inputs:
            travel = 0.0 if where[value] == where[node] else beta * graph[value][1]
            start = max(start, done[value] + travel)
        done[node] = free[where[node]] = start + seconds
    return max(done.values(), default=0.0)


# %% wrong="no_bytes" question="makespan" check="what_is_apart_runs_at_the_same_time_and_messages_take_theirs" says="the more bytes"
def makespan(graph, where, alpha, beta):
    done, free = {}, dict.fromkeys(where.values(), 0.0)
    for node, (seconds, _, inputs) in graph.items():
        start = free[where[node]]
        for value in inputs:
            travel = 0.0 if where[value] == where[node] else alpha
            start = max(start, done[value] + travel)
        done[node] = free[where[node]] = start + seconds
    return max(done.values(), default=0.0)


# %% wrong="last_in_order" question="makespan" check="the_last_node_of_all_ends_it" says="stands last, and ends first"
def makespan(graph, where, alpha, beta):
    done, free = {}, dict.fromkeys(where.values(), 0.0)
    for node, (seconds, _, inputs) in graph.items():
        start = free[where[node]]
        for value in inputs:
            travel = 0.0 if where[value] == where[node] else alpha + beta * graph[value][1]
            start = max(start, done[value] + travel)
        done[node] = free[where[node]] = start + seconds
    return done[node]


# %% wrong="all_on_one" question="best_placement" check="nothing_is_better_on_drawn_graphs" says="is one of the placements"
def best_placement(graph, devices, alpha, beta):
    return dict.fromkeys(graph, 0)


# %% wrong="takes_turns" question="best_placement" check="nothing_is_better_on_drawn_graphs" says="placements looked at"
def best_placement(graph, devices, alpha, beta):
    return {node: i % devices for i, node in enumerate(graph)}


# %% wrong="fewest_bytes" question="best_placement" check="nothing_is_better_on_drawn_graphs" says="is one of the placements"
def best_placement(graph, devices, alpha, beta):
    choices = product(range(devices), repeat=len(graph))
    placements = (dict(zip(graph, choice)) for choice in choices)
    return min(placements, key=lambda where: cut_bytes(graph, where))


# %% wrong="returns_the_devices" question="best_placement" check="nothing_is_better_on_drawn_graphs" says="a device for each node"
def best_placement(graph, devices, alpha, beta):
    choices = product(range(devices), repeat=len(graph))
    return min(choices, key=lambda c: makespan(graph, dict(zip(graph, c)), alpha, beta))


# %% wrong="forward_only" question="stage_seconds" check="compute_is_three_times_forward_over_all_devices" says="Backward takes twice"
def stage_seconds(layers, dp, tp, microbatches, speed, alpha, beta):
    compute = sum(flops for flops, _, _ in layers) / (dp * tp * speed)
    outputs = sum(2 * ring_seconds(out / dp, tp, alpha, beta) for _, _, out in layers)
    params = sum(params for _, params, _ in layers)
    return compute + outputs + ring_seconds(params / tp, dp, alpha, beta) / microbatches


# %% wrong="one_way" question="stage_seconds" check="outputs_are_all_reduced_both_ways" says="What does backward need"
def stage_seconds(layers, dp, tp, microbatches, speed, alpha, beta):
    compute = sum(3 * flops for flops, _, _ in layers) / (dp * tp * speed)
    outputs = sum(ring_seconds(out / dp, tp, alpha, beta) for _, _, out in layers)
    params = sum(params for _, params, _ in layers)
    return compute + outputs + ring_seconds(params / tp, dp, alpha, beta) / microbatches


# %% wrong="whole_samples" question="stage_seconds" check="outputs_are_all_reduced_both_ways" says="only a share 1/dp"
def stage_seconds(layers, dp, tp, microbatches, speed, alpha, beta):
    compute = sum(3 * flops for flops, _, _ in layers) / (dp * tp * speed)
    outputs = sum(2 * ring_seconds(out, tp, alpha, beta) for _, _, out in layers)
    params = sum(params for _, params, _ in layers)
    return compute + outputs + ring_seconds(params / tp, dp, alpha, beta) / microbatches


# %% wrong="one_ring_for_all_outputs" question="stage_seconds" check="outputs_are_all_reduced_both_ways" says="Each layer has all-reduces of its own"
def stage_seconds(layers, dp, tp, microbatches, speed, alpha, beta):
    compute = sum(3 * flops for flops, _, _ in layers) / (dp * tp * speed)
    outputs = 2 * ring_seconds(sum(out for _, _, out in layers) / dp, tp, alpha, beta)
    params = sum(params for _, params, _ in layers)
    return compute + outputs + ring_seconds(params / tp, dp, alpha, beta) / microbatches


# %% wrong="averages_every_micro_batch" question="stage_seconds" check="gradients_are_averaged_once_a_step" says="once a step"
def stage_seconds(layers, dp, tp, microbatches, speed, alpha, beta):
    compute = sum(3 * flops for flops, _, _ in layers) / (dp * tp * speed)
    outputs = sum(2 * ring_seconds(out / dp, tp, alpha, beta) for _, _, out in layers)
    params = sum(params for _, params, _ in layers)
    return compute + outputs + ring_seconds(params / tp, dp, alpha, beta)


# %% wrong="all_parameters_everywhere" question="stage_seconds" check="gradients_are_averaged_once_a_step" says="only 1/tp"
def stage_seconds(layers, dp, tp, microbatches, speed, alpha, beta):
    compute = sum(3 * flops for flops, _, _ in layers) / (dp * tp * speed)
    outputs = sum(2 * ring_seconds(out / dp, tp, alpha, beta) for _, _, out in layers)
    params = sum(params for _, params, _ in layers)
    return compute + outputs + ring_seconds(params, dp, alpha, beta) / microbatches


# %% wrong="asks_the_planner" question="stage_seconds" check="gradients_are_averaged_once_a_step" says="plan_cost"
def stage_seconds(layers, dp, tp, microbatches, speed, alpha, beta):
    costs = [LayerCost(*layer) for layer in layers]
    one_host = cluster(1, dp * tp, speed, (alpha, beta), (0.0, 0.0))
    plan = [(0, len(layers), 1, dp * tp, dp, tp)]
    return simulate.plan_cost(plan, costs, one_host, microbatches) / microbatches


# %% wrong="always_replicas" question="best_split" check="the_quickest_pair_is_found" says="each divisor tried"
def best_split(layers, devices, microbatches, speed, alpha, beta):
    return devices, 1


# %% wrong="pairs_the_other_way_round" question="best_split" check="the_quickest_pair_is_found" says="dp, then tp"
def best_split(layers, devices, microbatches, speed, alpha, beta):
    pairs = [(devices // tp, tp) for tp in range(1, devices + 1) if devices % tp == 0]
    dp, tp = min(
        pairs, key=lambda pair: stage_seconds(layers, *pair, microbatches, speed, alpha, beta)
    )
    return tp, dp


# %% wrong="only_halves" question="best_split" check="the_quickest_pair_is_found" says="each divisor tried"
def best_split(layers, devices, microbatches, speed, alpha, beta):
    pairs = [(devices, 1), (devices // 2, 2)]
    return min(
        pairs, key=lambda pair: stage_seconds(layers, *pair, microbatches, speed, alpha, beta)
    )


# %% wrong="least_sum" question="best_stages" check="sum_and_slowest_together_are_least" says="the slowest stage counts"
def best_stages(seconds, n_layers, microbatches):
    sums, ends = [np.inf] * n_layers + [0.0], [None] * n_layers
    for first in reversed(range(n_layers)):
        for last in range(first + 1, n_layers + 1):
            took = seconds.get((first, last), np.inf) + sums[last]
            if took < sums[first]:
                sums[first], ends[first] = took, last
    stages, first = [], 0
    while first < n_layers:
        stages.append((first, ends[first]))
        first = ends[first]
    return stages


# %% wrong="a_stage_a_layer" question="best_stages" check="one_micro_batch_wants_the_least_sum" says="look at the sum"
def best_stages(seconds, n_layers, microbatches):
    return [(i, i + 1) for i in range(n_layers)]


# %% wrong="ends_inclusive" question="best_stages" check="one_micro_batch_wants_the_least_sum" says="have to follow each other"
def best_stages(seconds, n_layers, microbatches):
    return [(0, n_layers - 1)]


# %% wrong="one_stage" question="best_stages" check="sum_and_slowest_together_are_least" says="the slowest stage counts"
def best_stages(seconds, n_layers, microbatches):
    return [(0, n_layers)]


# %% wrong="least_maximum" question="best_stages" check="one_micro_batch_wants_the_least_sum" says="look at the sum"
def best_stages(seconds, n_layers, microbatches):
    sums, ends = [np.inf] * n_layers + [0.0], [None] * n_layers
    for first in reversed(range(n_layers)):
        for last in range(first + 1, n_layers + 1):
            took = max(seconds.get((first, last), np.inf), sums[last])
            if took < sums[first]:
                sums[first], ends[first] = took, last
    stages, first = [], 0
    while first < n_layers:
        stages.append((first, ends[first]))
        first = ends[first]
    return stages


# %% wrong="ranks_without_messages" question="upward_rank" check="a_message_lies_on_the_way_to_another_device" says="begins later"
def upward_rank(graph, where, alpha, beta):
    ranks = {}
    for node in reversed(graph):
        ways = [ranks[r] for r in ranks if node in graph[r][2]]
        ranks[node] = graph[node][0] + max(ways, default=0.0)
    return ranks


# %% wrong="ranks_add_up_all_readers" question="upward_rank" check="a_rank_is_the_longest_way_to_the_end" says="Which of the ways"
def upward_rank(graph, where, alpha, beta):
    ranks = {}
    for node in reversed(graph):
        message = alpha + beta * graph[node][1]
        ways = [
            ranks[r] + (message if where[r] != where[node] else 0.0)
            for r in ranks
            if node in graph[r][2]
        ]
        ranks[node] = graph[node][0] + sum(ways)
    return ranks


# %% wrong="ranks_of_the_node_alone" question="upward_rank" check="a_rank_is_the_longest_way_to_the_end" says="begin only after it"
def upward_rank(graph, where, alpha, beta):
    return {node: seconds for node, (seconds, _, _) in graph.items()}


# %% wrong="ranks_send_to_everybody" question="upward_rank" check="a_rank_is_the_longest_way_to_the_end" says="on the same device"
def upward_rank(graph, where, alpha, beta):
    ranks = {}
    for node in reversed(graph):
        message = alpha + beta * graph[node][1]
        ways = [ranks[r] + message for r in ranks if node in graph[r][2]]
        ranks[node] = graph[node][0] + max(ways, default=0.0)
    return ranks


# %% wrong="empties_the_graph" question="cut_bytes" check="graph_and_placement_stay_as_they_are" says="needs it again"
def cut_bytes(graph, where):
    total, readers = 0, {}
    while graph:
        node, (_, n_bytes, inputs) = graph.popitem()
        total += n_bytes * len(readers.get(node, set()) - {where[node]})
        for value in inputs:
            readers.setdefault(value, set()).add(where[node])
    return total


# %% wrong="remembers_what_was_sent" question="cut_bytes" check="one_edge_that_crosses_costs_the_bytes_of_its_value" says="left over from a call"
def cut_bytes(graph, where, sent=set()):  # noqa: B006
    for node, (_, _, inputs) in graph.items():
        sent |= {(value, where[node]) for value in inputs if where[value] != where[node]}
    return sum(graph[value][1] for value, _ in sent if value in graph)


# %% wrong="counts_sizes_for_values" question="cut_bytes" check="any_graph_on_any_devices" says="each once"
def cut_bytes(graph, where):
    sent = {
        (graph[value][1], where[node])
        for node, (_, _, inputs) in graph.items()
        for value in inputs
        if where[value] != where[node]
    }
    return sum(n_bytes for n_bytes, _ in sent)


# %% wrong="takes_nodes_out" question="makespan" check="a_graph_can_be_run_again" says="needs it again"
def makespan(graph, where, alpha, beta):
    done, free = {}, dict.fromkeys(where.values(), 0.0)
    n_bytes = {node: size for node, (_, size, _) in graph.items()}
    for node in list(graph):
        seconds, _, inputs = graph.pop(node)
        start = free[where[node]]
        for value in inputs:
            travel = 0.0 if where[value] == where[node] else alpha + beta * n_bytes[value]
            start = max(start, done[value] + travel)
        done[node] = free[where[node]] = start + seconds
    return max(done.values())


# %% wrong="in_the_order_of_names" question="makespan" check="any_graph_is_played_through" says="one by one"
def makespan(graph, where, alpha, beta):
    done, free = {}, dict.fromkeys(where.values(), 0.0)
    for node in sorted(graph):
        seconds, _, inputs = graph[node]
        start = free[where[node]]
        for value in inputs:
            travel = 0.0 if where[value] == where[node] else alpha + beta * graph[value][1]
            start = max(start, done.get(value, 0.0) + travel)
        done[node] = free[where[node]] = start + seconds
    return max(done.values())


# %% wrong="takes_the_last_out" question="upward_rank" check="an_input_read_twice_and_a_graph_of_one_node" says="needs it again"
def upward_rank(graph, where, alpha, beta):
    ranks, behind = {}, {}
    while graph:
        node, (seconds, _, inputs) = graph.popitem()
        ranks[node] = seconds + behind.get(node, 0.0)
        for value in inputs:
            travel = 0.0 if where[value] == where[node] else alpha + beta * graph[value][1]
            behind[value] = max(behind.get(value, 0.0), travel + ranks[node])
    return ranks


# %% wrong="forgets_alpha" question="best_placement" check="a_slow_link_keeps_it_together" says="What does one message cost"
def best_placement(graph, devices, alpha, beta):
    choices = product(range(devices), repeat=len(graph))
    placements = (dict(zip(graph, choice)) for choice in choices)
    return min(placements, key=lambda where: makespan(graph, where, 0.0, beta))


# %% wrong="takes_the_layers_out" question="stage_seconds" check="the_layers_stay_as_they_are" says="needs it again"
def stage_seconds(layers, dp, tp, microbatches, speed, alpha, beta):
    seconds, all_params = 0.0, 0.0
    while layers:
        flops, params, out = layers.pop()
        seconds += 3 * flops / (dp * tp * speed) + 2 * ring_seconds(out / dp, tp, alpha, beta)
        all_params += params
    return seconds + ring_seconds(all_params / tp, dp, alpha, beta) / microbatches


# %% wrong="sorts_the_layers" question="best_split" check="the_layers_can_be_split_again" says="needs it again"
def best_split(layers, devices, microbatches, speed, alpha, beta):
    layers.sort(reverse=True)
    pairs = [(devices // tp, tp) for tp in range(devices, 0, -1) if devices % tp == 0]
    return min(
        pairs, key=lambda pair: stage_seconds(layers, *pair, microbatches, speed, alpha, beta)
    )


# %% wrong="fills_the_table_up" question="best_stages" check="the_table_stays_as_it_is" says="needs it again"
def best_stages(seconds, n_layers, microbatches):
    limits = sorted(set(seconds.values()))
    for first in range(n_layers):
        for last in range(first + 1, n_layers + 1):
            seconds.setdefault((first, last), np.inf)
    ways = []
    for limit in limits:
        sums, ends = [np.inf] * n_layers + [0.0], [n_layers] * n_layers
        for first, last in sorted(seconds, reverse=True):
            if seconds[first, last] <= limit:
                found = seconds[first, last] + sums[last], last
                sums[first], ends[first] = min((sums[first], ends[first]), found)
        stages, first = [], 0
        while first < n_layers:
            stages.append((first, ends[first]))
            first = ends[first]
        ways.append((sums[0] + (microbatches - 1) * limit, stages))
    return min(ways)[1]
