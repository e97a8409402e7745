"""Checks of lab 03: modules, a layer, optimizers, a network, a step, a write in a graph.

Expected values are closed forms in NumPy, float64, on inputs drawn anew. What runs beside the
learner's code is in the functions that `probe` sends.
"""

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close
from autograder.errors import StudentError

WITHHELD = (
    *("torch:", "minitorch.nn:Linear", "lessons.language.modules:Linear"),
    "minitorch.optim.optimizer:Optimizer",
    "minitorch.graph.train.optimizer:Optimizer",
)
LAB = LabSettings(memory_mib=2048, preload=("numpy", "minitorch"), withheld=WITHHELD)


# ---- 1. Parameter and Module


def describe_parameter(values):
    """Return (is a tensor, is a Parameter, wants a gradient, has a history, values, dtype)."""
    import minitorch as mt

    p = Parameter(values)
    facts = [isinstance(p, mt.Tensor), isinstance(p, Parameter), bool(p.requires_grad)]
    return [*facts, p.op is not None, p.detach().numpy(), str(p.detach().numpy().dtype)]


@check("Module")
def a_parameter_is_a_tensor_that_wants_a_gradient(student, rng):
    """a Parameter is a float32 tensor with these values, which wants a gradient"""
    student.probe(describe_parameter, values=[1.0, 2.0])  # a list, as later cells have it
    values = rng.normal(size=(2, 3))
    tensor, own, wants, history, got, dtype = student.probe(describe_parameter, values=values)
    if not (tensor and own):
        raise Feedback("Parameter(values) is not an object of the class Parameter.")
    if not wants or history:
        raise Feedback(
            "Parameter(values) is not a leaf that requires a gradient.",
            hint="Every tensor can be told: requires_grad_().",
        )
    if dtype != "float32":
        raise Feedback(f"Parameter(values) is {dtype}, expected float32.")
    close(got, values, called="Parameter(values)")


def walk_tree(arrays):
    """Build a module with one of each, and return (names, values) of a walk, names of a second.

    Between the two a parameter is added.
    """
    import minitorch as mt

    class Gain(Parameter):
        pass

    class Leaf(Module):
        def __init__(self, weight, bias):
            self.rate = 0.5
            self.weight = Parameter(weight)
            self.plain = mt.tensor(weight, requires_grad=True)
            self.bias = Parameter(bias)

    root = Module()
    root.gain = Gain(arrays[0])
    root.first = Leaf(arrays[1], arrays[2])
    root.nothing = None
    root.blocks = [Leaf(arrays[3], arrays[4]), 3, Leaf(arrays[5], arrays[6])]
    root.name = "root"
    root.last = Parameter(arrays[7])
    root.last.requires_grad_(False)
    root.outer = Module()
    root.outer.inner = Module()
    root.outer.inner.blocks = [Module()]
    root.outer.inner.blocks[0].deep = Parameter(arrays[8])
    first = [(n, p.detach().numpy()) for n, p in root.named_parameters()]
    root.added = Parameter(arrays[0])
    return [n for n, _ in first], [v for _, v in first], [n for n, _ in root.named_parameters()]


TREE = [
    *("gain", "first.weight", "first.bias", "blocks.0.weight", "blocks.0.bias"),
    *("blocks.2.weight", "blocks.2.bias", "last", "outer.inner.blocks.0.deep"),
]


@check("Module", weight=3)
def every_parameter_is_found_by_its_path(student, rng):
    """all parameters below a module are found, in order, with dotted names; nothing else is"""
    arrays = [np.array(rng.normal()), *(rng.normal(size=n) for n in rng.permutation(8) + 1)]
    names, values, second_names = student.probe(walk_tree, arrays=arrays)
    missing = [name for name in TREE if name not in names]
    strange = [name for name in names if name not in TREE]
    if missing or strange:
        raise Feedback(
            f"named_parameters: of {len(TREE)} names {len(missing)} are missing"
            f"{': ' + ', '.join(missing[:3]) if missing else ''}; "
            f"{len(strange)} do not belong{': ' + ', '.join(strange[:3]) if strange else ''}.",
            hint="Parameters, modules, modules in lists; the name is the path, with dots. What "
            "makes a tensor a parameter is its class, and nothing else.",
        )
    if names != TREE:
        raise Feedback(
            f"named_parameters: the order is {', '.join(names)}.",
            hint="In the order in which the attributes were set, children where they stand.",
        )
    close(values, arrays, called="values of named_parameters")
    if second_names != [*names, "added"]:
        raise Feedback(
            f"named_parameters: a second walk, with one parameter more, found "
            f"{len(second_names)} of {len(names) + 1}.",
            hint="What does the first walk leave behind? Each call begins anew.",
        )


def name_shared_parts(values):
    """Return the names that a module with shared parts yields, and how many distinct objects."""
    layer = Module()
    layer.weight = Parameter(values)
    layer.bias = Parameter(values)
    root = Module()
    root.encoder = [layer, layer]
    root.tied = layer.weight
    root.decoder = Module()
    root.decoder.layer = layer
    root.decoder.own = Parameter(values)
    pairs = list(root.named_parameters())
    return [name for name, _ in pairs], len({id(p) for _, p in pairs})


@check("Module", requires="every_parameter_is_found_by_its_path")
def a_shared_parameter_comes_once(student, rng):
    """a parameter that hangs in several places comes once, by its first name"""
    names, distinct = student.probe(name_shared_parts, values=rng.normal(size=3))
    if len(names) != distinct:
        raise Feedback(
            f"named_parameters: {distinct} parameters, some in several places, came {len(names)} "
            "times.",
            hint="What would an optimizer do to a weight that it is given twice? Keep what you "
            "have seen, and let the children know it.",
        )
    expected = ["encoder.0.weight", "encoder.0.bias", "decoder.own"]
    hint = "The first path on which a parameter is met names it. Equal values are not one object."
    close(names, expected, called="names with shared parts", hint=hint)


def name_odd_trees(values):
    """Return the names in a list of lists and in a tuple, and in a module of no parameters."""
    root = Module()
    root.rows = [[Parameter(values)], (Parameter(values), Module())]
    root.rows[1][1].w = Parameter(values)
    root._own = Parameter(values)
    return [name for name, _ in root.named_parameters()], list(Module().named_parameters())


@check("Module", requires="every_parameter_is_found_by_its_path")
def lists_of_lists_and_empty_modules(student, rng):
    """parameters in lists of lists are found; an empty module has none"""
    names, none = student.probe(name_odd_trees, values=rng.normal(size=2))
    hint = "`parts` opens lists of lists for you, and an underscore makes nobody a stranger."
    close(names, ["rows.0.0", "rows.1.0", "rows.1.1.w", "_own"], called="names in lists", hint=hint)
    close(none, [], called="an empty module", hint=hint)


# ---- 2. Linear


def run_layer(weight, bias, x):
    """Return what a layer with these weights gives for x."""
    import numpy as np

    import minitorch as mt

    layer = Linear(weight.shape[1], weight.shape[0], np.random.default_rng(0))
    with mt.no_grad():
        layer.weight.copy_(mt.tensor(weight))
        layer.bias.copy_(mt.tensor(bias))
    return layer(mt.tensor(x)).detach().numpy()


def run_layer_backward(x, arriving, seed):
    """Return (W, gradients of x, W and b) of a new layer, for an adjoint of its output.

    Another backward has been before, and its weights have doubled in place since.
    """
    import numpy as np

    import minitorch as mt

    layer = Linear(x.shape[1], arriving.shape[1], np.random.default_rng(seed))
    layer(mt.tensor(x)).sum().backward()
    with mt.no_grad():
        for p in layer.parameters():
            p.grad = None
            p *= 2.0
    inputs = mt.tensor(x, requires_grad=True)
    (layer(inputs) * mt.tensor(arriving)).sum().backward()
    grads = [p.grad for p in (inputs, layer.weight, layer.bias)]
    return layer.weight.detach().numpy(), [None if g is None else g.numpy() for g in grads]


@check("Linear", weight=2)
def the_layer_computes_x_w_transposed_plus_b(student, rng):
    """the layer gives x W^T + b for any number of rows"""
    for shape, n_out in (((5, 3), 4), ((4, 4), 4), ((2, 3, 6), 2), ((3,), 2)):
        w, b, x = (
            rng.normal(size=s).astype(np.float32) for s in ((n_out, shape[-1]), (n_out,), shape)
        )
        got = student.probe(run_layer, weight=w, bias=b, x=x)
        hint = "(N, n_in) times what is (N, n_out)? weight is (n_out, n_in)."
        close(got, x @ w.T + b, called=f"Linear on x {shape}", hint=hint)


def describe_new_layer(n_in, n_out, seed):
    """Return [(name, values)] of a new layer."""
    import numpy as np

    layer = Linear(n_in, n_out, np.random.default_rng(seed))
    pairs = list(layer.named_parameters())
    return [name for name, _ in pairs], [p.detach().numpy() for _, p in pairs]


@check("Linear", requires="the_layer_computes_x_w_transposed_plus_b")
def weight_and_bias_are_parameters(student, rng):
    """weight and bias are found as parameters, in their shapes, the bias zero"""
    names, values = student.probe(describe_new_layer, n_in=5, n_out=3, seed=0)
    if sorted(names) != ["bias", "weight"]:
        raise Feedback(
            f"The parameters of Linear(5, 3, rng) are {names}, expected weight and bias.",
            hint="An attribute of self that is a Parameter is found by your walk.",
        )
    arrays = dict(zip(names, values, strict=True))
    if arrays["weight"].shape != (3, 5) or arrays["bias"].shape != (3,):
        raise Feedback(
            f"Linear(5, 3, rng) has weight {arrays['weight'].shape} and bias "
            f"{arrays['bias'].shape}, expected (3, 5) and (3,)."
        )
    close(arrays["bias"], np.zeros(3), called="bias of a new layer", hint="It starts at zero.")
    if names != ["weight", "bias"]:
        raise Feedback(
            f"The parameters of Linear(5, 3, rng) come as {', '.join(names)}.",
            hint="Set self.weight first: later cells take the two in that order.",
        )


@check("Linear", requires="weight_and_bias_are_parameters")
def the_layer_can_learn(student, rng):
    """gradients of the output arrive at x, weight and bias"""
    x, arriving = (rng.normal(size=s).astype(np.float32) for s in ((5, 4), (5, 3)))
    hint = "Only operations on tensors are recorded: no .detach(), no .numpy() in forward. All of "
    hint += "them happen there, anew for each x."
    try:
        w, grads = student.probe(run_layer_backward, x=x, arriving=arriving, seed=0)
    except StudentError as error:
        said = str(error).rstrip(". ")
        raise Feedback(f"A second backward through the layer raised {said}.", hint=hint) from error
    expected = arriving @ w, arriving.T @ x, arriving.sum(axis=0)
    for name, grad, wanted in zip(("x", "weight", "bias"), grads, expected, strict=True):
        if grad is None:
            raise Feedback(f"After backward() {name} has no gradient.", hint=hint)
        close(grad, wanted, called=f"gradient of {name}", hint=hint)


@check("Linear", weight=2)
def the_signal_keeps_its_size(student, rng):
    """the weights have mean zero and the standard deviation of the formula"""
    for n_in, n_out in ((200, 300), (300, 100)):
        names, values = student.probe(
            describe_new_layer, n_in=n_in, n_out=n_out, seed=int(rng.integers(1000))
        )
        weight = dict(zip(names, values, strict=True)).get("weight", np.zeros(1))
        called, spread = f"Linear({n_in}, {n_out}, rng)", np.std(weight)
        near = {
            "that of the numbers of outputs. Whose sum is a pre-activation?": np.sqrt(2 / n_out),
            "right for a layer without ReLU. What does ReLU do to the mean square?": n_in**-0.5,
            "the variance that the formula asks for. Which root is missing?": 2 / n_in,
            "that of the standard normal distribution. Which factor is missing?": 1.0,
        }
        for what, other in near.items():
            if abs(spread / other - 1) < 0.02:
                raise Feedback(f"{called}: the weights' standard deviation is {what}")
        hint = "sigma_w is the root of 2/n, n the number of inputs."
        called = f"{called}: standard deviation of the weights"
        close(spread, np.sqrt(2 / n_in), called=called, hint=hint, rtol=0.02)
        if abs(weight.mean()) > 5 * spread / np.sqrt(weight.size):
            raise Feedback(f"Linear({n_in}, {n_out}, rng): the weights' mean is not zero.")


@check("Linear", requires="the_signal_keeps_its_size")
def weights_are_drawn_from_the_generator(student, rng):
    """weights are normal numbers from `rng`: one state, one layer"""
    seed = int(rng.integers(1000))
    layers = (
        student.probe(describe_new_layer, n_in=100, n_out=100, seed=s)
        for s in (seed, seed, seed + 1)
    )
    first, same_seed, other_seed = (
        dict(zip(names, values, strict=True)).get("weight", np.zeros(1)) for names, values in layers
    )
    hint = "Two layers made with equal generators are equal; all randomness is rng.normal's."
    if not np.array_equal(first, same_seed) or np.array_equal(first, other_seed):
        raise Feedback("Linear does not draw from rng alone.", hint=hint)
    beyond = np.mean(np.abs(first) > 2 * first.std())
    if not 0.035 < beyond < 0.056:  # 0.0455 for a normal distribution, 0 for a uniform one
        raise Feedback("The weights are not normally distributed.", hint=hint)


# ---- 3. and 4. Optimizers


def run_optimizer(name, arrays, grads, settings, changes, spoils=False, others=False):
    """Take a step for each item of `grads`; a None in it leaves its parameter without gradient.

    Each step begins with its `changes` of the optimizer's attributes. With `spoils` a gradient
    is overwritten behind its step; with `others` another optimizer, over other parameters, takes
    its own steps in between. Return (values after each step, same objects in the same memory and
    whether they still want gradients, the gradients of each step as they are at the end).
    """
    import numpy as np

    import minitorch as mt

    params = [Parameter(a) for a in arrays]
    before = [p.detach().numpy().ctypes.data for p in params]
    optimizer = globals()[name]((p for p in params), **settings)
    strangers = [Parameter(np.ones_like(a)) for a in arrays]
    other = globals()[name](strangers, **settings) if others else None
    path, grads_after = [], []
    for step_grads, change in zip(grads, changes, strict=True):
        for p, g in zip(params, step_grads, strict=True):
            p.grad = None if g is None else mt.tensor(np.array(g, np.float32))
        for attribute, value in change.items():
            setattr(optimizer, attribute, value)
        optimizer.step()
        path.append([p.detach().numpy().copy() for p in params])
        grads_after.append([p.grad for p in params])
        for stranger in strangers if others else ():
            stranger.grad = mt.ones_like(stranger.detach())
        if others:
            other.step()
            other.step()
        for p in params if spoils else ():
            p.grad.numpy()[...] = 99.0
    left = [[None if g is None else g.numpy() for g in grads] for grads in grads_after]
    same = [p.detach().numpy().ctypes.data for p in params] == before
    return path, (same, all(p.requires_grad and p.op is None for p in params)), left


SHAPES = ((2, 3), (4,), (1,), (4,))


def draw_arrays_and_grads(rng, steps):
    """Return (arrays, one list of gradients a step), float32; a gradient in the last is 0."""
    arrays = [rng.normal(size=s).astype(np.float32) for s in SHAPES]
    grads = [[rng.normal(size=s).astype(np.float32) for s in SHAPES] for _ in range(steps)]
    grads[-1][3][:] = 0.0
    return arrays, grads


def ask_optimizer(student, name, arrays, grads, changes=None, run=None, **settings):
    """Run a learner's optimizer; `run` are further arguments of `run_optimizer`."""
    inputs = {"arrays": arrays, "grads": grads, "changes": changes or [{} for _ in grads]}
    return student.probe(run_optimizer, name=name, settings=settings, **inputs, **(run or {}))


def require_place(name, state):
    """Raise Feedback where a parameter has moved in memory, or cannot learn any more."""
    same, leaves = state
    if not same:
        raise Feedback(f"After {name}.step() a parameter lies somewhere else.", hint="p -= ...")
    if not leaves:
        raise Feedback(
            f"After {name}.step() a parameter is no leaf that wants a gradient.",
            hint="The next backward needs it as it was. Who may write without being recorded?",
        )


def require_gradients(name, left):
    """Raise Feedback where a step has taken the gradients away."""
    if any(g is None for step in left for g in step):
        raise Feedback(
            f"After {name}.step() a gradient is None.",
            hint="zero_grad() takes gradients away, before the next backward; step leaves them.",
        )


def require_movement(name, arrays, path):
    """Raise Feedback where no parameter has ever changed."""
    if all(np.array_equal(a, p) for a, p in zip(arrays, path[-1], strict=True)):
        raise Feedback(
            f"After {len(path)} calls of {name}.step() the parameters are what they were.",
            hint="p = p - ... gives a new tensor an old name. Write into the one that is there.",
        )


def sgd(arrays, grads, rates, momentum, variant=""):
    """The path of SGD in float64; `variant` names a mistake, `momentum` may be one a step."""
    w = [a.astype(np.float64) for a in arrays]
    v = [np.zeros(a.shape) for a in arrays]
    path = []
    for step_grads, lr, mu in zip(grads, rates, np.resize(momentum, len(grads)), strict=True):
        for i, g in enumerate(step_grads):
            if g is not None:
                old = v[i]
                v[i] = mu * v[i] + ((1 - mu) if variant == "mean" else 1.0) * g
                w[i] = w[i] - lr * (old if variant == "late" else v[i])
        path.append([a.copy() for a in w])
    return path


SGD_MISTAKES = {
    "mean": "The gradient comes into the velocity whole: v is a sum that forgets, not a mean.",
    "late": "In which order: is the new velocity what moves the parameter?",
}


def explain_path(called, path, arrays, grads, momentum, variants):
    """Raise Feedback where the path is that of a mistake that has a name (lr is 0.3)."""
    for variant in variants:
        other = sgd(arrays, grads, [0.3] * len(grads), momentum, variant)
        if np.allclose(path[1][0], other[1][0], rtol=1e-4, atol=1e-6):
            raise Feedback(f"{called} is wrong after two steps.", hint=SGD_MISTAKES[variant])


@check("SGD", weight=2)
def a_step_goes_against_the_gradient(student, rng):
    """without momentum each parameter moves by lr times its gradient, downhill"""
    arrays, grads = draw_arrays_and_grads(rng, 3)
    path, _, _ = ask_optimizer(student, "SGD", arrays, grads, lr=0.3)
    require_movement("SGD", arrays, path)
    explain_path("SGD", path, arrays, grads, 0.0, ("late",))
    hint = "Downhill, by lr of the gradient. Is anything left over from the step before?"
    close(path, sgd(arrays, grads, [0.3] * 3, 0.0), called="SGD, step and parameter ", hint=hint)


@check("SGD", weight=2)
def velocities_gather_gradients(student, rng):
    """with momentum the velocity is momentum times itself, plus the gradient"""
    arrays, grads = draw_arrays_and_grads(rng, 4)
    path, _, _ = ask_optimizer(student, "SGD", arrays, grads, lr=0.3, momentum=0.8)
    require_movement("SGD", arrays, path)
    explain_path("SGD with momentum 0.8", path, arrays, grads, 0.8, ("mean", "late"))
    hint = "v <- momentum v + grad, one velocity a parameter, then w <- w - lr v; zeros count."
    expected = sgd(arrays, grads, [0.3] * 4, 0.8)
    close(path, expected, called="SGD, momentum 0.8, step and parameter ", hint=hint)


@check("SGD", requires="a_step_goes_against_the_gradient")
def parameters_stay_where_they_are(student, rng):
    """the parameters are changed in their own memory"""
    arrays, grads = draw_arrays_and_grads(rng, 2)
    _, state, _ = ask_optimizer(student, "SGD", arrays, grads, lr=0.3, momentum=0.5)
    require_place("SGD", state)


@check("SGD", requires="velocities_gather_gradients")
def gradients_are_left_alone(student, rng):
    """the gradients are the same afterwards, in the second step too"""
    arrays, grads = draw_arrays_and_grads(rng, 3)
    _, _, grads_after = ask_optimizer(student, "SGD", arrays, grads, lr=0.3, momentum=0.5)
    require_gradients("SGD", grads_after)
    hint = "Is the velocity an array of its own, or is it the gradient under another name?"
    close(grads_after, grads, called="gradients after SGD.step(), step and parameter ", hint=hint)
    settings = {"lr": 0.3, "momentum": 0.5, "run": {"spoils": True}}
    path, _, _ = ask_optimizer(student, "SGD", arrays, grads, **settings)
    expected = sgd(arrays, grads, [0.3] * 3, 0.5)
    called = "SGD where gradients are overwritten behind each step, step and parameter "
    close(path, expected, called=called, hint=hint)


@check("SGD", requires="velocities_gather_gradients")
def without_a_gradient_nothing_moves(student, rng):
    """a parameter whose grad is None stays, whatever its velocity"""
    arrays, grads = draw_arrays_and_grads(rng, 3)
    grads[0][2] = grads[1][0] = None
    path, _, _ = ask_optimizer(student, "SGD", arrays, grads, lr=0.3, momentum=0.5)
    hint = "A layer that took no part in the loss has no gradient: leave it out of the step."
    for step, index, before in ((0, 2, arrays[2]), (1, 0, path[0][0])):
        called = f"parameter {index} after a step without a gradient"
        close(path[step][index], before, called=called, hint=hint)
    hint = "The others move by the formulas; what is left out keeps its velocity as it is."
    expected = sgd(arrays, grads, [0.3] * 3, 0.5)
    close(
        path, expected, called="SGD where some gradients are None, step and parameter ", hint=hint
    )


@check("SGD", hidden=True, requires="velocities_gather_gradients")
def the_learning_rate_may_change(student, rng):
    """a learning rate or momentum that is set between two steps counts from then on"""
    arrays, grads = draw_arrays_and_grads(rng, 3)
    rates = [0.3, 0.1, 0.7]
    changes = [{"lr": rate} for rate in rates]
    path, _, _ = ask_optimizer(student, "SGD", arrays, grads, changes, lr=9.0, momentum=0.9)
    hint = "Schedules set optimizer.lr: read it in each step, and keep it out of the velocity."
    close(
        path,
        sgd(arrays, grads, rates, 0.9),
        called="SGD with a schedule, step and parameter ",
        hint=hint,
    )
    mus = [0.9, 0.2, 0.6]
    path, _, _ = ask_optimizer(
        student, "SGD", arrays, grads, [{"momentum": mu} for mu in mus], lr=0.3, momentum=0.9
    )
    hint = "Schedules set optimizer.momentum as well: read it in each step."
    close(
        path,
        sgd(arrays, grads, [0.3] * 3, mus),
        called="SGD with a schedule of momentum, step and parameter ",
        hint=hint,
    )


APART = "Two optimizers in one program: what do they share, and whose should it be?"


@check("SGD", requires="velocities_gather_gradients")
def another_sgd_changes_nothing(student, rng):
    """two optimizers know nothing of each other"""
    arrays, grads = draw_arrays_and_grads(rng, 3)
    settings = {"lr": 0.3, "momentum": 0.5, "run": {"others": True}}
    path, _, _ = ask_optimizer(student, "SGD", arrays, grads, **settings)
    expected = sgd(arrays, grads, [0.3] * 3, 0.5)
    close(path, expected, called="SGD beside another SGD, step and parameter ", hint=APART)


def adam(arrays, grads, lr, betas, eps, variant="", rates=None):
    """The path of Adam in float64; `variant` names a mistake, `rates` are the lr of each step."""
    (b1, b2), count = betas, 0
    w = [a.astype(np.float64) for a in arrays]
    m, s = [np.zeros(a.shape) for a in arrays], [np.zeros(a.shape) for a in arrays]
    path = []
    for step, step_grads in enumerate(grads, 1):
        lr = rates[step - 1] if rates else lr
        for i, g in enumerate(step_grads):
            count += 1
            if g is None:
                continue
            t = {"counts": count, "behind": step - 1 or 1}.get(variant, step)
            m[i] = b1 * m[i] + (1 - b1) * g
            s[i] = b2 * s[i] + (1 - b2) * g.astype(np.float64) ** 2
            up, below = m[i] / (1 - b1**t), s[i] / (1 - b2**t)
            if variant == "uncorrected":
                up, below = m[i], s[i]
            root = np.sqrt(below + eps) if variant == "inside" else np.sqrt(below) + eps
            if variant == "early":
                root = (np.sqrt(s[i]) + eps) / np.sqrt(1 - b2**t)
            w[i] = w[i] - lr * up / root
        path.append([a.copy() for a in w])
    return path


ADAM = {"lr": 0.02, "betas": (0.8, 0.95), "eps": 0.05}


@check("Adam", weight=4)
def each_step_follows_the_formulas(student, rng):
    """the parameters follow the formulas, step by step"""
    arrays, grads = draw_arrays_and_grads(rng, 5)
    path, _, _ = ask_optimizer(student, "Adam", arrays, grads, **ADAM)
    require_movement("Adam", arrays, path)
    variants = {
        "uncorrected": "After one step a mean that began at zero holds only 1 - beta of anything.",
        "early": "Epsilon is added to the root of the corrected s: correct first, then add it.",
        "inside": "Where does epsilon stand: under the root, or beside it?",
        "counts": "t counts steps. How often does your t grow in one step with three parameters?",
    }
    for variant, hint in variants.items():
        other = adam(arrays, grads, **ADAM, variant=variant)
        if all(np.allclose(p, o, rtol=1e-5, atol=1e-6) for p, o in zip(path[1], other[1])):
            raise Feedback("Adam is wrong in one of its first two steps.", hint=hint)
    hint = (
        "Two means for each parameter, also where its gradient is zeros, each corrected by its own "
    )
    hint += "1 - beta^t; the root of the second below."
    close(path, adam(arrays, grads, **ADAM), called="Adam, step and parameter ", hint=hint)


@check("Adam", requires="each_step_follows_the_formulas")
def the_first_step_has_length_lr(student, rng):
    """with the defaults the first step is lr long, whatever the gradient's size"""
    arrays = [np.zeros(3, np.float32)]
    grads = [[np.array([1e-3, -1.0, 1e3], np.float32)]]
    path, _, _ = ask_optimizer(student, "Adam", arrays, grads)
    hint = "In m over the root of s the size of the gradient cancels."
    close(path[0][0], [-1e-3, 1e-3, -1e-3], called="Adam's first step", hint=hint, rtol=1e-3)


@check("Adam", requires="each_step_follows_the_formulas")
def adam_leaves_gradients_and_memory_alone(student, rng):
    """gradients are the same afterwards, and parameters stay in their memory"""
    arrays, grads = draw_arrays_and_grads(rng, 3)
    _, state, grads_after = ask_optimizer(student, "Adam", arrays, grads, **ADAM)
    require_place("Adam", state)
    require_gradients("Adam", grads_after)
    hint = "Which of your steps in place begins with the gradient itself?"
    close(grads_after, grads, called="gradients after Adam.step(), step and parameter ", hint=hint)


@check("Adam", requires="each_step_follows_the_formulas")
def adam_leaves_out_what_has_no_gradient(student, rng):
    """a parameter whose grad is None stays as it is"""
    arrays, grads = draw_arrays_and_grads(rng, 3)
    for step_grads in grads:
        step_grads[1] = None
    grads[-1][0] = None  # what has moved before stays as well
    path, _, _ = ask_optimizer(student, "Adam", arrays, grads, **ADAM)
    hint = "A layer that took no part in the loss has no gradient: leave it out of the step, "
    hint += "whatever its means are."
    close(
        path,
        adam(arrays, grads, **ADAM),
        called="Adam where some gradients are None, step and parameter ",
        hint=hint,
    )


@check("Adam", requires="each_step_follows_the_formulas")
def adam_reads_lr_in_each_step(student, rng):
    """self.lr may be changed between steps, as a schedule does"""
    arrays, grads = draw_arrays_and_grads(rng, 4)
    rates = [0.05, 0.02, 0.1, 0.01]
    changes = [{"lr": rate} for rate in rates]
    path, _, _ = ask_optimizer(student, "Adam", arrays, grads, changes, **ADAM)
    close(
        path,
        adam(arrays, grads, **ADAM, rates=rates),
        called="Adam with a schedule, step and parameter ",
        hint="Schedules set optimizer.lr: read it in each step.",
    )


@check("Adam", requires="each_step_follows_the_formulas")
def another_adam_changes_nothing(student, rng):
    """two optimizers know nothing of each other"""
    arrays, grads = draw_arrays_and_grads(rng, 3)
    path, _, _ = ask_optimizer(student, "Adam", arrays, grads, run={"others": True}, **ADAM)
    expected = adam(arrays, grads, **ADAM)
    close(path, expected, called="Adam beside another Adam, step and parameter ", hint=APART)


# ---- 5. The network and the step


def run_network(x, seed):
    """Return (names, weights, logits) of a new network."""
    import numpy as np

    import minitorch as mt

    net = CNN(np.random.default_rng(seed))
    named_parameters = list(net.named_parameters())
    rng = np.random.default_rng(seed)
    parts = [Conv2d(1, 8, 1, rng), Conv2d(8, 16, 2, rng), Linear(256, 10, rng)]
    drawn_weights = [p.detach().numpy() for part in parts for p in part.parameters()]
    weights = [p.detach().numpy() for _, p in named_parameters]
    return (
        [n for n, _ in named_parameters],
        weights,
        net(mt.tensor(x)).detach().numpy(),
        drawn_weights,
    )


def convolve(x, w, b, stride):
    """3 by 3 filters with a border of zeros, in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    return np.einsum("nchwij,kcij->nkhw", windows, w) + b[:, None, None]


LAYERS = [f"{layer}.{part}" for layer in ("conv1", "conv2", "out") for part in ("weight", "bias")]


def ask_network(student, rng, n):
    x = rng.normal(size=(n, 1, 8, 8)).astype(np.float32)
    names, weights, got, drawn_weights = student.probe(
        run_network, x=x, seed=int(rng.integers(1000))
    )
    if names != LAYERS:
        raise Feedback(
            f"The parameters of CNN are {', '.join(names)}.",
            hint="Three attributes in this order: conv1, conv2, out.",
        )
    return x, weights, got, drawn_weights


@check("CNN", weight=2)
def the_layers_have_their_sizes(student, rng):
    """conv1, conv2 and out have the sizes of the drawing"""
    _, weights, _, _ = ask_network(student, rng, 2)
    expected = [(8, 1, 3, 3), (8,), (16, 8, 3, 3), (16,), (10, 256), (10,)]
    for name, w, shape in zip(LAYERS, weights, expected, strict=True):
        if w.shape != shape:
            raise Feedback(f"CNN: {name} has shape {w.shape}, expected {shape}.")


@check("CNN", weight=3)
def the_network_computes_what_is_drawn(student, rng):
    """the logits are those of the drawing: convolution, ReLU, convolution, ReLU, linear"""
    for n in (1, 3):
        x, (w1, b1, w2, b2, w3, b3), got, _ = ask_network(student, rng, n)
        h1 = convolve(x, w1, b1, 1)
        h2 = convolve(np.maximum(h1, 0), w2, b2, 2)
        expected = np.maximum(h2, 0).reshape(n, -1) @ w3.T + b3
        hint = "A ReLU behind each convolution, none behind the logits; stride 1, then 2."
        close(got, expected, called=f"CNN on {n} picture{'s' * (n > 1)}", hint=hint)


def find_still_layers(x, seed):
    """Return the names of a new network's parameters that a backward of its logits leaves out."""
    import numpy as np

    import minitorch as mt

    net = CNN(np.random.default_rng(seed))
    (net(mt.tensor(x)) * net(mt.tensor(x))).sum().backward()
    return [n for n, p in net.named_parameters() if p.grad is None or not np.any(p.grad.numpy())]


@check("CNN", requires="the_network_computes_what_is_drawn")
def all_layers_can_learn(student, rng):
    """gradients of the logits arrive at all three layers"""
    x = rng.normal(size=(3, 1, 8, 8)).astype(np.float32)
    still = student.probe(find_still_layers, x=x, seed=int(rng.integers(1000)))
    if still:
        raise Feedback(
            f"After backward() from the logits there is no gradient for {', '.join(still)}.",
            hint="Only operations on tensors are recorded: no .detach(), no .numpy() in forward.",
        )


@check("CNN", requires="the_network_computes_what_is_drawn")
def layers_are_drawn_in_order(student, rng):
    """the layers draw their weights from `rng` in order"""
    _, weights, _, drawn_weights = ask_network(student, rng, 1)
    hint = "conv1 first, then conv2, then out, all with the one rng."
    close(weights, drawn_weights, called="weights of CNN(rng)", hint=hint)


def run_train_step(w, batches, lr, stale):
    """Train x @ w for a step a batch; return (losses, gradients that step saw, weights, calls)."""
    import numpy as np

    import minitorch as mt

    weight = mt.tensor(w, requires_grad=True)
    weight.grad = mt.tensor(stale)
    step_grads, calls = [], []

    class Product:
        def forward(self, x):
            calls.append("forward")
            return x @ weight

        __call__ = forward

    class Recorder:
        def zero_grad(self):
            calls.append("zero_grad")
            weight.grad = None

        def step(self):
            calls.append("step")
            step_grads.append(
                np.zeros(w.shape) if weight.grad is None else weight.grad.numpy().copy()
            )
            with mt.no_grad():
                weight.sub_(lr * mt.tensor(step_grads[-1].astype(w.dtype)))

    losses = [train_step(Product(), Recorder(), mt.tensor(x), mt.tensor(y)) for x, y in batches]
    floats = [float(loss) if isinstance(loss, float) else repr(type(loss)) for loss in losses]
    return floats, step_grads, weight.detach().numpy(), calls


def softmax_step(w, x, y):
    """Return (loss, gradient by w) of cross entropy of x @ w."""
    z = x @ w
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y]).mean()
    p[np.arange(len(y)), y] -= 1
    return loss, x.T @ p / len(y)


def ask_train_step(student, rng):
    """Return (what came out, expected losses, expected gradients, expected weights)."""
    w, stale = rng.normal(size=(2, 4, 3))
    batches = [(rng.normal(size=(5, 4)), rng.integers(0, 3, size=5)) for _ in range(3)]
    got = student.probe(run_train_step, w=w, batches=batches, lr=0.5, stale=stale)
    losses, grads = [], []
    for x, y in batches:
        loss, grad = softmax_step(w, x, y)
        losses.append(loss)
        grads.append(grad)
        w = w - 0.5 * grad
    return got, losses, grads, w, stale


@check("train_step", weight=3)
def the_optimizer_sees_the_gradient_of_this_batch(student, rng):
    """each step uses the gradient of its own batch, and of nothing before it"""
    (_, step_grads, _, calls), _, grads, _, stale = ask_train_step(student, rng)
    if calls.count("step") != 3:
        raise Feedback(
            f"Three calls of train_step made {calls.count('step')} steps of the optimizer.",
            hint="Old gradients away, forward, loss, backward: what is left to do?",
        )
    if calls.count("forward") != 3:
        raise Feedback(
            f"Three calls of train_step asked the model {calls.count('forward')} times.",
            hint="The loss that is returned and the one that backward() starts from: how many "
            "runs of the model do the two need?",
        )
    if np.allclose(step_grads[0], 0.0):
        raise Feedback(
            "When the optimizer stepped there was no gradient.",
            hint="Between which two lines do the gradients exist? What came after backward()?",
        )
    if np.allclose(step_grads[0], grads[0] + stale):
        raise Feedback(
            "The first step used gradients that were there before train_step was called.",
            hint="backward() adds. What has to happen before it?",
        )
    hint = "One forward, one loss, one backward for each step; the loss is the mean over the batch."
    close(step_grads, grads, called="gradients that the optimizer saw, by step", hint=hint)


@check("train_step", weight=2)
def the_loss_is_the_one_before_the_step(student, rng):
    """the float returned is the loss of the batch before the step"""
    (losses, _, _, _), expected, _, _, _ = ask_train_step(student, rng)
    if any(isinstance(loss, str) for loss in losses):
        raise Feedback(
            f"train_step returned {losses[0]}, expected a float.",
            hint="A tensor holds its graph, and a list of a thousand losses a thousand graphs.",
        )
    hint = "F.cross_entropy of the logits and the labels, as it was when backward ran."
    close(losses, expected, called="losses of three steps", hint=hint)


@check("train_step", hidden=True, requires="the_optimizer_sees_the_gradient_of_this_batch")
def three_steps_end_where_they_should(student, rng):
    """the weights after three steps are those of gradient descent"""
    (_, _, got, _), _, _, w, _ = ask_train_step(student, rng)
    close(got, w, called="weights after three steps", hint="One step a call.")


# ---- 6. A write in a graph


def run_in_graph(start, grads, lr, momentum, pull):
    """Run the node once for each gradient; return (w, v) after each run.

    With `pull` the gradient is w itself plus what is fed.
    """
    import numpy as np

    import minitorch.graph as tf

    with tf.Graph().as_default():
        w = tf.Variable(start)
        v = tf.Variable(np.zeros_like(start))
        fed_grad = tf.placeholder(tf.float64, start.shape)
        node = momentum_in_graph(w, v, w + fed_grad if pull else fed_grad, lr, momentum)
        if isinstance(node, list | tuple):
            return type(node).__name__
        with tf.Session() as session:
            session.run(tf.initialize_all_variables())
            results = []
            for grad in grads:
                session.run(node, {fed_grad: grad})
                results.append([np.array(a) for a in session.run([w, v])])
    return results


def follow_momentum(start, grads, lr, momentum, pull=False, late=False):
    w, v, path = start, np.zeros_like(start), []
    for grad in grads:
        old = v
        v = momentum * v + (w + grad if pull else grad)
        w = w - lr * (old if late else v)
        path.append([w, v])
    return path


@check("momentum_in_graph", weight=3)
def the_weight_moves_by_the_new_velocity(student, rng):
    """each run writes the velocity, then moves the weight by it"""
    start, grads = rng.normal(size=3), list(rng.normal(size=(4, 3)))
    got = student.probe(run_in_graph, start=start, grads=grads, lr=0.2, momentum=0.7, pull=False)
    if isinstance(got, str):
        raise Feedback(
            f"momentum_in_graph returned a {got}, expected one node.",
            hint="Which of your nodes needs all others, so that running it runs them?",
        )
    if all(np.array_equal(w, start) for w, _ in got):
        raise Feedback(
            "After four runs of the node the weight is what it was.",
            hint="A session runs what the fetched node depends on, and nothing else.",
        )
    late_path = follow_momentum(start, grads, 0.2, 0.7, late=True)
    if np.allclose([w for w, _ in got], [w for w, _ in late_path]):
        raise Feedback(
            "The weight moves by the velocity of the run before.",
            hint="Which edge says that the read of v comes after its write?",
        )
    if all(not np.any(v) for _, v in got):
        raise Feedback(
            "After four runs of the node the velocity is still zero.",
            hint="A value that was computed is not yet a value that was written.",
        )
    hint = "v <- momentum v + grad, w <- w - lr v, each once in a run."
    expected = follow_momentum(start, grads, 0.2, 0.7)
    close(got, expected, called="run and which of (w, v) ", hint=hint)


@check("momentum_in_graph", hidden=True, requires="the_weight_moves_by_the_new_velocity")
def a_gradient_may_depend_on_the_weight(student, rng):
    """a gradient that reads the weight reads the old one"""
    start, grads = rng.normal(size=2), list(rng.normal(size=(4, 2)))
    got = student.probe(run_in_graph, start=start, grads=grads, lr=0.1, momentum=0.9, pull=True)
    expected = follow_momentum(start, grads, 0.1, 0.9, pull=True)
    close(got, expected, called="run and which of (w, v) ", hint="Try a gradient made from w.")
