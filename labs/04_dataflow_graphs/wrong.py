# %% wrong="computes_at_once" question="record" check="a_node_remembers_operator_and_inputs" says="makes another node"
def record(op, inputs):
    return op.compute(np, *[getattr(value, "value", value) for value in inputs])


# %% wrong="keeps_plain_numbers" question="record" check="a_node_remembers_operator_and_inputs" says="What turns it into a node"
def record(op, inputs):
    spec = op.infer(*[Spec(as_node(value).shape, as_node(value).dtype) for value in inputs])
    return Node(op, inputs, spec.shape, spec.dtype, op.name)


# %% wrong="knows_floats_only" question="record" check="whole_numbers_and_arrays_become_constants" says="What turns it"
def record(op, inputs):
    nodes = [Constant(value) if isinstance(value, float) else value for value in inputs]
    spec = op.infer(*[Spec(node.shape, node.dtype) for node in nodes])
    return Node(op, nodes, spec.shape, spec.dtype, op.name)


# %% wrong="drops_the_numbers" question="record" check="a_node_remembers_operator_and_inputs" says="a number is one too"
def record(op, inputs):
    nodes = [value for value in inputs if isinstance(value, Node)]
    specs = [Spec(as_node(value).shape, as_node(value).dtype) for value in inputs]
    spec = op.infer(*specs)
    return Node(op, nodes, spec.shape, spec.dtype, op.name)


# %% wrong="shape_of_the_first_input" question="record" check="shape_and_dtype_are_inferred" says="op.infer"
def record(op, inputs):
    nodes = [as_node(value) for value in inputs]
    return Node(op, nodes, nodes[0].shape, nodes[0].dtype, op.name)


# %% wrong="tries_it_out" question="record" check="nothing_is_computed" says="Who asks for one"
def record(op, inputs):
    nodes = [as_node(value) for value in inputs]
    spec = op.infer(*[Spec(node.shape, node.dtype) for node in nodes])
    op.compute(np, *[np.ones([n or 1 for n in node.shape]) for node in nodes])
    return Node(op, nodes, spec.shape, spec.dtype, op.name)


# %% wrong="forgets_the_dtype" question="record" check="shape_and_dtype_are_inferred" says="op.infer"
def record(op, inputs):
    nodes = [as_node(value) for value in inputs]
    spec = op.infer(*[Spec(node.shape, node.dtype) for node in nodes])
    return Node(op, nodes, spec.shape, name=op.name)


# %% wrong="only_the_first_fetch" question="needed" check="what_the_fetches_depend_on_is_there" says="several fetches"
def needed(fetches, feeds):
    order, seen = [], set()
    stack = [(fetches[0], False)]
    while stack:
        node, inputs_are_done = stack.pop()
        if inputs_are_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node not in feeds:
                stack.extend((source, False) for source in node.inputs)
    return order


# %% wrong="appends_before_the_inputs" question="needed" check="inputs_come_before_users_and_once" says="only when all of its inputs"
def needed(fetches, feeds):
    order, seen, stack = [], set(), list(fetches)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
            if node not in feeds:
                stack.extend(node.inputs)
    return order


# %% wrong="walks_past_a_feed" question="needed" check="nothing_behind_a_fed_node" says="who still asks"
def needed(fetches, feeds):
    order, seen = [], set()
    stack = [(node, False) for node in fetches]
    while stack:
        node, inputs_are_done = stack.pop()
        if inputs_are_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((source, False) for source in node.inputs)
    return order


# %% wrong="leaves_the_fed_node_out" question="needed" check="nothing_behind_a_fed_node" says="The fed node itself stays"
def needed(fetches, feeds):
    order, seen = [], set()
    stack = [(node, False) for node in fetches]
    while stack:
        node, inputs_are_done = stack.pop()
        if inputs_are_done:
            order.append(node)
        elif node not in seen and node not in feeds:
            seen.add(node)
            stack.append((node, True))
            stack.extend((source, False) for source in node.inputs)
    return order


# %% wrong="takes_every_feed" question="needed" check="nothing_behind_a_fed_node" says="not that somebody wants it"
def needed(fetches, feeds):
    order, seen = [], set()
    stack = [(node, False) for node in [*fetches, *feeds]]
    while stack:
        node, inputs_are_done = stack.pop()
        if inputs_are_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node not in feeds:
                stack.extend((source, False) for source in node.inputs)
    return order


# %% wrong="visits_every_path" question="needed" check="inputs_come_before_users_and_once" says="know it again"
def needed(fetches, feeds):
    order = []
    stack = [(node, False) for node in fetches]
    while stack:
        node, inputs_are_done = stack.pop()
        if inputs_are_done:
            order.append(node)
        else:
            stack.append((node, True))
            if node not in feeds:
                stack.extend((source, False) for source in node.inputs)
    return order


# %% wrong="empties_the_list" question="needed" check="asked_again_it_gives_the_same" says="caller's list"
def needed(fetches, feeds):
    order, seen = [], set()
    while fetches:
        stack = [(fetches.pop(), False)]
        while stack:
            node, inputs_are_done = stack.pop()
            if inputs_are_done:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                if node not in feeds:
                    stack.extend((source, False) for source in node.inputs)
    return order


# %% wrong="recurses" question="needed" check="a_deep_graph_is_no_problem" says="a thousand calls deep"
def needed(fetches, feeds):
    order, seen = [], set()

    def visit(node):
        if node not in seen:
            seen.add(node)
            for source in () if node in feeds else node.inputs:
                visit(source)
            order.append(node)

    for node in fetches:
        visit(node)
    return order


# %% wrong="starts_from_the_initial_value" question="evaluate" check="values_are_those_of_the_operators" says="not its initial one"
def evaluate(fetches, feeds, state):
    values = {}
    for node in needed(fetches, feeds):
        if node in feeds:
            values[node] = feeds[node]
        elif isinstance(node, Constant):
            values[node] = node.value
        elif node.op is not None:
            values[node] = node.op.compute(np, *[values[source] for source in node.inputs])
        elif isinstance(node, Variable):
            values[node] = node.initial
        else:
            raise ValueError(f"{node.name} has no value: feed it")
    return values


# %% wrong="feeds_only_placeholders" question="evaluate" check="a_fed_node_is_not_computed" says="before you ask what kind"
def evaluate(fetches, feeds, state):
    values = {}
    for node in needed(fetches, {n: a for n, a in feeds.items() if isinstance(n, Placeholder)}):
        if isinstance(node, Placeholder) and node in feeds:
            values[node] = feeds[node]
        elif isinstance(node, Constant):
            values[node] = node.value
        elif node.op is not None:
            values[node] = node.op.compute(np, *[values[source] for source in node.inputs])
        elif node in state:
            values[node] = state[node]
        else:
            raise ValueError(f"{node.name} has no value: feed it, or initialise it")
    return values


# %% wrong="the_state_wins" question="evaluate" check="a_fed_node_is_not_computed" says="the feed wins"
def evaluate(fetches, feeds, state):
    values = {}
    for node in needed(fetches, feeds):
        if node in state:
            values[node] = state[node]
        elif node in feeds:
            values[node] = feeds[node]
        elif isinstance(node, Constant):
            values[node] = node.value
        elif node.op is not None:
            values[node] = node.op.compute(np, *[values[source] for source in node.inputs])
        else:
            raise ValueError(f"{node.name} has no value: feed it, or initialise it")
    return values


# %% wrong="constants_cannot_be_fed" question="evaluate" check="a_fed_node_is_not_computed" says="a constant too"
def evaluate(fetches, feeds, state):
    values = {}
    for node in needed(fetches, feeds):
        if isinstance(node, Constant):
            values[node] = node.value
        elif node in feeds:
            values[node] = feeds[node]
        elif node.op is not None:
            values[node] = node.op.compute(np, *[values[source] for source in node.inputs])
        elif node in state:
            values[node] = state[node]
        else:
            raise ValueError(f"{node.name} has no value")
    return values


# %% wrong="goes_on_in_the_feeds" question="evaluate" check="feeds_and_state_stay_as_they_are" says="Where do yours belong"
def evaluate(fetches, feeds, state):
    values = feeds
    for node in needed(fetches, feeds):
        if node in feeds:
            continue
        if isinstance(node, Constant):
            values[node] = node.value
        elif node.op is not None:
            values[node] = node.op.compute(np, *[values[source] for source in node.inputs])
        elif node in state:
            values[node] = state[node]
        else:
            raise ValueError(f"{node.name} has no value")
    return values


# %% wrong="computes_again_for_each_user" question="evaluate" check="each_operator_runs_once" says="Compute it once"
def evaluate(fetches, feeds, state):
    values = {}

    def value(node):
        if node in feeds:
            values[node] = feeds[node]
        elif isinstance(node, Constant):
            values[node] = node.value
        elif node.op is not None:
            values[node] = node.op.compute(np, *[value(source) for source in node.inputs])
        elif node in state:
            values[node] = state[node]
        else:
            raise ValueError(f"{node.name} has no value: feed it, or initialise it")
        return values[node]

    for node in fetches:
        value(node)
    return values


# %% wrong="lets_the_dict_complain" question="evaluate" check="a_missing_value_is_named" says="expected a ValueError"
def evaluate(fetches, feeds, state):
    values = {}
    for node in needed(fetches, feeds):
        if node in feeds:
            values[node] = feeds[node]
        elif isinstance(node, Constant):
            values[node] = node.value
        elif node.op is not None:
            values[node] = node.op.compute(np, *[values[source] for source in node.inputs])
        else:
            values[node] = state[node]
    return values


# %% wrong="the_last_partial_wins" question="gradients" check="partial_adjoints_add_up" says="replace the first"
def gradients(loss, wanted):
    adjoint = {loss: as_node(1.0)}
    for node in reversed(needed([loss], {})):
        if node.op is None or node not in adjoint:
            continue
        partials = node.op.gradient(adjoint[node], node)
        if not isinstance(partials, tuple):
            partials = (partials,)
        for source, partial in zip(node.inputs, partials):
            if partial is not None:
                adjoint[source] = partial
    return [adjoint.get(node) for node in wanted]


# %% wrong="hands_on_too_early" question="gradients" check="users_deliver_before_a_node_hands_on" says="get their turn"
def gradients(loss, wanted):
    adjoint = {loss: as_node(1.0)}
    queue, visited = [loss], set()
    while queue:
        node = queue.pop(0)
        if node.op is None or node in visited:
            continue
        visited.add(node)
        partials = node.op.gradient(adjoint[node], node)
        if not isinstance(partials, tuple):
            partials = (partials,)
        for source, partial in zip(node.inputs, partials):
            if partial is None:
                continue
            adjoint[source] = adjoint[source] + partial if source in adjoint else partial
            queue.append(source)
    return [adjoint.get(node) for node in wanted]


# %% wrong="stops_at_none" question="gradients" check="a_rule_may_give_a_node_or_a_tuple" says="No gradient for an input"
def gradients(loss, wanted):
    adjoint = {loss: as_node(1.0)}
    for node in reversed(needed([loss], {})):
        if node.op is None or node not in adjoint:
            continue
        partials = node.op.gradient(adjoint[node], node)
        if not isinstance(partials, tuple):
            partials = (partials,)
        for source, partial in zip(node.inputs, partials):
            if partial is None:
                break
            if source in adjoint:
                partial = adjoint[source] + partial
            adjoint[source] = partial
    return [adjoint.get(node) for node in wanted]


# %% wrong="forgets_what_it_has_handed_on" question="gradients" check="any_node_may_be_wanted" says="at the end"
def gradients(loss, wanted):
    adjoint = {loss: as_node(1.0)}
    for node in reversed(needed([loss], {})):
        if node.op is None or node not in adjoint:
            continue
        partials = node.op.gradient(adjoint.pop(node), node)
        if not isinstance(partials, tuple):
            partials = (partials,)
        for source, partial in zip(node.inputs, partials):
            if partial is None:
                continue
            if source in adjoint:
                partial = adjoint[source] + partial
            adjoint[source] = partial
    return [adjoint.get(node) for node in wanted]


# %% wrong="zeros_for_the_unused" question="gradients" check="what_does_not_matter_has_none" says="No path, no gradient"
def gradients(loss, wanted):
    adjoint = {loss: as_node(1.0)}
    for node in reversed(needed([loss], {})):
        if node.op is None or node not in adjoint:
            continue
        partials = node.op.gradient(adjoint[node], node)
        if not isinstance(partials, tuple):
            partials = (partials,)
        for source, partial in zip(node.inputs, partials):
            if partial is None:
                continue
            adjoint[source] = adjoint[source] + partial if source in adjoint else partial
    return [adjoint.get(node, Constant(np.zeros(node.shape))) for node in wanted]


# %% wrong="takes_a_node_for_a_tuple" question="gradients" check="a_rule_may_give_a_node_or_a_tuple" says="which is no tuple yet"
def gradients(loss, wanted):
    adjoint = {loss: as_node(1.0)}
    for node in reversed(needed([loss], {})):
        if node.op is None or node not in adjoint:
            continue
        partials = node.op.gradient(adjoint[node], node)
        for source, partial in zip(node.inputs, partials):
            if partial is None:
                continue
            adjoint[source] = adjoint[source] + partial if source in adjoint else partial
    return [adjoint.get(node) for node in wanted]


# %% wrong="runs_them" question="gradients" check="partial_adjoints_add_up" says="Nothing may run here"
def gradients(loss, wanted):
    return [np.zeros(node.shape, np.float32) for node in wanted]


# %% wrong="writes_as_it_goes" question="Session" check="all_reads_come_before_all_writes" says="see the first one's result"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {node: np.asarray(v, np.float32) for node, v in (feed_dict or {}).items()}
        several = isinstance(fetches, list)
        results = []
        for fetch in fetches if several else [fetches]:
            values = evaluate([fetch], feeds, self.state)
            for node, value in values.items():
                if isinstance(node.op, AssignOp):
                    self.state[node.op.variable] = np.array(value)
            results.append(values[fetch])
        return results if several else results[0]


# %% wrong="forgets_to_write" question="Session" check="assignments_last" says="go into self.state"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {node: np.asarray(v, np.float32) for node, v in (feed_dict or {}).items()}
        several = isinstance(fetches, list)
        nodes = fetches if several else [fetches]
        for node in every_node(*nodes):
            if isinstance(node, Variable):
                self.state.setdefault(node, node.initial)
        values = evaluate(nodes, feeds, self.state)
        results = [values[node] for node in nodes]
        return results if several else results[0]


# %% wrong="one_state_for_all" question="Session" check="assignments_last" says="state of its own"
class Session:
    common = {}  # noqa: RUF012 - the mistake itself

    def __init__(self):
        self.state = Session.common

    def run(self, fetches, feed_dict=None):
        feeds = {node: np.asarray(v, np.float32) for node, v in (feed_dict or {}).items()}
        several = isinstance(fetches, list)
        nodes = fetches if several else [fetches]
        values = evaluate(nodes, feeds, self.state)
        for node, value in values.items():
            if isinstance(node.op, AssignOp):
                self.state[node.op.variable] = np.array(value)
        results = [values[node] for node in nodes]
        return results if several else results[0]


# %% wrong="only_fetched_assignments" question="Session" check="assignments_last" says="wherever it was needed"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {node: np.asarray(v, np.float32) for node, v in (feed_dict or {}).items()}
        several = isinstance(fetches, list)
        nodes = fetches if several else [fetches]
        values = evaluate(nodes, feeds, self.state)
        for node in nodes:
            if isinstance(node.op, AssignOp):
                self.state[node.op.variable] = np.array(values[node])
        results = [values[node] for node in nodes]
        return results if several else results[0]


# %% wrong="always_a_list" question="Session" check="a_run_gives_what_was_fetched" says="only where a list was asked for"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {node: np.asarray(v, np.float32) for node, v in (feed_dict or {}).items()}
        nodes = fetches if isinstance(fetches, list) else [fetches]
        values = evaluate(nodes, feeds, self.state)
        for node, value in values.items():
            if isinstance(node.op, AssignOp):
                self.state[node.op.variable] = np.array(value)
        return [values[node] for node in nodes]


# %% wrong="counts_the_fetches" question="Session" check="a_run_gives_what_was_fetched" says="a list only where a list"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {node: np.asarray(v, np.float32) for node, v in (feed_dict or {}).items()}
        nodes = fetches if isinstance(fetches, list) else [fetches]
        values = evaluate(nodes, feeds, self.state)
        for node, value in values.items():
            if isinstance(node.op, AssignOp):
                self.state[node.op.variable] = np.array(value)
        results = [values[node] for node in nodes]
        return results if len(results) > 1 else results[0]


# %% wrong="keeps_what_is_fed" question="Session" check="what_is_not_fetched_writes_nothing" says="it holds for one run"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {node: np.asarray(v, np.float32) for node, v in (feed_dict or {}).items()}
        several = isinstance(fetches, list)
        nodes = fetches if several else [fetches]
        values = evaluate(nodes, feeds, self.state)
        self.state |= {node: v for node, v in values.items() if isinstance(node, Variable)}
        for node, value in values.items():
            if isinstance(node.op, AssignOp):
                self.state[node.op.variable] = np.array(value)
        results = [values[node] for node in nodes]
        return results if several else results[0]


# %% wrong="feeds_no_zeros" question="Session" check="what_is_not_fetched_writes_nothing" says="zero too"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {
            node: np.asarray(v, np.float32) for node, v in (feed_dict or {}).items() if np.any(v)
        }
        several = isinstance(fetches, list)
        nodes = fetches if several else [fetches]
        values = evaluate(nodes, feeds, self.state)
        for node, value in values.items():
            if isinstance(node.op, AssignOp):
                self.state[node.op.variable] = np.array(value)
        results = [values[node] for node in nodes]
        return results if several else results[0]


# %% wrong="keeps_the_callers_array" question="Session" check="the_state_is_the_sessions_own" says="Whose array"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {node: np.asarray(v, np.float32) for node, v in (feed_dict or {}).items()}
        several = isinstance(fetches, list)
        nodes = fetches if several else [fetches]
        values = evaluate(nodes, feeds, self.state)
        for node, value in values.items():
            if isinstance(node.op, AssignOp):
                self.state[node.op.variable] = value
        results = [values[node] for node in nodes]
        return results if several else results[0]


# %% wrong="moves_by_the_old_velocity" question="minimize" check="the_velocity_is_remembered" says="still has the old one"
def minimize(loss, variables, lr, momentum=0.9):
    updates = []
    for variable, grad in zip(variables, gradients(loss, variables)):
        slot = Variable(np.zeros(variable.shape), f"{variable.name}/velocity")
        velocity = momentum * slot + grad
        updates += [assign(slot, velocity), assign(variable, variable - lr * (grad + 0.5 * slot))]
    return group(*updates)


# %% wrong="forgets_the_velocity" question="minimize" check="the_velocity_is_remembered" says="Which v moves w"
def minimize(loss, variables, lr, momentum=0.9):
    updates = []
    for variable, grad in zip(variables, gradients(loss, variables)):
        slot = Variable(np.zeros(variable.shape), f"{variable.name}/velocity")
        velocity = momentum * slot + grad
        updates.append(assign(variable, variable - lr * velocity))
    return group(*updates)


# %% wrong="goes_uphill" question="minimize" check="the_first_step_goes_downhill" says="Against it"
def minimize(loss, variables, lr, momentum=0.9):
    updates = []
    for variable, grad in zip(variables, gradients(loss, variables)):
        slot = Variable(np.zeros(variable.shape), f"{variable.name}/velocity")
        velocity = momentum * slot + grad
        updates += [assign(slot, velocity), assign(variable, variable + lr * velocity)]
    return group(*updates)


# %% wrong="the_velocity_lags_a_step" question="minimize" check="the_first_step_goes_downhill" says="lr times as far"
def minimize(loss, variables, lr, momentum=0.9):
    updates = []
    for variable, grad in zip(variables, gradients(loss, variables)):
        slot = Variable(np.zeros(variable.shape), f"{variable.name}/velocity")
        velocity = momentum * slot + grad
        updates += [assign(slot, velocity), assign(variable, variable - lr * slot)]
    return group(*updates)


# %% wrong="one_velocity_for_all" question="minimize" check="the_first_step_goes_downhill" says="Whose velocity"
def minimize(loss, variables, lr, momentum=0.9):
    updates = []
    slot = Variable(np.zeros(variables[0].shape), "velocity")
    for variable, grad in zip(variables, gradients(loss, variables)):
        velocity = momentum * slot + grad
        updates += [assign(slot, velocity), assign(variable, variable - lr * velocity)]
    return group(*updates)


# %% wrong="returns_nothing" question="PrintOp" check="the_value_passes_unchanged" says="return what came in"
class PrintOp(Op):
    def __init__(self, label):
        self.label = label

    def compute(self, xp, x):
        print(self.label, x)
        return xp.zeros(x.shape)

    def gradient(self, out_grad, node):
        return out_grad

    def infer(self, x):
        return x


# %% wrong="stops_the_adjoint" question="PrintOp" check="the_adjoint_passes_unchanged" says="What arrives at it"
class PrintOp(Op):
    def __init__(self, label):
        self.label = label

    def compute(self, xp, x):
        print(self.label, x)
        return x

    def gradient(self, out_grad, node):
        return out_grad * 0.0

    def infer(self, x):
        return x


# %% wrong="hands_on_the_value" question="PrintOp" check="the_adjoint_passes_unchanged" says="What arrives at it"
class PrintOp(Op):
    def __init__(self, label):
        self.label = label

    def compute(self, xp, x):
        print(self.label, x)
        return x

    def gradient(self, out_grad, node):
        return node.inputs[0]

    def infer(self, x):
        return x


# %% wrong="an_adjoint_of_one" question="PrintOp" check="the_adjoint_passes_unchanged" says="in which shape"
class PrintOp(Op):
    def __init__(self, label):
        self.label = label

    def compute(self, xp, x):
        print(self.label, x)
        return x

    def gradient(self, out_grad, node):
        return as_node(1.0)

    def infer(self, x):
        return x


# %% wrong="prints_while_building" question="PrintOp" check="each_run_prints_label_and_value" says="into compute"
class PrintOp(Op):
    def __init__(self, label):
        self.label = label

    def compute(self, xp, x):
        return x

    def gradient(self, out_grad, node):
        return out_grad

    def infer(self, x):
        print(self.label, x)
        return x


# %% wrong="prints_no_value" question="PrintOp" check="each_run_prints_label_and_value" says="the array: print it"
class PrintOp(Op):
    def __init__(self, label):
        self.label = label

    def compute(self, xp, x):
        print(self.label)
        return x

    def gradient(self, out_grad, node):
        return out_grad

    def infer(self, x):
        return x


# %% wrong="freezes_the_variables" question="Plan" check="variables_are_read_in_each_run" says="must a run look up"
class Plan:
    def __init__(self, fetches, inputs):
        order = needed(fetches, set(inputs))
        slot = {node: i for i, node in enumerate(order)}
        self.template, self.reads, self.writes, self.steps = [None] * len(order), [], [], []
        self.inputs = [slot.get(node) for node in inputs]
        self.fetches = [slot[node] for node in fetches]
        self.frozen = {}
        for node, place in slot.items():
            if place in self.inputs:
                continue
            if isinstance(node, Constant):
                self.template[place] = node.value
            elif node.op is None:
                self.frozen[place] = node
            else:
                self.steps.append((node.op, [slot[s] for s in node.inputs], place))
            if isinstance(node.op, AssignOp):
                self.writes.append((node.op.variable, place))

    def __call__(self, state, *arrays):
        for place, variable in self.frozen.items():
            self.template[place] = state[variable]
        self.frozen = {}
        values = self.template.copy()
        for place, array in zip(self.inputs, arrays):
            if place is not None:
                values[place] = array
        for op, sources, place in self.steps:
            values[place] = op.compute(np, *[values[i] for i in sources])
        for variable, place in self.writes:
            state[variable] = values[place]
        return [values[place] for place in self.fetches]


# %% wrong="computes_fed_operators" question="Plan" check="a_fed_operator_needs_no_step" says="Does your plan ask for it"
class Plan(Plan):
    def __init__(self, fetches, inputs):
        order = needed(fetches, set(inputs))
        slot = {node: i for i, node in enumerate(order)}
        self.template, self.reads, self.writes, self.steps = [None] * len(order), [], [], []
        self.inputs = [slot.get(node) for node in inputs]
        self.fetches = [slot[node] for node in fetches]
        for node, place in slot.items():
            if isinstance(node, Constant):
                self.template[place] = node.value
            elif isinstance(node, Variable):
                self.reads.append((place, node))
            elif node.op is not None:
                self.steps.append((node.op, [slot[s] for s in node.inputs], place))
            if isinstance(node.op, AssignOp):
                self.writes.append((node.op.variable, place))


# %% wrong="plans_no_writes" question="Plan" check="assignments_change_the_state" says="noted in writes too"
class Plan(Plan):
    def __init__(self, fetches, inputs):
        order = needed(fetches, set(inputs))
        slot = {node: i for i, node in enumerate(order)}
        self.template, self.reads, self.writes, self.steps = [None] * len(order), [], [], []
        self.inputs = [slot.get(node) for node in inputs]
        self.fetches = [slot[node] for node in fetches]
        for node, place in slot.items():
            if place in self.inputs:
                continue
            if isinstance(node, Constant):
                self.template[place] = node.value
            elif node.op is None:
                self.reads.append((place, node))
            else:
                self.steps.append((node.op, [slot[s] for s in node.inputs], place))


# %% wrong="inputs_in_another_order" question="Plan" check="a_plan_computes_the_fetches" says="in the order of"
class Plan(Plan):
    def __init__(self, fetches, inputs):
        order = needed(fetches, set(inputs))
        slot = {node: i for i, node in enumerate(order)}
        self.template, self.reads, self.writes, self.steps = [None] * len(order), [], [], []
        self.inputs = [place for node, place in slot.items() if any(node is i for i in inputs)]
        self.fetches = [slot[node] for node in fetches]
        for node, place in slot.items():
            if place in self.inputs:
                continue
            if isinstance(node, Constant):
                self.template[place] = node.value
            elif node.op is None:
                self.reads.append((place, node))
            else:
                self.steps.append((node.op, [slot[s] for s in node.inputs], place))
            if isinstance(node.op, AssignOp):
                self.writes.append((node.op.variable, place))


# %% wrong="reads_a_fed_variable" question="Plan" check="a_fed_operator_needs_no_step" says="wins over the state"
class Plan(Plan):
    def __init__(self, fetches, inputs):
        order = needed(fetches, set(inputs))
        slot = {node: i for i, node in enumerate(order)}
        self.template, self.reads, self.writes, self.steps = [None] * len(order), [], [], []
        self.inputs = [slot.get(node) for node in inputs]
        self.fetches = [slot[node] for node in fetches]
        for node, place in slot.items():
            if isinstance(node, Constant):
                self.template[place] = node.value
            elif isinstance(node, Variable):
                self.reads.append((place, node))
            elif node.op is not None and place not in self.inputs:
                self.steps.append((node.op, [slot[s] for s in node.inputs], place))
            if isinstance(node.op, AssignOp):
                self.writes.append((node.op.variable, place))


# %% wrong="one_node_for_equal_calls" question="record" check="each_call_makes_a_node" says="two calls mean two nodes"
_seen = {}


def record(op, inputs):
    nodes = [as_node(v) for v in inputs]
    key = (op.name, *map(id, nodes))
    if key not in _seen:
        spec = op.infer(*[Spec(n.shape, n.dtype) for n in nodes])
        _seen[key] = Node(op, nodes, spec.shape, spec.dtype, op.name)
    return _seen[key]


# %% wrong="takes_each_input_once" question="record" check="each_call_makes_a_node" says="both are x"
def record(op, inputs):
    nodes = list(dict.fromkeys(as_node(v) for v in inputs))
    spec = op.infer(*[Spec(n.shape, n.dtype) for n in nodes])
    return Node(op, nodes, spec.shape, spec.dtype, op.name)


# %% wrong="knows_all_sizes" question="record" check="shape_and_dtype_are_inferred" says="op.infer"
def record(op, inputs):
    nodes = [as_node(v) for v in inputs]
    spec = op.infer(*[Spec(tuple(s or 1 for s in n.shape), n.dtype) for n in nodes])
    return Node(op, nodes, spec.shape, spec.dtype, op.name)


# %% wrong="takes_all_for_float32" question="record" check="shape_and_dtype_are_inferred" says="op.infer"
def record(op, inputs):
    nodes = [as_node(v) for v in inputs]
    spec = op.infer(*[Spec(n.shape, np.dtype(np.float32)) for n in nodes])
    return Node(op, nodes, spec.shape, spec.dtype, op.name)


# %% wrong="named_by_its_class" question="record" check="shape_and_dtype_are_inferred" says="op.name"
def record(op, inputs):
    nodes = [as_node(v) for v in inputs]
    spec = op.infer(*[Spec(n.shape, n.dtype) for n in nodes])
    return Node(op, nodes, spec.shape, spec.dtype, type(op).__name__.lower())


# %% wrong="searches_its_list" question="needed" check="the_work_grows_with_the_nodes" says="whether a node is known"
def needed(fetches, feeds):
    order = []
    stack = [(n, False) for n in fetches]
    while stack:
        n, d = stack.pop()
        if any(n is o for o in order):
            continue
        if d:
            order.append(n)
        else:
            stack.append((n, True))
            if n not in feeds:
                stack.extend((s, False) for s in n.inputs)
    return order


# %% wrong="drops_repeats_at_the_end" question="needed" check="the_work_grows_with_the_nodes" says="along each path"
def needed(fetches, feeds):
    order = []
    stack = [(n, False) for n in fetches]
    while stack:
        n, d = stack.pop()
        if d:
            order.append(n)
        else:
            stack.append((n, True))
            if n not in feeds:
                stack.extend((s, False) for s in n.inputs)
    return list(dict.fromkeys(order))


# %% wrong="raises_the_limit_of_recursion" question="needed" check="a_deep_graph_is_no_problem" says="a thousand calls deep"
import sys


def needed(fetches, feeds):
    sys.setrecursionlimit(200_000)
    order, seen = [], set()

    def visit(n):
        if n in seen:
            return
        seen.add(n)
        if n not in feeds:
            for s in n.inputs:
                visit(s)
        order.append(n)

    for n in fetches:
        visit(n)
    return order


# %% wrong="expands_a_fed_fetch" question="needed" check="nothing_behind_a_fed_node" says="who still asks"
def needed(fetches, feeds):
    order, seen = [], set()
    stack = [(node, False) for node in fetches]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((s, False) for s in node.inputs if s not in feeds)
            for s in node.inputs:
                if s in feeds and s not in seen:
                    seen.add(s)
                    order.append(s)
    return order


# %% wrong="keeps_values_on_the_nodes" question="evaluate" check="values_are_those_of_the_operators" says="what the last one had"
def evaluate(fetches, feeds, state):
    values = {}
    for node in needed(fetches, feeds):
        if node in feeds:
            values[node] = feeds[node]
        elif isinstance(node, Constant):
            values[node] = node.value
        elif node.op is not None:
            if not node.inputs or not hasattr(node, "_v"):
                node._v = node.op.compute(np, *[values[s] for s in node.inputs])
            values[node] = node._v
        elif node in state:
            values[node] = state[node]
        else:
            raise ValueError(f"{node.name}")
    return values


# %% wrong="assigns_as_it_goes" question="evaluate" check="feeds_and_state_stay_as_they_are" says="Who writes, and when"
def evaluate(fetches, feeds, state):
    values = {}
    for node in needed(fetches, feeds):
        if node in feeds:
            values[node] = feeds[node]
        elif isinstance(node, Constant):
            values[node] = node.value
        elif node.op is not None:
            values[node] = node.op.compute(np, *[values[s] for s in node.inputs])
            if isinstance(node.op, AssignOp):
                state[node.op.variable] = values[node]
        elif node in state:
            values[node] = state[node]
        else:
            raise ValueError(f"{node.name}")
    return values


# %% wrong="another_error_for_placeholders" question="evaluate" check="a_missing_value_is_named" says="expected a ValueError"
def evaluate(fetches, feeds, state):
    values = {}
    for node in needed(fetches, feeds):
        if node in feeds:
            values[node] = feeds[node]
        elif isinstance(node, Constant):
            values[node] = node.value
        elif node.op is not None:
            values[node] = node.op.compute(np, *[values[s] for s in node.inputs])
        elif isinstance(node, Variable):
            if node not in state:
                raise ValueError(f"{node.name}")
            values[node] = state[node]
        else:
            raise RuntimeError(f"{node.name}")
    return values


# %% wrong="follows_every_path" question="gradients" check="each_rule_is_asked_once" says="more than 1,000 times"
def gradients(loss, wanted):
    total = {}
    stack = [(loss, as_node(1.0))]
    while stack:
        n, g = stack.pop()
        total[n] = total[n] + g if n in total else g
        if n.op is None:
            continue
        ps = n.op.gradient(g, n)
        ps = ps if isinstance(ps, tuple) else (ps,)
        stack += [(s, p) for s, p in zip(n.inputs, ps) if p is not None]
    return [total.get(w) for w in wanted]


# %% wrong="stops_at_what_is_wanted" question="gradients" check="any_node_may_be_wanted" says="[m, c, s, s]"
def gradients(loss, wanted):
    adjoint = {loss: as_node(1.0)}
    for node in reversed(needed([loss], dict.fromkeys(w for w in wanted if w is not loss))):
        if node.op is None or node not in adjoint:
            continue
        if any(node is w for w in wanted):
            continue
        ps = node.op.gradient(adjoint[node], node)
        if not isinstance(ps, tuple):
            ps = (ps,)
        for s, p in zip(node.inputs, ps):
            if p is not None:
                adjoint[s] = adjoint[s] + p if s in adjoint else p
    return [adjoint.get(n) for n in wanted]


# %% wrong="sweeps_for_each_wanted" question="gradients" check="each_rule_is_asked_once" says="When is an adjoint complete"
def gradients(loss, wanted):
    out = []
    for w in wanted:
        adjoint = {loss: as_node(1.0)}
        for node in reversed(needed([loss], {})):
            if node.op is None or node not in adjoint:
                continue
            ps = node.op.gradient(adjoint[node], node)
            if not isinstance(ps, tuple):
                ps = (ps,)
            for s, p in zip(node.inputs, ps):
                if p is not None:
                    adjoint[s] = adjoint[s] + p if s in adjoint else p
        out.append(adjoint.get(w))
    return out


# %% wrong="runs_assignments_behind_a_feed" question="Session" check="what_is_not_fetched_writes_nothing" says="did that assignment run"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {n: np.asarray(v, np.float32) for n, v in (feed_dict or {}).items()}
        nodes = fetches if isinstance(fetches, list) else [fetches]
        assigns = [n for n in every_node(*nodes) if isinstance(n.op, AssignOp)]
        values = evaluate([*nodes, *assigns], feeds, self.state)
        for n in assigns:
            self.state[n.op.variable] = np.array(values[n])
        r = [values[n] for n in nodes]
        return r if isinstance(fetches, list) else r[0]


# %% wrong="writes_into_the_old_array" question="Session" check="a_run_is_one_evaluation" says="into its memory"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {n: np.asarray(v, np.float32) for n, v in (feed_dict or {}).items()}
        several = isinstance(fetches, list)
        nodes = fetches if several else [fetches]
        values = evaluate(nodes, feeds, self.state)
        for node, value in values.items():
            if isinstance(node.op, AssignOp):
                v = node.op.variable
                if (
                    v in self.state
                    and np.shape(self.state[v]) == np.shape(value)
                    and np.ndim(value)
                ):
                    self.state[v][...] = value
                else:
                    self.state[v] = np.array(value)
        results = [values[n] for n in nodes]
        return results if several else results[0]


# %% wrong="evaluates_each_fetch" question="Session" check="a_run_is_one_evaluation" says="How many evaluations"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {n: np.asarray(v, np.float32) for n, v in (feed_dict or {}).items()}
        several = isinstance(fetches, list)
        nodes = fetches if several else [fetches]
        results, writes = [], {}
        for node in nodes:
            values = evaluate([node], feeds, self.state)
            results.append(values[node])
            for n, v in values.items():
                if isinstance(n.op, AssignOp):
                    writes[n.op.variable] = np.array(v)
        self.state.update(writes)
        return results if several else results[0]


# %% wrong="gives_each_fetch_once" question="Session" check="a_run_gives_what_was_fetched" says="[one, two, one]"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {n: np.asarray(v, np.float32) for n, v in (feed_dict or {}).items()}
        several = isinstance(fetches, list)
        nodes = fetches if several else [fetches]
        values = evaluate(nodes, feeds, self.state)
        for node, value in values.items():
            if isinstance(node.op, AssignOp):
                self.state[node.op.variable] = np.array(value)
        r = list({n: values[n] for n in nodes}.values())
        return r if several else r[0]


# %% wrong="slots_kept_by_name" question="minimize" check="each_variable_has_its_own_slot" says="makes its slots anew"
_slots = {}


def minimize(loss, variables, lr, momentum=0.9):
    updates = []
    for w, g in zip(variables, gradients(loss, variables)):
        slot = _slots.setdefault(w.name, Variable(np.zeros(w.shape), f"{w.name}/v"))
        new = momentum * slot + g
        updates += [assign(slot, new), assign(w, w - lr * new)]
    return group(*updates)


# %% wrong="slots_kept_by_variable" question="minimize" check="each_variable_has_its_own_slot" says="makes its slots anew"
_slots = {}


def minimize(loss, variables, lr, momentum=0.9):
    updates = []
    for w, g in zip(variables, gradients(loss, variables)):
        slot = _slots.setdefault(w, Variable(np.zeros(w.shape), f"{w.name}/v"))
        new = momentum * slot + g
        updates += [assign(slot, new), assign(w, w - lr * new)]
    return group(*updates)


# %% wrong="slots_on_the_variables" question="minimize" check="each_variable_has_its_own_slot" says="makes its slots anew"
def minimize(loss, variables, lr, momentum=0.9):
    updates = []
    for w, g in zip(variables, gradients(loss, variables)):
        if not hasattr(w, "slot"):
            w.slot = Variable(np.zeros(w.shape), "v")
        new = momentum * w.slot + g
        updates += [assign(w.slot, new), assign(w, w - lr * new)]
    return group(*updates)


# %% wrong="a_sweep_for_each_variable" question="minimize" check="each_variable_has_its_own_slot" says="One sweep gives"
def minimize(loss, variables, lr, momentum=0.9):
    updates = []
    for w in variables:
        (g,) = gradients(loss, [w])
        slot = Variable(np.zeros(w.shape), "v")
        new = momentum * slot + g
        updates += [assign(slot, new), assign(w, w - lr * new)]
    return group(*updates)


# %% wrong="prints_the_gradient_too" question="PrintOp" check="each_run_prints_label_and_value" says="One line a run"
class PrintOp(Op):
    def __init__(self, label):
        self.label = label

    def compute(self, xp, x):
        print(self.label, x)
        return x

    def gradient(self, out_grad, node):
        return PrintOp(self.label + " gradient")(out_grad)


# %% wrong="plans_each_fetch_once" question="Plan" check="a_plan_computes_the_fetches" says="plan(state"
class Plan:
    def __init__(self, fetches, inputs):
        order = needed(fetches, set(inputs))
        slot = {node: i for i, node in enumerate(order)}
        self.template, self.reads, self.writes, self.steps = [None] * len(order), [], [], []
        self.inputs = [slot.get(node) for node in inputs]
        self.fetches = [slot[node] for node in dict.fromkeys(fetches)]
        for node, place in slot.items():
            if place in self.inputs:
                continue
            if isinstance(node, Constant):
                self.template[place] = node.value
            elif node.op is None:
                self.reads.append((place, node))
            else:
                self.steps.append((node.op, [slot[s] for s in node.inputs], place))
            if isinstance(node.op, AssignOp):
                self.writes.append((node.op.variable, place))

    def __call__(self, state, *arrays):
        values = self.template.copy()
        for place, array in zip(self.inputs, arrays):
            if place is not None:
                values[place] = array
        for place, variable in self.reads:
            values[place] = state[variable]
        for op, sources, place in self.steps:
            values[place] = op.compute(np, *[values[i] for i in sources])
        for variable, place in self.writes:
            state[variable] = values[place]
        return [values[place] for place in self.fetches]


# %% wrong="takes_each_source_once" question="Plan" check="a_plan_computes_the_fetches" says="where the steps look for it"
class Plan:
    def __init__(self, fetches, inputs):
        order = needed(fetches, set(inputs))
        slot = {node: i for i, node in enumerate(order)}
        self.template, self.reads, self.writes, self.steps = [None] * len(order), [], [], []
        self.inputs = [slot.get(node) for node in inputs]
        self.fetches = [slot[node] for node in fetches]
        for node, place in slot.items():
            if place in self.inputs:
                continue
            if isinstance(node, Constant):
                self.template[place] = node.value
            elif node.op is None:
                self.reads.append((place, node))
            else:
                self.steps.append(
                    (node.op, list(dict.fromkeys(slot[s] for s in node.inputs)), place)
                )
            if isinstance(node.op, AssignOp):
                self.writes.append((node.op.variable, place))

    def __call__(self, state, *arrays):
        values = self.template.copy()
        for place, array in zip(self.inputs, arrays):
            if place is not None:
                values[place] = array
        for place, variable in self.reads:
            values[place] = state[variable]
        for op, sources, place in self.steps:
            values[place] = op.compute(np, *[values[i] for i in sources])
        for variable, place in self.writes:
            state[variable] = values[place]
        return [values[place] for place in self.fetches]


# %% wrong="does_not_assign_what_is_fed" question="Session" check="assignments_last" says="fed or not"
class Session:
    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        feeds = {n: np.asarray(v, np.float32) for n, v in (feed_dict or {}).items()}
        several = isinstance(fetches, list)
        nodes = fetches if several else [fetches]
        values = evaluate(nodes, feeds, self.state)
        new = {}
        for node in values:
            if isinstance(node.op, AssignOp) and node.op.variable not in feeds:
                new[node.op.variable] = np.array(values[node])
        self.state.update(new)
        results = [values[n] for n in nodes]
        return results if several else results[0]


# %% wrong="gives_each_wanted_once" question="gradients" check="any_node_may_be_wanted" says="as many as were wanted"
def gradients(loss, wanted):
    adjoint = {loss: as_node(1.0)}
    for node in reversed(needed([loss], {})):
        if node.op is None or node not in adjoint:
            continue
        ps = node.op.gradient(adjoint[node], node)
        if not isinstance(ps, tuple):
            ps = (ps,)
        for s, p in zip(node.inputs, ps):
            if p is not None:
                adjoint[s] = adjoint[s] + p if s in adjoint else p
    return [adjoint.get(n) for n in dict.fromkeys(wanted)]
