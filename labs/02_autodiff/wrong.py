"""Named wrong answers to lab 02: each must fail its own check, with a message of its own."""

import numpy as np

import minitorch as mt
from minitorch import Op


# %% wrong="sums_from_the_left" question="sum_to_shape" check="axes_in_front_are_summed_away" says="from the right"
def sum_to_shape(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.sum(dim=-1)
    for axis, size in enumerate(shape):
        if size == 1 and grad.shape[axis] != 1:
            grad = grad.sum(dim=axis, keepdim=True)
    return grad


# %% wrong="forgets_axes_of_size_one" question="sum_to_shape" check="axes_of_size_one_are_kept" says="size 1"
def sum_to_shape(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.sum(dim=0)
    return grad


# %% wrong="takes_the_mean" question="sum_to_shape" check="axes_in_front_are_summed_away" says="expected"
def sum_to_shape(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.mean(dim=0)
    for axis, size in enumerate(shape):
        if size == 1 and grad.shape[axis] != 1:
            grad = grad.mean(dim=axis, keepdim=True)
    return grad


# %% wrong="stops_at_the_first_axis" question="sum_to_shape" check="axes_of_size_one_are_kept" says="An axis of size 1 was copied"
def sum_to_shape(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.sum(dim=0)
    for axis, size in enumerate(shape):
        if size == 1 and grad.shape[axis] != 1:
            return grad.sum(dim=axis, keepdim=True)
    return grad


# %% wrong="drops_the_axis_of_size_one" question="sum_to_shape" check="axes_of_size_one_are_kept" says="must still be there"
def sum_to_shape(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.sum(dim=0)
    for axis in reversed(range(len(shape))):
        if shape[axis] == 1 and grad.shape[axis] != 1:
            grad = grad.sum(dim=axis)
    return grad


# %% wrong="sums_always" question="sum_to_shape" check="equal_shapes_pass_unchanged" says="nothing to add up"
def sum_to_shape(grad, shape):
    if tuple(grad.shape) == tuple(shape):
        return grad.sum()
    while grad.ndim > len(shape):
        grad = grad.sum(dim=0)
    for axis, size in enumerate(shape):
        if size == 1 and grad.shape[axis] != 1:
            grad = grad.sum(dim=axis, keepdim=True)
    return grad


# %% wrong="sums_and_forgets" question="sum_to_shape" check="the_sum_has_a_gradient" says="which of your lines forgets it"
def sum_to_shape(grad, shape):
    grad = grad.detach()
    while grad.ndim > len(shape):
        grad = grad.sum(dim=0)
    for axis, size in enumerate(shape):
        if size == 1 and grad.shape[axis] != 1:
            grad = grad.sum(dim=axis, keepdim=True)
    return grad


# %% wrong="ignores_what_arrives" question="ExpOp" check="exp_gradient_follows_the_chain_rule" says="from above"
class ExpOp(Op):
    def compute(self, xp, x):
        return xp.exp(x)

    def gradient(self, out_grad, node):
        (x,) = node.inputs
        return mt.exp(x)


# %% wrong="passes_on_what_arrives" question="ExpOp" check="exp_gradient_follows_the_chain_rule" says="from above"
class ExpOp(Op):
    def compute(self, xp, x):
        return xp.exp(x)

    def gradient(self, out_grad, node):
        return out_grad


# %% wrong="another_base" question="ExpOp" check="exp_computes" says="xp.exp"
class ExpOp(Op):
    def compute(self, xp, x):
        return 2.0**x

    def gradient(self, out_grad, node):
        (x,) = node.inputs
        return out_grad * mt.exp(x)


# %% wrong="differentiates_in_numpy" question="ExpOp" check="exp_gradient_has_a_gradient" says="lost its history"
class ExpOp(Op):
    def compute(self, xp, x):
        return xp.exp(x)

    def gradient(self, out_grad, node):
        (x,) = node.inputs
        return out_grad * mt.exp(x.detach())


# %% wrong="leaves_the_graph_for_numpy" question="ExpOp" check="exp_gradient_has_a_gradient" says="none on NumPy arrays"
class ExpOp(Op):
    def compute(self, xp, x):
        return xp.exp(x)

    def gradient(self, out_grad, node):
        (x,) = node.inputs
        return mt.tensor(out_grad.detach().numpy() * np.exp(x.detach().numpy()))


# %% wrong="does_not_cross_over" question="MulOp" check="mul_gradients_cross_over" says="Whose value decides"
class MulOp(Op):
    def compute(self, xp, a, b):
        return a * b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        return sum_to_shape(out_grad * a, a.shape), sum_to_shape(out_grad * b, b.shape)


# %% wrong="forgets_the_broadcast" question="MulOp" check="mul_gradients_have_the_shapes_of_the_inputs" says="shape"
class MulOp(Op):
    def compute(self, xp, a, b):
        return a * b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        return out_grad * b, out_grad * a


# %% wrong="adds" question="MulOp" check="mul_computes" says="broadcasts by itself"
class MulOp(Op):
    def compute(self, xp, a, b):
        return a + b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        return sum_to_shape(out_grad * b, a.shape), sum_to_shape(out_grad * a, b.shape)


# %% wrong="freezes_the_factors" question="MulOp" check="mul_gradient_has_a_gradient" says="lost its history"
class MulOp(Op):
    def compute(self, xp, a, b):
        return a * b

    def gradient(self, out_grad, node):
        a, b = (value.detach() for value in node.inputs)
        return sum_to_shape(out_grad * b, a.shape), sum_to_shape(out_grad * a, b.shape)


# %% wrong="asks_the_library" question="MulOp" check="mul_gradients_cross_over" says="asks the library"
class MulOp(Op):
    def compute(self, xp, a, b):
        return a * b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        return mt.grad(a * b, [a, b], grad_outputs=out_grad, create_graph=True)


# %% wrong="multiplies_elementwise" question="MatMulOp" check="matmul_computes" says="columns of b"
class MatMulOp(Op):
    def compute(self, xp, a, b):
        return a * b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        return out_grad @ b.T, a.T @ out_grad


# %% wrong="forgets_to_transpose" question="MatMulOp" check="matmul_gradient_of_the_left_factor" says="write the shapes down"
class MatMulOp(Op):
    def compute(self, xp, a, b):
        return a @ b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        return out_grad @ b, a.T @ out_grad


# %% wrong="multiplies_from_the_wrong_side" question="MatMulOp" check="matmul_gradient_of_the_right_factor" says="has that shape"
class MatMulOp(Op):
    def compute(self, xp, a, b):
        return a @ b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        return out_grad @ b.T, out_grad @ a.T


# %% wrong="appends_before_the_inputs" question="topological_order" check="inputs_stand_before_their_users" says="only when all of its inputs"
def topological_order(output):
    order, seen, stack = [], set(), [output]
    while stack:
        value = stack.pop()
        if id(value) not in seen:
            seen.add(id(value))
            order.append(value)
            stack.extend(value.inputs)
    return order


# %% wrong="breadth_first_reversed" question="topological_order" check="inputs_stand_before_their_users" says="stands before one of its inputs"
def topological_order(output):
    order, seen, queue = [], {id(output)}, [output]
    while queue:
        value = queue.pop(0)
        order.append(value)
        for source in value.inputs:
            if id(source) not in seen:
                seen.add(id(source))
                queue.append(source)
    return order[::-1]


# %% wrong="visits_every_path" question="topological_order" check="each_value_occurs_once" says="know it again"
def topological_order(output):
    order, stack = [], [(output, False)]
    while stack:
        value, inputs_are_done = stack.pop()
        if inputs_are_done:
            order.append(value)
        else:
            stack.append((value, True))
            stack.extend((v, False) for v in value.inputs)
    return order


# %% wrong="leaves_out_the_leaves" question="topological_order" check="all_values_are_there" says="starts with leaves"
def topological_order(output):
    order, seen = [], set()
    stack = [(output, False)]
    while stack:
        value, inputs_are_done = stack.pop()
        if inputs_are_done:
            order.append(value)
        elif id(value) not in seen and value.inputs:
            seen.add(id(value))
            stack.append((value, True))
            stack.extend((v, False) for v in value.inputs)
    return order


# %% wrong="recurses" question="topological_order" check="a_deep_graph_is_no_problem" says="a thousand calls deep"
def topological_order(output):
    order, seen = [], set()

    def visit(value):
        if id(value) not in seen:
            seen.add(id(value))
            for source in value.inputs:
                visit(source)
            order.append(value)

    visit(output)
    return order


# %% wrong="yields_the_order" question="topological_order" check="all_values_are_there" says="what can be reversed"
def topological_order(output):
    seen, stack = set(), [(output, False)]
    while stack:
        value, inputs_are_done = stack.pop()
        if inputs_are_done:
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            stack.extend((v, False) for v in value.inputs)


# %% wrong="finds_the_order_in_the_frame_that_calls" question="topological_order" check="all_values_are_there" says="list starts with leaves"
def topological_order(output):
    import sys

    found = sys._getframe(1).f_locals
    return next((v for v in found.values() if isinstance(v, list) and v[-1] is output), [])


# %% wrong="the_last_partial_wins" question="gradients" check="partial_adjoints_add_up" says="replace the first"
def gradients(output, inputs):
    adjoint = {id(output): mt.ones_like(output)}
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint:
            continue
        partials = value.op.gradient(adjoint[id(value)], value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials, strict=True):
            if partial is not None:
                adjoint[id(source)] = partial
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]


# %% wrong="hands_on_too_early" question="gradients" check="users_deliver_before_a_value_hands_on" says="get their turn"
def gradients(output, inputs):
    adjoint = {id(output): mt.ones_like(output)}
    queue, visited = [output], set()
    while queue:
        value = queue.pop(0)
        if value.op is None or id(value) in visited:
            continue
        visited.add(id(value))
        partials = value.op.gradient(adjoint[id(value)], value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials, strict=True):
            if partial is None:
                continue
            if id(source) in adjoint:
                partial = adjoint[id(source)] + partial
            adjoint[id(source)] = partial
            queue.append(source)
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]


# %% wrong="knows_tuples_only" question="gradients" check="an_operator_may_return_a_list" says="take that list for"
def gradients(output, inputs):
    adjoint = {id(output): mt.ones_like(output)}
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint:
            continue
        partials = value.op.gradient(adjoint[id(value)], value)
        if not isinstance(partials, tuple):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials, strict=True):
            if partial is None:
                continue
            if id(source) in adjoint:
                partial = adjoint[id(source)] + partial
            adjoint[id(source)] = partial
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]


# %% wrong="keeps_the_adjoints" question="gradients" check="a_second_sweep_gives_the_same" says="of the first call"
adjoints_so_far = {}


def gradients(output, inputs):
    adjoint = adjoints_so_far
    adjoint[id(output)] = mt.ones_like(output)
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint:
            continue
        partials = value.op.gradient(adjoint[id(value)], value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials, strict=True):
            if partial is None:
                continue
            if id(source) in adjoint:
                partial = adjoint[id(source)] + partial
            adjoint[id(source)] = partial
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]


# %% wrong="stops_at_none" question="gradients" check="an_input_may_have_none" says="the one behind it"
def gradients(output, inputs):
    adjoint = {id(output): mt.ones_like(output)}
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint:
            continue
        partials = value.op.gradient(adjoint[id(value)], value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials, strict=True):
            if partial is None:
                break
            if id(source) in adjoint:
                partial = adjoint[id(source)] + partial
            adjoint[id(source)] = partial
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]


# %% wrong="forgets_what_it_has_handed_on" question="gradients" check="what_lies_between_has_a_gradient" says="Who still knows"
def gradients(output, inputs):
    adjoint = {id(output): mt.ones_like(output)}
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint:
            continue
        partials = value.op.gradient(adjoint.pop(id(value)), value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials, strict=True):
            if partial is None:
                continue
            if id(source) in adjoint:
                partial = adjoint[id(source)] + partial
            adjoint[id(source)] = partial
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]


# %% wrong="none_for_the_unused" question="gradients" check="an_unused_input_has_zeros" says="Of b's shape"
def gradients(output, inputs):
    adjoint = {id(output): mt.ones_like(output)}
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint:
            continue
        partials = value.op.gradient(adjoint[id(value)], value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials, strict=True):
            if partial is None:
                continue
            if id(source) in adjoint:
                partial = adjoint[id(source)] + partial
            adjoint[id(source)] = partial
    return [adjoint.get(id(value)) for value in inputs]


# %% wrong="adjoints_without_a_graph" question="gradients" check="a_gradient_has_a_gradient" says="Which of your lines makes a value"
def gradients(output, inputs):
    adjoint = {id(output): mt.ones_like(output)}
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint:
            continue
        partials = value.op.gradient(adjoint[id(value)], value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials, strict=True):
            if partial is None:
                continue
            partial = partial.detach()
            if id(source) in adjoint:
                partial = adjoint[id(source)] + partial
            adjoint[id(source)] = partial
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]


# %% wrong="sweeps_by_the_library" question="gradients" check="partial_adjoints_add_up" says="the sweep of the library"
def gradients(output, inputs):
    found = mt.grad(output.sum(), inputs, create_graph=True, allow_unused=True)
    return [mt.zeros_like(x) if g is None else g for g, x in zip(found, inputs)]


# %% wrong="one_sweep_only" question="hessian_vector_product" check="a_diagonal_hessian" says="before the second"
def hessian_vector_product(f, x, v):
    (slope,) = gradients(f(x), [x])
    return slope * v


# %% wrong="multiplies_last" question="hessian_vector_product" check="a_full_hessian" says="not only the diagonal"
def hessian_vector_product(f, x, v):
    (slope,) = gradients(f(x), [x])
    (curvature,) = gradients(slope.sum(), [x])
    return curvature * v


# %% wrong="takes_the_matrix_product" question="hessian_vector_product" check="x_may_have_any_shape" says="sums over all elements"
def hessian_vector_product(f, x, v):
    (slope,) = gradients(f(x), [x])
    (product,) = gradients(slope @ v, [x])
    return product


# %% wrong="cuts_the_slope_loose" question="hessian_vector_product" check="a_diagonal_hessian" says="expected"
def hessian_vector_product(f, x, v):
    (slope,) = gradients(f(x), [x])
    (product,) = gradients((slope.detach() * v * x).sum(), [x])
    return product


# %% wrong="forgets_the_vector" question="hessian_vector_product" check="a_full_hessian" says="sum after multiplying"
def hessian_vector_product(f, x, v):
    (slope,) = gradients(f(x), [x])
    (product,) = gradients(slope.sum(), [x])
    return product


# %% wrong="by_differences_of_slopes" question="hessian_vector_product" check="f_is_computed_at_x_alone" says="Differences lose digits"
def hessian_vector_product(f, x, v):
    sides = [
        mt.tensor(x.detach().numpy() + s * v.numpy(), requires_grad=True) for s in (1e-4, -1e-4)
    ]
    up, down = (gradients(f(side), [side])[0] for side in sides)
    return (up - down) / 2e-4


# %% wrong="goes_uphill" question="sgd_step" check="a_step_goes_against_the_gradient" says="points uphill"
def sgd_step(parameters, grads, lr):
    moved = [p.detach() + lr * g.detach() for p, g in zip(parameters, grads, strict=True)]
    return [mt.tensor(p.numpy(), requires_grad=True) for p in moved]


# %% wrong="forgets_the_rate" question="sgd_step" check="a_step_goes_against_the_gradient" says="how far to go"
def sgd_step(parameters, grads, lr):
    moved = [p.detach() - g.detach() for p, g in zip(parameters, grads, strict=True)]
    return [mt.tensor(p.numpy(), requires_grad=True) for p in moved]


# %% wrong="remembers_everything" question="sgd_step" check="new_parameters_are_leaves" says="a thousand steps"
def sgd_step(parameters, grads, lr):
    return [p - lr * g for p, g in zip(parameters, grads, strict=True)]


# %% wrong="new_parameters_cannot_learn" question="sgd_step" check="new_parameters_are_leaves" says="next step needs"
def sgd_step(parameters, grads, lr):
    return [p.detach() - lr * g.detach() for p, g in zip(parameters, grads, strict=True)]


# %% wrong="overwrites_the_old" question="sgd_step" check="old_parameters_stay" says="new ones instead"
def sgd_step(parameters, grads, lr):
    for p, g in zip(parameters, grads, strict=True):
        p.detach().numpy()[...] -= lr * g.detach().numpy()
    return [mt.tensor(p.detach().numpy(), requires_grad=True) for p in parameters]


# %% wrong="scales_the_gradients" question="sgd_step" check="old_parameters_stay" says="new product"
def sgd_step(parameters, grads, lr):
    with mt.no_grad():
        for g in grads:
            g *= lr
    moved = [p.detach() - g.detach() for p, g in zip(parameters, grads, strict=True)]
    return [mt.tensor(p.numpy(), requires_grad=True) for p in moved]


# %% wrong="sums_to_a_number_by_item" question="sum_to_shape" check="the_sum_has_a_gradient" says="which of your lines forgets it"
def sum_to_shape(grad, shape):
    if shape == ():
        return mt.tensor(grad.sum().item())
    while grad.ndim > len(shape):
        grad = grad.sum(dim=0)
    for axis, size in enumerate(shape):
        if size == 1 and grad.shape[axis] != 1:
            grad = grad.sum(dim=axis, keepdim=True)
    return grad


# %% wrong="asks_the_library_to_sum" question="sum_to_shape" check="axes_in_front_are_summed_away" says="Write it out"
def sum_to_shape(grad, shape):
    from minitorch.ops.shaping.broadcasting import sum_to

    return sum_to(grad, mt.zeros(*shape))


# %% wrong="keeps_its_last_input" question="ExpOp" check="exp_gradient_follows_the_chain_rule" says="many values of a graph"
class ExpOp(Op):
    def __call__(self, x):
        self.x = x
        return super().__call__(x)

    def compute(self, xp, x):
        return xp.exp(x)

    def gradient(self, out_grad, node):
        return out_grad * mt.exp(self.x)


# %% wrong="computes_in_single_precision" question="ExpOp" check="exp_computes" says="same dtype"
class ExpOp(Op):
    def compute(self, xp, x):
        return xp.exp(x).astype(np.float32)

    def gradient(self, out_grad, node):
        return out_grad * mt.exp(node.inputs[0])


# %% wrong="divides_the_product" question="MulOp" check="mul_gradients_cross_over" says="Whose value decides"
class MulOp(Op):
    def compute(self, xp, a, b):
        return a * b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        return sum_to_shape(out_grad * node / a, a.shape), sum_to_shape(
            out_grad * node / b, b.shape
        )


# %% wrong="squares_twice" question="MulOp" check="mul_gradients_cross_over" says="who adds up the two"
class MulOp(Op):
    def compute(self, xp, a, b):
        return a * b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        if a is b:
            return 2 * out_grad * a, 2 * out_grad * a
        return sum_to_shape(out_grad * b, a.shape), sum_to_shape(out_grad * a, b.shape)


# %% wrong="forgets_where_it_broadcasts" question="MulOp" check="mul_gradient_has_a_gradient" says="b broadcast"
class MulOp(Op):
    def compute(self, xp, a, b):
        return a * b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        ga, gb = out_grad * b, out_grad * a
        if a.shape != ga.shape:
            ga = sum_to_shape(ga.detach(), a.shape)
        if b.shape != gb.shape:
            gb = sum_to_shape(gb.detach(), b.shape)
        return ga, gb


# %% wrong="raises_the_limit_of_recursion" question="topological_order" check="a_deep_graph_is_no_problem" says="a thousand calls deep"
def topological_order(output):
    import sys

    sys.setrecursionlimit(10**6)
    order, seen = [], set()

    def visit(v):
        if id(v) in seen:
            return
        seen.add(id(v))
        for i in v.inputs:
            visit(i)
        order.append(v)

    visit(output)
    return order


# %% wrong="searches_its_list" question="topological_order" check="the_work_grows_with_the_values" says="whether a value is known"
def topological_order(output):
    order = []
    stack = [(output, False)]
    while stack:
        value, d = stack.pop()
        if d:
            if not any(value is o for o in order):
                order.append(value)
        elif not any(value is o for o in order):
            stack.append((value, True))
            stack.extend((v, False) for v in value.inputs)
    return order


# %% wrong="drops_repeats_at_the_end" question="topological_order" check="the_work_grows_with_the_values" says="along each path"
def topological_order(output):
    order, stack = [], [(output, False)]
    while stack:
        value, d = stack.pop()
        if d:
            order.append(value)
        else:
            stack.append((value, True))
            stack.extend((v, False) for v in value.inputs)
    return list({id(v): v for v in order}.values())


# %% wrong="sorts_by_the_shortest_way" question="topological_order" check="inputs_stand_before_their_users" says="stands before one of its inputs"
def topological_order(output):
    depth, queue, vals = {id(output): 0}, [output], {id(output): output}
    for v in queue:
        for i in v.inputs:
            if id(i) not in depth:
                depth[id(i)] = depth[id(v)] + 1
                vals[id(i)] = i
                queue.append(i)
    return sorted(vals.values(), key=lambda v: -depth[id(v)])


# %% wrong="leaves_out_constants" question="topological_order" check="all_values_are_there" says="wants no gradient"
def topological_order(output):
    order, seen = [], set()
    stack = [(output, False)]
    while stack:
        value, d = stack.pop()
        if d:
            order.append(value)
        elif id(value) not in seen and value.requires_grad:
            seen.add(id(value))
            stack.append((value, True))
            stack.extend((v, False) for v in value.inputs)
    return order


# %% wrong="looks_at_two_inputs" question="topological_order" check="all_values_are_there" says="three inputs"
def topological_order(output):
    order, seen = [], set()
    stack = [(output, False)]
    while stack:
        value, d = stack.pop()
        if d:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            stack.extend((v, False) for v in value.inputs[:2])
    return order


# %% wrong="forgets_a_leaf_alone" question="topological_order" check="all_values_are_there" says="a leaf is the output"
def topological_order(output):
    order, seen = [], set()
    stack = [(output, False)]
    while stack:
        value, d = stack.pop()
        if d:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            if value.op is None:
                if value is output:
                    return []
                order.append(value)
                continue
            stack.append((value, True))
            stack.extend((v, False) for v in value.inputs)
    return order


# %% wrong="leaves_out_the_output_itself" question="gradients" check="what_lies_between_has_a_gradient" says="if the output grows"
def gradients(output, inputs):
    adjoint = {}
    start = mt.ones_like(output)
    for value in reversed(topological_order(output)):
        g = start if value is output else adjoint.get(id(value))
        if value.op is None or g is None:
            continue
        partials = value.op.gradient(g, value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials):
            if partial is not None:
                adjoint[id(source)] = (
                    adjoint[id(source)] + partial if id(source) in adjoint else partial
                )
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]


# %% wrong="stops_at_what_is_asked_for" question="gradients" check="what_lies_between_has_a_gradient" says="x lies below s"
def gradients(output, inputs):
    wanted = {id(x) for x in inputs}
    adjoint = {id(output): mt.ones_like(output)}
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint or id(value) in wanted:
            continue
        partials = value.op.gradient(adjoint[id(value)], value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials):
            if partial is not None:
                adjoint[id(source)] = (
                    adjoint[id(source)] + partial if id(source) in adjoint else partial
                )
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]


# %% wrong="stores_on_the_values" question="gradients" check="nothing_is_stored_on_the_values" says="Whose place is that"
def gradients(output, inputs):
    order = topological_order(output)
    for v in order:
        v.grad = None
    output.grad = mt.ones_like(output)
    for value in reversed(order):
        if value.op is None or value.grad is None:
            continue
        partials = value.op.gradient(value.grad, value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials):
            if partial is not None:
                source.grad = partial if source.grad is None else source.grad + partial
    return [v.grad if v.grad is not None else mt.zeros_like(v) for v in inputs]


# %% wrong="asks_for_each_input" question="gradients" check="each_rule_is_asked_once" says="Why ask again"
def gradients(output, inputs):
    adjoint = {id(output): mt.ones_like(output)}
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint:
            continue
        for n, source in enumerate(value.inputs):
            partials = value.op.gradient(adjoint[id(value)], value)
            partial = partials[n] if isinstance(partials, (tuple, list)) else partials
            if partial is not None:
                adjoint[id(source)] = (
                    adjoint[id(source)] + partial if id(source) in adjoint else partial
                )
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]


# %% wrong="sweeps_for_each_input" question="gradients" check="each_rule_is_asked_once" says="Why ask again"
def gradients(output, inputs):
    def one(x):
        adjoint = {id(output): mt.ones_like(output)}
        for value in reversed(topological_order(output)):
            if value.op is None or id(value) not in adjoint:
                continue
            partials = value.op.gradient(adjoint[id(value)], value)
            if not isinstance(partials, tuple | list):
                partials = (partials,)
            for source, partial in zip(value.inputs, partials):
                if partial is not None:
                    adjoint[id(source)] = (
                        adjoint[id(source)] + partial if id(source) in adjoint else partial
                    )
        return adjoint.get(id(x), mt.zeros_like(x))

    return [one(x) for x in inputs]


# %% wrong="follows_every_path" question="gradients" check="each_rule_is_asked_once" says="more than 1,000 times"
def gradients(output, inputs):
    total = {}
    stack = [(output, mt.ones_like(output))]
    while stack:
        v, g = stack.pop()
        total[id(v)] = total[id(v)] + g if id(v) in total else g
        if v.op is None:
            continue
        ps = v.op.gradient(g, v)
        ps = ps if isinstance(ps, (tuple, list)) else (ps,)
        stack += [(i, p) for i, p in zip(v.inputs, ps) if p is not None]
    return [total.get(id(x), mt.zeros_like(x)) for x in inputs]


# %% wrong="a_sweep_for_each_element" question="hessian_vector_product" check="two_sweeps_are_enough" says="whole matrix"
def hessian_vector_product(f, x, v):
    (slope,) = gradients(f(x), [x])
    flat = slope.reshape(-1)
    vf = v.reshape(-1)
    total = mt.zeros_like(x)
    for i in range(flat.shape[0]):
        total = total + gradients(flat[i] * vf[i], [x])[0]
    return total


# %% wrong="writes_into_v" question="hessian_vector_product" check="a_diagonal_hessian" says="Both are the caller's"
def hessian_vector_product(f, x, v):
    (slope,) = gradients(f(x), [x])
    v *= slope
    (product,) = gradients(v.sum(), [x])
    return product


# %% wrong="moves_in_single_precision" question="sgd_step" check="a_step_goes_against_the_gradient" says="dtype float32"
def sgd_step(parameters, grads, lr):
    return [
        mt.tensor(
            (p.detach().numpy() - lr * g.detach().numpy()).astype(np.float32), requires_grad=True
        )
        for p, g in zip(parameters, grads)
    ]


# %% wrong="yields_the_parameters" question="sgd_step" check="a_step_goes_against_the_gradient" says="read"
def sgd_step(parameters, grads, lr):
    for p, g in zip(parameters, grads):
        yield mt.tensor((p.detach() - lr * g.detach()).numpy(), requires_grad=True)


# %% wrong="remembers_the_last_step" question="sgd_step" check="a_step_goes_against_the_gradient" says="no earlier one"
def sgd_step(parameters, grads, lr):
    momentum = getattr(sgd_step, "v", None) or [0.0] * len(parameters)
    sgd_step.v = momentum = [0.9 * m + g.detach().numpy() for m, g in zip(momentum, grads)]
    return [
        mt.tensor(p.detach().numpy() - lr * m, requires_grad=True)
        for p, m in zip(parameters, momentum)
    ]


# %% wrong="knows_no_leaf_as_output" question="gradients" check="what_lies_between_has_a_gradient" says="A leaf may be the output"
def gradients(output, inputs):
    if output.op is None:
        return [mt.zeros_like(v) for v in inputs]
    adjoint = {id(output): mt.ones_like(output)}
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint:
            continue
        partials = value.op.gradient(adjoint[id(value)], value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials):
            if partial is not None:
                adjoint[id(source)] = (
                    adjoint[id(source)] + partial if id(source) in adjoint else partial
                )
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]


# %% wrong="gives_each_input_once" question="gradients" check="what_lies_between_has_a_gradient" says="One gradient for each input"
def gradients(output, inputs):
    adjoint = {id(output): mt.ones_like(output)}
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint:
            continue
        partials = value.op.gradient(adjoint[id(value)], value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials):
            if partial is not None:
                adjoint[id(source)] = (
                    adjoint[id(source)] + partial if id(source) in adjoint else partial
                )
    out = {id(v): adjoint.get(id(v), mt.zeros_like(v)) for v in inputs}
    return list(out.values())


# %% wrong="adds_row_by_row" question="hessian_vector_product" check="x_may_have_any_shape" says="or numbers"
def hessian_vector_product(f, x, v):
    (slope,) = gradients(f(x), [x])
    number = None
    for i in range(len(x)):
        t = (slope[i] * v[i]).sum()
        number = t if number is None else number + t
    return gradients(number, [x])[0]


# %% wrong="gives_single_precision" question="hessian_vector_product" check="a_diagonal_hessian" says="dtype float32"
def hessian_vector_product(f, x, v):
    (slope,) = gradients(f(x), [x])
    (product,) = gradients((slope * v).sum(), [x])
    return mt.tensor(product.detach().numpy().astype(np.float32))


# %% wrong="leaves_a_grad_on_x" question="hessian_vector_product" check="a_diagonal_hessian" says="a place of its own"
def hessian_vector_product(f, x, v):
    (slope,) = gradients(f(x), [x])
    x.grad = slope
    (product,) = gradients((slope * v).sum(), [x])
    x.grad = product
    return product


# %% wrong="finds_gradients_by_shape" question="sgd_step" check="a_step_goes_against_the_gradient" says="points uphill"
def sgd_step(parameters, grads, lr):
    by = {tuple(g.shape): g for g in grads}
    return [
        mt.tensor((p.detach() - lr * by[tuple(p.shape)].detach()).numpy(), requires_grad=True)
        for p in parameters
    ]


# %% wrong="moves_two_parameters" question="sgd_step" check="a_step_goes_against_the_gradient" says="too many values"
def sgd_step(parameters, grads, lr):
    w, b = parameters
    gw, gb = grads
    return [
        mt.tensor((p.detach() - lr * g.detach()).numpy(), requires_grad=True)
        for p, g in ((w, gw), (b, gb))
    ]
