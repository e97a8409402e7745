# %% wrong="takes_zeros_for_dead" question="fire" check="merge_takes_the_live_one" says="Zeros are alive"
def fire(op, tokens):
    if isinstance(op, Merge):
        for token in tokens:
            if token is not DEAD and np.any(token):
                return token
        return DEAD
    if any(token is DEAD for token in tokens):
        return DEAD
    if isinstance(op, Switch):
        return tokens[0] if tokens[1] == op.side else DEAD
    return op.compute(np, *tokens)


# %% wrong="zeros_are_not_computed" question="fire" check="live_inputs_are_computed" says="zeros too"
def fire(op, tokens):
    alive = [token for token in tokens if token is not DEAD]
    if isinstance(op, Merge):
        return alive[0] if alive else DEAD
    if isinstance(op, Switch):
        data, predicate = tokens
        return data if len(alive) == 2 and bool(predicate) == op.side else DEAD
    if not all(token is not DEAD and np.any(token) for token in tokens):
        return DEAD
    return op.compute(np, *tokens)


# %% wrong="computes_beside_the_dead" question="fire" check="deadness_spreads" says="Any dead input"
def fire(op, tokens):
    alive = [token for token in tokens if token is not DEAD]
    if isinstance(op, Merge):
        return alive[0] if alive else DEAD
    if not alive:
        return DEAD
    if isinstance(op, Switch):
        data, predicate = tokens
        return data if bool(predicate) == op.side else DEAD
    return op.compute(np, *alive)


# %% wrong="waits_for_all_at_a_merge" question="fire" check="merge_takes_the_live_one" says="One live input is enough"
def fire(op, tokens):
    if any(token is DEAD for token in tokens):
        return DEAD
    if isinstance(op, Merge):
        return tokens[0]
    if isinstance(op, Switch):
        data, predicate = tokens
        return data if bool(predicate) == op.side else DEAD
    return op.compute(np, *tokens)


# %% wrong="takes_the_last" question="fire" check="merge_takes_the_live_one" says="Of several live ones the first"
def fire(op, tokens):
    alive = [token for token in tokens if token is not DEAD]
    if isinstance(op, Merge):
        return alive[-1] if alive else DEAD
    if len(alive) < len(tokens):
        return DEAD
    if isinstance(op, Switch):
        data, predicate = tokens
        return data if bool(predicate) == op.side else DEAD
    return op.compute(np, *tokens)


# %% wrong="sends_the_predicate_s_way_only" question="fire" check="switch_sends_one_way" says="lives where it is true"
def fire(op, tokens):
    alive = [token for token in tokens if token is not DEAD]
    if isinstance(op, Merge):
        return alive[0] if alive else DEAD
    if len(alive) < len(tokens):
        return DEAD
    if isinstance(op, Switch):
        data, predicate = tokens
        return data if predicate else DEAD
    return op.compute(np, *tokens)


# %% wrong="asks_for_the_same_object" question="fire" check="switch_sends_one_way" says="lives where it is true"
def fire(op, tokens):
    alive = [token for token in tokens if token is not DEAD]
    if isinstance(op, Merge):
        return alive[0] if alive else DEAD
    if len(alive) < len(tokens):
        return DEAD
    if isinstance(op, Switch):
        data, predicate = tokens
        return data if predicate is op.side else DEAD
    return op.compute(np, *tokens)


# %% wrong="lets_constants_live" question="cond" check="a_side_may_be_a_number" says="What could kill it"
def cond(predicate, if_true, if_false, *inputs):
    results = []
    for side, function in [(False, if_false), (True, if_true)]:
        inside = [switch(value, predicate, side) for value in inputs]
        results.append(function(*inside))
    return merge(*results)


# %% wrong="kills_constants_only" question="cond" check="a_result_may_come_from_outside" says="whatever it is"
def cond(predicate, if_true, if_false, *inputs):
    results = []
    for side, function in [(False, if_false), (True, if_true)]:
        inside = [switch(value, predicate, side) for value in inputs]
        results += tied([function(*inside)], *inside[:1])
    return merge(*results)


# %% wrong="kills_beside_the_first_input" question="cond" check="a_result_may_come_from_outside" says="with or without inputs"
def cond(predicate, if_true, if_false, *inputs):
    results = []
    for side, function in [(False, if_false), (True, if_true)]:
        inside = [switch(value, predicate, side) for value in inputs]
        results.append(beside(function(*inside), inside[0]))
    return merge(*results)


# %% wrong="inputs_beside_a_witness" question="cond" check="inputs_and_results_pass_a_switch" says="an input has passed no Switch"
def cond(predicate, if_true, if_false, *inputs):
    results = []
    for side, function in [(False, if_false), (True, if_true)]:
        gate = switch(predicate, predicate, side)
        inside = [beside(value, gate) for value in inputs]
        results.append(switch(function(*inside), predicate, side))
    return merge(*results)


# %% wrong="results_beside_a_witness" question="cond" check="inputs_and_results_pass_a_switch" says="Which operator's adjoint is zeros"
def cond(predicate, if_true, if_false, *inputs):
    results = []
    for side, function in [(False, if_false), (True, if_true)]:
        gate = switch(predicate, predicate, side)
        inside = [switch(value, predicate, side) for value in inputs]
        results.append(beside(function(*inside), gate))
    return merge(*results)


# %% wrong="switches_only_the_results" question="cond" check="the_other_side_computes_nothing" says="on their way into the side"
def cond(predicate, if_true, if_false, *inputs):
    return merge(
        switch(if_false(*inputs), predicate, False), switch(if_true(*inputs), predicate, True)
    )


# %% wrong="takes_the_other_side" question="cond" check="the_right_side_gives_the_value" says="Which side sees the value"
def cond(predicate, if_true, if_false, *inputs):
    results = []
    for side, function in [(True, if_false), (False, if_true)]:
        inside = [switch(value, predicate, side) for value in inputs]
        results.append(switch(function(*inside), predicate, side))
    return merge(*results)


# %% wrong="decides_while_building" question="cond" check="the_right_side_gives_the_value" says="neither true nor false"
def cond(predicate, if_true, if_false, *inputs):
    return if_true(*inputs) if predicate else if_false(*inputs)


# %% wrong="picks_with_where" question="cond" check="the_other_side_computes_nothing" says="What kills the tokens"
def cond(predicate, if_true, if_false, *inputs):
    return mt.where(predicate, if_true(*inputs), if_false(*inputs))


# %% wrong="zeros_that_are_always_alive" question="gradient_rules" check="a_switch_has_an_adjoint_on_both_ways" says="sends what comes first"
def merge_gradient(out_grad, node):
    return tuple(beside(out_grad, source) for source in node.inputs)


def switch_gradient(out_grad, node):
    return merge(out_grad, node.inputs[0] * 0.0), None


# %% wrong="sends_the_adjoint_both_ways" question="gradient_rules" check="a_merge_sends_back_where_it_took" says="one should be alive"
def merge_gradient(out_grad, node):
    return tuple(out_grad for _ in node.inputs)


def switch_gradient(out_grad, node):
    data, predicate = node.inputs
    nothing = switch(data * 0.0, predicate, not node.op.side)
    return merge(out_grad, nothing), None


# %% wrong="a_merge_of_two" question="gradient_rules" check="a_merge_sends_back_where_it_took" says="this Merge has 3"
def merge_gradient(out_grad, node):
    return beside(out_grad, node.inputs[0]), beside(out_grad, node.inputs[1])


def switch_gradient(out_grad, node):
    data, predicate = node.inputs
    nothing = switch(data * 0.0, predicate, not node.op.side)
    return merge(out_grad, nothing), None


# %% wrong="has_no_zeros" question="gradient_rules" check="a_switch_has_an_adjoint_on_both_ways" says="Which operator picks"
def merge_gradient(out_grad, node):
    return tuple(beside(out_grad, source) for source in node.inputs)


def switch_gradient(out_grad, node):
    return out_grad, None


# %% wrong="zeros_on_the_same_side" question="gradient_rules" check="a_switch_has_an_adjoint_on_both_ways" says="Alive always"
def merge_gradient(out_grad, node):
    return tuple(beside(out_grad, source) for source in node.inputs)


def switch_gradient(out_grad, node):
    data, predicate = node.inputs
    nothing = switch(data * 0.0, predicate, node.op.side)
    return merge(out_grad, nothing), None


# %% wrong="zeros_that_always_live" question="gradient_rules" check="a_switch_has_an_adjoint_on_both_ways" says="zeros of the shape of data if"
def merge_gradient(out_grad, node):
    return tuple(beside(out_grad, source) for source in node.inputs)


def switch_gradient(out_grad, node):
    data, _ = node.inputs
    return merge(data * 0.0, out_grad), None


# %% wrong="zeros_of_a_shape_known_now" question="gradient_rules" check="a_switch_has_an_adjoint_on_both_ways" says="known only in the run"
def merge_gradient(out_grad, node):
    return tuple(beside(out_grad, source) for source in node.inputs)


def switch_gradient(out_grad, node):
    data, predicate = node.inputs
    zeros = Constant(np.zeros(data.shape))
    return merge(out_grad, switch(zeros, predicate, not node.op.side)), None


# %% wrong="a_single_zero" question="gradient_rules" check="a_switch_has_an_adjoint_on_both_ways" says="shape"
def merge_gradient(out_grad, node):
    return tuple(beside(out_grad, source) for source in node.inputs)


def switch_gradient(out_grad, node):
    _, predicate = node.inputs
    return merge(out_grad, switch(0.0, predicate, not node.op.side)), None


# %% wrong="starts_at_one" question="tag_after" check="enter_opens_iteration_zero" says="at iteration 0"
def tag_after(op, tag):
    if isinstance(op, Enter):
        return (*tag, (op.loop, 1))
    if isinstance(op, NextIteration):
        loop, iteration = tag[-1]
        return (*tag[:-1], (loop, iteration + 1))
    if isinstance(op, Exit):
        return tag[:-1]
    return tag


# %% wrong="enters_from_the_front" question="tag_after" check="enter_opens_iteration_zero" says="innermost"
def tag_after(op, tag):
    if isinstance(op, Enter):
        return ((op.loop, 0), *tag)
    if isinstance(op, NextIteration):
        loop, iteration = tag[0]
        return ((loop, iteration + 1), *tag[1:])
    if isinstance(op, Exit):
        return tag[1:]
    return tag


# %% wrong="forgets_the_outer_loop" question="tag_after" check="next_iteration_counts_the_innermost" says="what is outside stays"
def tag_after(op, tag):
    if isinstance(op, Enter):
        return (*tag, (op.loop, 0))
    if isinstance(op, NextIteration):
        return ((op.loop, tag[-1][1] + 1),)
    if isinstance(op, Exit):
        return tag[:-1]
    return tag


# %% wrong="leaves_all_loops" question="tag_after" check="exit_leaves_the_innermost" says="with which it came in"
def tag_after(op, tag):
    if isinstance(op, Enter):
        return (*tag, (op.loop, 0))
    if isinstance(op, NextIteration):
        loop, iteration = tag[-1]
        return (*tag[:-1], (loop, iteration + 1))
    if isinstance(op, Exit):
        return ()
    return tag


# %% wrong="two_loops_at_most" question="tag_after" check="exit_leaves_the_innermost" says="with which it came in"
def tag_after(op, tag):
    if isinstance(op, Enter):
        return (*tag, (op.loop, 0))
    if isinstance(op, NextIteration):
        loop, iteration = tag[-1]
        return (*tag[:-1], (loop, iteration + 1))
    if isinstance(op, Exit):
        return tag[:1] if len(tag) > 1 else ()
    return tag


# %% wrong="no_live_token" question="is_finished" check="finished_when_nothing_is_inside_and_nothing_can_come" says="come in from outside"
def is_finished(frame):
    return frame.live == 0


# %% wrong="all_have_entered" question="is_finished" check="finished_when_nothing_is_inside_and_nothing_can_come" says="still under way"
def is_finished(frame):
    return frame.entered == frame.enters


# %% wrong="something_has_entered" question="is_finished" check="finished_when_nothing_is_inside_and_nothing_can_come" says="come in from outside"
def is_finished(frame):
    return frame.live == 0 and frame.entered > 0


# %% wrong="never" question="is_finished" check="finished_when_nothing_is_inside_and_nothing_can_come" says="nothing can come any more"
def is_finished(frame):
    return frame.live < 0


# %% wrong="body_before_test" question="while_loop" check="test_comes_before_body" says="looks at the Merges"
def while_loop(test, body, *start):
    loop = new_loop()
    tops = [merge(record(Enter(loop), [value])) for value in tied(start)]
    new = tied(body(*tops), tops[0])
    again = test(*new)
    for top, value in zip(tops, new, strict=True):
        top.inputs += (record(NextIteration(loop), [switch(value, again, True)]),)
    return [record(Exit(loop), [switch(value, again, False)]) for value in new]


# %% wrong="exits_without_a_switch" question="while_loop" check="the_body_is_run_as_long_as_the_test_holds" says="the test saw them last"
def while_loop(test, body, *start):
    loop = new_loop()
    tops = [merge(record(Enter(loop), [value])) for value in tied(start)]
    again = test(*tops)
    inside = [switch(top, again, True) for top in tops]
    for top, value in zip(tops, tied(body(*inside), inside[0]), strict=True):
        top.inputs += (record(NextIteration(loop), [value]),)
    return [record(Exit(loop), [top]) for top in tops]


# %% wrong="goes_round_once" question="while_loop" check="the_body_is_run_as_long_as_the_test_holds" says="Follow one variable"
def while_loop(test, body, *start):
    again = test(*start)
    inside = [switch(value, again, True) for value in tied(start)]
    new = tied(body(*inside), inside[0])
    return [merge(a, switch(b, again, False)) for a, b in zip(new, tied(start), strict=True)]


# %% wrong="forgets_to_tie" question="while_loop" check="numbers_are_values_too" says="A constant has no token"
def while_loop(test, body, *start):
    loop = new_loop()
    tops = [merge(record(Enter(loop), [value])) for value in tied(start)]
    again = test(*tops)
    inside = [switch(top, again, True) for top in tops]
    for top, value in zip(tops, body(*inside), strict=True):
        top.inputs += (record(NextIteration(loop), [value]),)
    return [record(Exit(loop), [switch(top, again, False)]) for top in tops]


# %% wrong="ties_to_the_first_node" question="while_loop" check="numbers_are_values_too" says="which is alive in every round"
def while_loop(test, body, *start):
    loop = new_loop()
    tops = [merge(record(Enter(loop), [value])) for value in tied(start)]
    again = test(*tops)
    inside = [switch(top, again, True) for top in tops]
    for top, value in zip(tops, tied(body(*inside)), strict=True):
        top.inputs += (record(NextIteration(loop), [value]),)
    return [record(Exit(loop), [switch(top, again, False)]) for top in tops]


# %% wrong="ties_to_a_merge" question="while_loop" check="numbers_are_values_too" says="no more when the test fails"
def while_loop(test, body, *start):
    loop = new_loop()
    tops = [merge(record(Enter(loop), [value])) for value in tied(start)]
    again = test(*tops)
    inside = [switch(top, again, True) for top in tops]
    for top, value in zip(tops, tied(body(*inside), tops[0]), strict=True):
        top.inputs += (record(NextIteration(loop), [value]),)
    return [record(Exit(loop), [switch(top, again, False)]) for top in tops]


# %% wrong="one_name_for_all_loops" question="while_loop" check="a_loop_in_a_loop" says="a name of its own"
def while_loop(test, body, *start):
    loop = "loop"
    tops = [merge(record(Enter(loop), [value])) for value in tied(start)]
    again = test(*tops)
    inside = [switch(top, again, True) for top in tops]
    for top, value in zip(tops, tied(body(*inside), inside[0]), strict=True):
        top.inputs += (record(NextIteration(loop), [value]),)
    return [record(Exit(loop), [switch(top, again, False)]) for top in tops]


# %% wrong="goes_forward_twice" question="loop_vjp" check="rounds_are_undone_in_reverse" says="on top of the stack now"
def loop_vjp(test, body, *start):
    like = tied(start)
    stack, *ends = while_loop(
        lambda stack, *v: test(*v),
        lambda stack, *v: [push(stack, *body(*v)), *body(*v)],
        *(EMPTY, *like),
    )

    def one_back(stack, *adjoints):
        values, below = pop(stack, like)
        return [below, *gradients(body(*values), adjoints, values)]

    def back(*arriving):
        return while_loop(lambda stack, *_: filled(stack), one_back, stack, *arriving)[1:]

    return ends, back


# %% wrong="undoes_the_last_round_only" question="loop_vjp" check="rounds_are_undone_in_reverse" says="on top of the stack"
def loop_vjp(test, body, *start):
    like = tied(start)
    stack, *ends = while_loop(
        lambda stack, *v: test(*v),
        lambda stack, *v: [push(EMPTY, *v), *body(*v)],
        *(EMPTY, *like),
    )

    def one_back(stack, *adjoints):
        values, below = pop(stack, like)
        return [below, *gradients(body(*values), adjoints, values)]

    def back(*arriving):
        return while_loop(lambda stack, *_: filled(stack), one_back, stack, *arriving)[1:]

    return ends, back


# %% wrong="returns_the_stack_too" question="loop_vjp" check="the_ends_are_the_loops" says="among the ends"
def loop_vjp(test, body, *start):
    like = tied(start)
    ends = while_loop(
        lambda stack, *v: test(*v), lambda stack, *v: [push(stack, *v), *body(*v)], EMPTY, *like
    )

    def one_back(stack, *adjoints):
        values, below = pop(stack, like)
        return [below, *gradients(body(*values), adjoints, values)]

    def back(*arriving):
        return while_loop(lambda stack, *_: filled(stack), one_back, ends[0], *arriving)[1:]

    return ends[:-1], back


# %% wrong="counters_have_no_gradient" question="loop_vjp" check="rounds_are_undone_in_reverse" says="Both are variables too"
def loop_vjp(test, body, *start):
    like = tied(start)
    stack, *ends = while_loop(
        lambda stack, *v: test(*v), lambda stack, *v: [push(stack, *v), *body(*v)], EMPTY, *like
    )

    def one_back(stack, *adjoints):
        values, below = pop(stack, like)
        return [below, *gradients(body(*values)[2:], adjoints[2:], values)]

    def back(*arriving):
        return while_loop(lambda stack, *_: filled(stack), one_back, stack, *arriving)[1:]

    return ends, back


# %% wrong="differentiates_at_the_end" question="loop_vjp" check="rounds_are_undone_in_reverse" says="the values of round i"
def loop_vjp(test, body, *start):
    like = tied(start)
    stack, *ends = while_loop(
        lambda stack, *v: test(*v), lambda stack, *v: [push(stack, *v), *body(*v)], EMPTY, *like
    )

    def one_back(stack, *rest):
        values, adjoints = rest[: len(like)], rest[len(like) :]
        _, below = pop(stack, like)
        return [below, *values, *gradients(body(*values), adjoints, values)]

    def back(*arriving):
        found = while_loop(lambda stack, *_: filled(stack), one_back, stack, *ends, *arriving)
        return found[1 + len(like) :]

    return ends, back


# %% wrong="forgets_the_mask" question="padded_rnn" check="padding_does_not_touch_the_state" says="keep the state"
def padded_rnn(table, lengths, h, w, u, steps):
    for i in range(steps):
        h = cell(row(table, Constant(i)), h, w, u)
    return h


# %% wrong="one_symbol_too_many" question="padded_rnn" check="padding_does_not_touch_the_state" says="i < length"
def padded_rnn(table, lengths, h, w, u, steps):
    for i in range(steps):
        h = mt.where(lengths >= float(i), cell(row(table, Constant(i)), h, w, u), h)
    return h


# %% wrong="the_state_becomes_zero" question="padded_rnn" check="padding_does_not_touch_the_state" says="keep the state"
def padded_rnn(table, lengths, h, w, u, steps):
    for i in range(steps):
        h = mt.where(lengths > float(i), cell(row(table, Constant(i)), h, w, u), h * 0.0)
    return h


# %% wrong="always_the_first_symbol" question="padded_rnn" check="full_sentences_are_read_to_the_end" says="the i-th on row i"
def padded_rnn(table, lengths, h, w, u, steps):
    for i in range(steps):
        h = mt.where(lengths > float(i), cell(row(table, Constant(0)), h, w, u), h)
    return h


# %% wrong="the_lower_child_counts" question="by_height" check="every_node_is_in_one_group" says="the higher counts"
def by_height(left, right):
    heights = []
    for a, b in zip(left, right, strict=True):
        heights.append(0 if a < 0 else 1 + min(heights[a], heights[b]))
    groups = [[] for _ in range(max(heights) + 1)]
    for node, height in enumerate(heights):
        groups[height].append(node)
    return groups


# %% wrong="one_by_one" question="by_height" check="groups_are_the_heights" says="As few groups"
def by_height(left, right):
    return [[node] for node in range(len(left))]


# %% wrong="depth_from_the_root" question="by_height" check="every_node_is_in_one_group" says="or below it"
def by_height(left, right):
    depth = [0] * len(left)
    for node in reversed(range(len(left))):
        for child in (left[node], right[node]):
            if child >= 0:
                depth[child] = max(depth[child], depth[node] + 1)
    groups = [[] for _ in range(max(depth) + 1)]
    for node, d in enumerate(depth):
        groups[d].append(node)
    return groups


# %% wrong="leaves_out_the_leaves" question="by_height" check="every_node_is_in_one_group" says="leaves too"
def by_height(left, right):
    heights = []
    for a, b in zip(left, right, strict=True):
        heights.append(0 if a < 0 else 1 + max(heights[a], heights[b]))
    groups = [[] for _ in range(max(heights) + 1)]
    for node, height in enumerate(heights):
        groups[height].append(node)
    return groups[1:]


# %% wrong="writes_heights_into_left" question="by_height" check="the_tree_is_only_read" says="Which line changes one of them"
def by_height(left, right):
    groups = []
    for node in range(len(left)):
        left[node] = 0 if left[node] < 0 else 1 + max(left[left[node]], left[right[node]])
        while len(groups) <= left[node]:
            groups.append([])
        groups[left[node]].append(node)
    return groups
