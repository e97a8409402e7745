"""Checks of lab 01. Expected values are NumPy's own solvers and closed forms, in float64.

Inputs are drawn anew. What runs beside the learner's code is in the functions that `probe` sends.
"""

from itertools import pairwise

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close
from autograder.errors import StudentError

WITHHELD = (
    *("torch:", "minitorch.sweep:sweep", "minitorch.optim.sgd:SGD"),
    "sklearn.linear_model._base:LinearRegression",
    *(f"minitorch.ops.elementwise.rows:{kind}.gradient" for kind in ("Unary", "Binary")),
    "minitorch.ops.products.linalg:MatMul.gradient",
    "minitorch.ops.networks.cross_entropy:CrossEntropy.gradient",
)
LAB = LabSettings(preload=("numpy",), withheld=WITHHELD)


def draw_points(rng, n=12, d=4):
    """Return data whose columns are neither equally long nor at right angles, but independent.

    The normal equations square the condition of x: near 10,000 they lose more than a check forgives.
    """
    x = np.zeros((n, d))
    while np.linalg.cond(x) > 1000:
        x = rng.normal(size=(n, d)) * rng.uniform(0.5, 3.0, size=d)
        x[:, 0] += 0.5 * x[:, -1]
    return x, rng.normal(size=n) * 2.0 + 1.0


def call_twice(name, arguments):
    globals()[name](*arguments)
    return globals()[name](*arguments)


def must_be_the_same_again(student, name, arguments, expected):
    """Raise Feedback where a function has changed what it was given."""
    called = f"{name}, asked a second time with the same arguments,"
    hint = "Which step changes what the caller handed in?"
    try:
        got = student.probe(call_twice, name=name, arguments=list(arguments))
    except StudentError as error:
        raise Feedback(f"{called} raised {str(error).rstrip('. ')}.", hint=hint) from error
    close(list(got) if isinstance(got, tuple) else got, expected, called=called, hint=hint)


def require_array(got, name):
    """Raise Feedback where a list came: the cells that follow scale it and take differences of it."""
    if isinstance(got, list | tuple):
        raise Feedback(
            f"{name} returned a {type(got).__name__}, expected an array.",
            hint="2 * [1.0, 2.0] is a longer list. Which function makes an array of one?",
        )


# ---- 1. The formula


@check("closed_form", weight=2)
def the_formula_finds_the_minimum(student, rng):
    """no other weights have a smaller mean squared error"""
    for n, d in ((12, 4), (30, 1), (5, 5)):
        x, y = draw_points(rng, n, d)
        got = student.call("closed_form", x, y)
        require_array(got, "closed_form")
        expected = np.linalg.lstsq(x, y, rcond=None)[0]
        hint = "At the minimum x^T (x w - y) is zero. Is it, for your w?"
        close(got, expected, called=f"closed_form(x, y), x {x.shape}", hint=hint)


@check("closed_form", requires="the_formula_finds_the_minimum")
def the_points_stay_as_they_are(student, rng):
    """asked again with the same points, it gives the same weights"""
    x, y = draw_points(rng)
    expected = np.linalg.lstsq(x, y, rcond=None)[0]
    must_be_the_same_again(student, "closed_form", (x, y), expected)


@check("closed_form", hidden=True)
def a_constant_column_is_a_column(student, rng):
    """a line with an intercept far from zero"""
    t = rng.uniform(10.0, 20.0, size=40)
    start, slope = rng.normal(size=2) * 100.0
    x = np.stack([np.ones(40), t], axis=1)
    got = student.call("closed_form", x, start + slope * t)
    close(got, [start, slope], called="closed_form of an exact line", hint="Try points on a line.")


# ---- 2. Descent


@check("mse_gradient", weight=2)
def the_gradient_of_the_mean_squared_error(student, rng):
    """the gradient is that of the mean squared error"""
    for n, d in ((12, 4), (7, 1), (4, 4)):
        x, y = draw_points(rng, n, d)
        w = rng.normal(size=d)
        got = student.call("mse_gradient", x, y, w)
        require_array(got, "mse_gradient")
        expected = 2 * x.T @ (x @ w - y) / n
        called = f"mse_gradient(x, y, w), x {x.shape}"
        if np.shape(got) == (d,) and n != d:
            explain_factor(called, got, expected, n)
        close(got, expected, called=called, hint="Errors first, then each column of x with them.")


def explain_factor(called, got, expected, n):
    """Raise Feedback where the gradient is right but for a factor that has a reason."""
    reasons = {
        float(n): "The loss is a mean over the points: is your gradient that of a sum?",
        0.5: "What does the square contribute when it is differentiated?",
        n / 2: "What became of the 2, and of the mean?",
        -1.0: "Which way does the error point: prediction minus truth, or the other way round?",
    }
    for factor, hint in reasons.items():
        if np.allclose(got, factor * expected, rtol=1e-6):
            raise Feedback(f"{called} is {factor:g} times what it should be.", hint=hint)


@check("mse_gradient", requires="the_gradient_of_the_mean_squared_error")
def no_weight_is_moved(student, rng):
    """the gradient comes from the errors once, not from the loss at moved weights"""
    x, y, w = rng.normal(size=(1, 40)), rng.normal(size=1), rng.normal(size=40)
    got = ask_without_differences(student, "mse_gradient", x, y, w, of="w", at=2)
    close(
        got, 2 * x.T @ (x @ w - y), called="mse_gradient of one point", hint="Its error, times x."
    )


@check("mse_gradient", requires="the_gradient_of_the_mean_squared_error")
def its_data_stay_as_they_are(student, rng):
    """asked again with the same arrays, it gives the same gradient"""
    x, y = draw_points(rng)
    w = rng.normal(size=4)
    expected = 2 * x.T @ (x @ w - y) / len(y)
    must_be_the_same_again(student, "mse_gradient", (x, y, w), expected)


@check("mse_gradient", hidden=True, requires="the_gradient_of_the_mean_squared_error")
def no_slope_at_the_minimum(student, rng):
    """at the weights of the closed form the gradient is zero"""
    x, y = draw_points(rng, 30, 5)
    got = student.call("mse_gradient", x, y, np.linalg.lstsq(x, y, rcond=None)[0])
    close(got, np.zeros(5), called="mse_gradient at the minimum", hint="Try w_best.", atol=1e-9)


def descend_in_bowl(slopes, start, lr, steps):
    """Return (path, start afterwards) of descent in a bowl with these slopes."""
    import numpy as np

    w, calls = start.copy(), [0]

    def gradient(w):
        calls[0] += 1
        return w if slopes is None else slopes * w  # half of w @ w has w itself as its gradient

    path = descend(gradient, w, lr, steps)
    return np.array(path), w, calls[0]


def ask_descend(student, rng, steps=6):
    slopes, start = rng.uniform(0.5, 2.0, size=3), rng.normal(size=3)
    lr = float(rng.uniform(0.1, 0.4))
    got, after, _ = student.probe(descend_in_bowl, slopes=slopes, start=start, lr=lr, steps=steps)
    factors = (1 - lr * slopes) ** np.arange(steps + 1)[:, None]
    return got, after, start, start * factors


@check("descend", weight=3)
def each_step_goes_against_the_gradient(student, rng):
    """the path is the start, then each step by lr times the gradient at its place, downhill"""
    got, _, start, expected = ask_descend(student, rng)
    if got.shape != expected.shape:
        raise Feedback(
            f"descend with 6 steps and 3 weights returned shape {got.shape}, expected (7, 3).",
            hint="The start is a row as well.",
        )
    if len({row.tobytes() for row in got}) == 1:
        raise Feedback(
            "descend returned a path with the same place in every row.",
            hint="Is each row an array of its own, or is one array in the list many times?",
        )
    close(got[0], start, called="first row of the path", hint="The walk begins at w.")
    hint = "Each step asks for the gradient where it stands, and goes against it."
    close(got, expected, called="path of descend in a bowl", hint=hint)


@check("descend", requires="each_step_goes_against_the_gradient")
def the_start_is_not_modified(student, rng):
    """the array passed in as w is the same afterwards"""
    _, after, start, _ = ask_descend(student, rng)
    close(after, start, called="w after descend", hint="Make a new array for each step.")
    bowl = {"slopes": None, "start": start, "lr": 0.25, "steps": 6}
    got, *_ = student.probe(descend_in_bowl, **bowl)
    expected = start * 0.75 ** np.arange(7)[:, np.newaxis]
    hint = "That function returned the very array that it was given. Which step writes into it?"
    close(got, expected, called="path of descend where the gradient is w", hint=hint)


@check("descend", hidden=True, requires="each_step_goes_against_the_gradient")
def no_steps_are_a_path_too(student, rng):
    """zero steps give the start alone"""
    got, _, start, _ = ask_descend(student, rng, steps=0)
    close(got, start[None], called="descend with 0 steps", hint="Try steps=0.")


@check("descend", requires="each_step_goes_against_the_gradient")
def all_steps_are_in_the_path(student, rng):
    """where the gradient is zero the path has a row for each step as well"""
    bowl = {"slopes": np.ones(3), "start": np.zeros(3), "lr": 0.1, "steps": 5}
    got, _, calls = student.probe(descend_in_bowl, **bowl)
    hint = "The caller said how many steps to take. May the walk end before?"
    close(got, np.zeros((6, 3)), called="descend from the minimum, 5 steps", hint=hint)
    if calls > 12:
        raise Feedback(
            f"descend asked for the gradient {calls} times in 5 steps.",
            hint="Where does the next step begin: at the start, or at the last row of the path?",
        )
    try:
        got, *_ = student.probe(descend_in_bowl, **{**bowl, "steps": 4000})
    except StudentError as error:
        raise Feedback(
            f"descend with 4,000 steps raised {error.type_name}.",
            hint="The lab takes as many. A function that calls itself for each step may not.",
        ) from error
    close(got, np.zeros((4001, 3)), called="descend from the minimum, 4,000 steps", hint=hint)


@check("largest_lr", weight=2)
def the_edge_is_where_the_steepest_direction_stops_shrinking(student, rng):
    """it is two over the largest eigenvalue of the Hessian"""
    drawn = [draw_points(rng, n, d)[0] for n, d in ((12, 4), (9, 1), (40, 6))]
    for x in (*drawn, np.diag(rng.uniform(1, 2, size=4) * [1.0, 2.0, 8.0, 4.0])):
        n = len(x)
        top = np.linalg.svd(x, compute_uv=False)[0] ** 2 / n  # half the Hessian's eigenvalue
        got, called = student.call("largest_lr", x), f"largest_lr(x), x {x.shape}"
        if np.shape(got) == () and np.isclose(float(got), 0.5 / top):
            raise Feedback(
                f"{called} is half of what it should be.",
                hint="At 1/lambda the steepest direction is at the minimum in one step. "
                "The edge comes later: what is the factor there?",
            )
        hint = "Which factor multiplies the distance along the steepest direction of 2/n x^T x?"
        close(got, 1.0 / top, called=called, hint=hint)


@check(
    "largest_lr", hidden=True, requires="the_edge_is_where_the_steepest_direction_stops_shrinking"
)
def more_of_the_same_points_change_nothing(student, rng):
    """repeating all points leaves it as it is, since the loss is a mean"""
    x, _ = draw_points(rng)
    got = [student.call("largest_lr", np.tile(x, (times, 1))) for times in (1, 3)]
    hint = "Try the same points, each of them three times."
    close(got[1], got[0], called="largest_lr of every point three times", hint=hint)


# ---- 3. The numerical gradient


def count_evaluations(point, coefficients, step, order):
    """Return (gradient, evaluations, point afterwards) of cubes and the square of a sum."""
    calls = [0]

    def f(p):
        calls[0] += 1
        return float((coefficients * p**3).sum() + p.sum() ** 2)

    place = point.copy(order)
    grad = numerical_gradient(f, place, step) if step else numerical_gradient(f, place)
    return grad, calls[0], place


def differentiate_cubes(student, rng, shape, step, order="C"):
    """Central differences of c w^3 are 3 c w^2 + c step^2, those of a square exact."""
    point, c = rng.normal(size=shape), rng.uniform(0.5, 2.0, size=shape)
    grad, calls, after = student.probe(
        count_evaluations, point=point, coefficients=c, step=step, order=order
    )
    return point, c, grad, calls, after, 3 * c * point**2 + 2 * point.sum() + c * step**2


@check("numerical_gradient", weight=3)
def differences_are_central(student, rng):
    """each element is (f(up) - f(down)) / (2 step)"""
    for shape in ((4,), (2, 3)):
        point, c, grad, _, _, expected = differentiate_cubes(student, rng, shape, 0.1)
        forward = expected + 3 * c * point * 0.1 + 0.1
        if np.shape(grad) == shape and np.allclose(grad, forward):
            raise Feedback(
                f"numerical_gradient at shape {shape} is a forward difference.",
                hint="Where does f have to be evaluated so that the error is like step squared?",
            )
        called = f"numerical_gradient of a sum of cubes, shape {shape}, step 0.1"
        hint = "One element at a time, by one step up and one step down: how far apart is that?"
        close(grad, expected, called=called, hint=hint)


@check("numerical_gradient")
def the_default_step_is_small(student, rng):
    """without a step given, about ten digits are right"""
    _, _, grad, _, _, expected = differentiate_cubes(student, rng, (5,), 0.0)
    hint = "Central differences with the signature's step leave ten digits. Are yours both?"
    called = "numerical_gradient without a step"
    close(grad, expected, called=called, hint=hint, rtol=1e-7, atol=1e-7)


@check("numerical_gradient", requires="differences_are_central")
def the_point_stays_where_it_is(student, rng):
    """the point is the same afterwards, to the last bit"""
    point, _, _, _, after, _ = differentiate_cubes(student, rng, (2, 3), 0.3)
    if not np.array_equal(point, after):
        raise Feedback(
            "numerical_gradient left the point moved.",
            hint="(p + step) - step is not always p. Keep the element, or work on a copy.",
        )


@check("numerical_gradient", requires="differences_are_central")
def two_evaluations_an_element(student, rng):
    """any shape works, a single number too, with two evaluations an element"""
    hint = "Try a point of shape () and one with three axes, and count the calls of f."
    for shape in ((), (2, 1, 3)):
        point, _, grad, calls, _, expected = differentiate_cubes(student, rng, shape, 0.1)
        close(grad, expected, called=f"numerical_gradient, shape {shape}", hint=hint)
        if calls != 2 * point.size:
            raise Feedback(f"numerical_gradient asked for f {calls} times.", hint=hint)
    _, _, grad, _, _, expected = differentiate_cubes(student, rng, (2, 3), 0.1, order="F")
    hint = "Of an array like w.T, ravel and reshape give a copy. Does f see your steps?"
    close(grad, expected, called="numerical_gradient at a transposed array", hint=hint)


def ask_agree(student, a, b, *tolerance):
    """Return what `agree` says, as a bool; anything else than a truth value is wrong."""
    got = student.call("agree", a, b, *tolerance)
    if not isinstance(got, bool | np.bool_):
        raise Feedback(f"agree returned {got!r}, expected True or False.")
    return bool(got)


def must_agree(student, a, b, what, hint, *tolerance):
    if not ask_agree(student, a, b, *tolerance):
        raise Feedback(f"agree says False for {what}.", hint=hint)


def must_differ(student, a, b, what, hint, *tolerance):
    if ask_agree(student, a, b, *tolerance):
        raise Feedback(f"agree says True for {what}.", hint=hint)


@check("agree", weight=2)
def equal_gradients_agree(student, rng):
    """gradients that differ by rounding agree, large or small, and zeros agree; others do not"""
    hint = "Relatively: the difference counts in proportion to the gradients themselves."
    a, b = rng.normal(size=(2, 3, 4))
    must_differ(student, a, b, "two gradients that have nothing in common", hint)
    for size in (1e-8, 1.0, 1e8):
        a = size * rng.normal(size=(3, 4))
        b = a * (1 + 1e-8 * rng.normal(size=(3, 4)))
        must_agree(student, a, b, f"two gradients of size {size:g}, equal to 8 digits", hint)
    zeros = np.zeros((2, 3))
    must_agree(student, zeros, zeros, "zeros and zeros", "Then nothing may be divided by a length.")
    number = np.array(float(rng.uniform(1, 2)))
    hint = "What of your code needs an axis? np.linalg.norm and np.sum do not."
    must_agree(student, number, number, "two equal arrays of shape ()", hint)


@check("agree", weight=2, requires="equal_gradients_agree")
def wrong_gradients_do_not(student, rng):
    """a wrong sign, a factor and zeros are told apart at any size"""
    near = "Near a minimum gradients are small. What is 'close to each other' worth then?"
    hints = {
        -1.0: "The two are equally long. What has to be short for them to be the same?",
        1.0005: "Rounding leaves many more digits equal: how wrong may a rule be to pass you?",
        0.0: "A gradient that is missing altogether is as wrong as can be.",
    }
    for size in (1.0, 1e8, 1e-8, 1e-20):
        a = size * rng.normal(size=(3, 4))
        for factor, what in ((-1.0, "a wrong sign"), (1.0005, "a factor 1.0005"), (0.0, "zeros")):
            hint = hints[factor] if size >= 1 else near
            must_differ(student, a, factor * a, f"{what}, size {size:g}", hint)
            must_differ(student, factor * a, a, f"{what} on the left, size {size:g}", hint)


@check("agree", requires="equal_gradients_agree")
def the_tolerance_is_the_length_of_the_difference(student, rng):
    """the border lies where the formula says"""
    hint = "Length of the difference, against tolerance times the longer of the two."
    for tolerance in (1e-6, 1e-3):
        a, across = rng.normal(size=(2, 50))
        across *= np.linalg.norm(a) / np.linalg.norm(across)
        options = () if tolerance == 1e-6 else (tolerance,)
        near, far = a + 0.98 * tolerance * across, a + 1.02 * tolerance * across
        must_agree(
            student, a, near, f"a difference of 0.98 tolerances ({tolerance})", hint, *options
        )
        must_differ(
            student, a, far, f"a difference of 1.02 tolerances ({tolerance})", hint, *options
        )
    must_agree(student, a, 2.0 * a, "a and 2 a with a tolerance of 0.51", hint, 0.51)
    must_agree(student, 2.0 * a, a, "2 a and a with a tolerance of 0.51", hint, 0.51)
    must_differ(student, a, 2.0 * a, "a and 2 a with a tolerance of 0.49", hint, 0.49)
    one, two = np.array([1.0]), np.array([2.0])
    hint = "Here both sides of the formula are 1, and it says <=."
    must_agree(student, one, two, "[1.] and [2.] with a tolerance of 0.5", hint, 0.5)
    a = rng.uniform(1, 2) * np.ones((4, 4))  # all of it in one direction, the difference in four
    far = a + 1.02e-3 * np.linalg.norm(a) * np.eye(4) / 2.0
    hint = "The length of a matrix is the root of all its squares' sum: norm(m), and no other norm."
    must_differ(student, a, far, "matrices 1.02 tolerances (0.001) apart", hint, 1e-3)


@check("agree", requires="equal_gradients_agree")
def both_gradients_stay_as_they_are(student, rng):
    """asked again with the same gradients, it says the same"""
    a = rng.normal(size=(2, 3))
    must_be_the_same_again(student, "agree", (a, a * (1 + 1e-9)), True)


@check("agree", requires="equal_gradients_agree")
def nan_never_agrees(student, rng):
    """a gradient with a NaN in it agrees with nothing"""
    a = rng.normal(size=6)
    broken = a.copy()
    broken[2] = np.nan
    hint = "What does a comparison with NaN give, and which way round do you ask?"
    must_differ(student, broken, a, "a gradient with a NaN", hint)
    must_differ(student, a, broken, "a NaN in the numerical gradient", hint)
    must_differ(student, broken, broken, "NaN in both", hint)


@check("agree", requires="equal_gradients_agree")
def another_shape_never_agrees(student, rng):
    """arrays of different shapes do not agree, whatever broadcasting makes of them"""
    hint = "a - b may broadcast. Look at the shapes before the numbers."
    ones = np.ones(3)
    must_differ(student, ones, np.ones((3, 1)), "shapes (3,) and (3, 1)", hint)
    must_differ(student, np.ones((2, 3)), ones, "shapes (2, 3) and (3,)", hint)
    must_differ(student, np.array(1.0), np.ones(1), "shapes () and (1,)", hint)


# ---- 4. Two layers


def softmax(logits):
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def draw_logits(rng, n=6, c=4, size=2.0):
    return size * rng.normal(size=(n, c)), rng.integers(0, c, size=n)


def ask_cross_entropy(student, logits, labels):
    got = student.call("cross_entropy", logits, labels)
    if not isinstance(got, list | tuple) or len(got) != 2:
        description = f"{len(got)} items" if isinstance(got, list | tuple) else type(got).__name__
        raise Feedback(f"cross_entropy returned {description}, expected a pair (loss, gradient).")
    return got


@check("cross_entropy", weight=2)
def the_loss_is_the_mean_negative_log_probability(student, rng):
    """the loss is the mean of -log softmax at the label"""
    for n, c in ((6, 4), (1, 10), (5, 5)):
        logits, labels = draw_logits(rng, n, c)
        loss, _ = ask_cross_entropy(student, logits, labels)
        expected = -np.log(softmax(logits)[np.arange(n), labels]).mean()
        hint = "Softmax over the classes of each picture, then the label's, then the mean."
        close(loss, expected, called=f"loss of logits {logits.shape}", hint=hint)


@check("cross_entropy", weight=2)
def the_gradient_is_probability_minus_one_hot(student, rng):
    """the gradient is that of this loss"""
    for n, c in ((6, 4), (5, 5)):
        logits, labels = draw_logits(rng, n, c)
        _, grad = ask_cross_entropy(student, logits, labels)
        expected = (softmax(logits) - np.eye(c)[labels]) / n
        called = f"gradient by logits {logits.shape}"
        if np.shape(grad) == expected.shape and np.allclose(grad, n * expected):
            raise Feedback(f"{called} is {n} times too long.", hint="The loss is a mean over rows.")
        close(
            grad, expected, called=called, hint="p, less 1 at the label; over the number of rows."
        )


@check("cross_entropy", requires="the_gradient_is_probability_minus_one_hot")
def no_logit_is_moved(student, rng):
    """the gradient comes from the probabilities, not from the loss at moved logits"""
    logits, labels = draw_logits(rng, 2, 40)
    _, grad = ask_without_differences(student, "cross_entropy", logits, labels, of="logits")
    expected = (softmax(logits) - np.eye(40)[labels]) / 2
    close(grad, expected, called="gradient by logits (2, 40)", hint="p, less 1 at the label.")


@check("cross_entropy", requires="the_loss_is_the_mean_negative_log_probability")
def large_logits_do_no_harm(student, rng):
    """logits of a thousand give finite numbers"""
    logits, labels = draw_logits(rng, size=1.0)
    by_turns = np.where(np.arange(len(logits)) % 2, 1000.0, -1000.0)[:, np.newaxis]
    for shift, where in (
        (1000.0, "1000"),
        (-1000.0, "-1000"),
        (by_turns, "1000 and -1000, by rows"),
    ):
        loss, grad = ask_cross_entropy(student, logits + shift, labels)
        hint = "exp overflows above 709. What can be taken from a row without changing softmax?"
        if shift is by_turns:
            hint = "Each row has a softmax of its own. Whose largest logit do you take from it?"
        if not (np.all(np.isfinite(loss)) and np.all(np.isfinite(grad))):
            raise Feedback(f"cross_entropy of logits around {where} is not finite.", hint=hint)
        expected = -np.log(softmax(logits)[np.arange(len(labels)), labels]).mean()
        same = "Softmax does not change when all logits of a row do alike. Does your loss?"
        close(loss, expected, called=f"loss of logits around {where}", hint=same, rtol=1e-6)


@check("cross_entropy", requires="the_loss_is_the_mean_negative_log_probability")
def a_hopeless_picture_has_a_finite_loss(student, rng):
    """a label two thousand below the largest logit has a loss of two thousand"""
    logits = np.array([[1000.0, -1000.0], [1000.0, -1000.0]])
    loss, grad = ask_cross_entropy(student, logits, np.array([1, 0]))
    close(loss, 1000.0, called="loss", hint="Is there a logarithm of zero?")
    close(grad, [[0.5, -0.5], [0.0, 0.0]], called="gradient", hint="Is there a logarithm of zero?")


@check("cross_entropy", requires="the_gradient_is_probability_minus_one_hot")
def the_logits_are_not_modified(student, rng):
    """the logits, and the labels, are the same afterwards"""
    given = draw_logits(rng)
    after = student.probe(get_arguments_after, logits=given[0], labels=given[1])
    for name, got, before in zip(("logits", "labels"), after, given, strict=True):
        hint = "Which of your steps is in place?"
        close(got, before, called=f"{name} after cross_entropy", hint=hint)


def get_arguments_after(logits, labels):
    arguments = logits.copy(), labels.copy()
    cross_entropy(*arguments)
    return list(arguments)


def draw_two_layers(rng, n=5, d=4, h=6, c=3):
    """Return (params, x, hidden, out_grad, the four gradients) of a random two-layer net."""
    w1, b1, w2, b2 = (rng.normal(size=s) for s in ((d, h), (h,), (h, c), (c,)))
    x, out_grad = rng.normal(size=(n, d)), rng.normal(size=(n, c))
    before = x @ w1 + b1
    hidden = np.maximum(before, 0.0)
    inner = np.where(before > 0, out_grad @ w2.T, 0.0)
    expected = [x.T @ inner, inner.sum(axis=0), hidden.T @ out_grad, out_grad.sum(axis=0)]
    return [w1, b1, w2, b2], x, hidden, out_grad, expected


def count_uses(name, arguments, at):
    """Return what a function gives, and how often it used its argument `at`, or that list's first."""
    import numpy as np

    uses = []

    class Watched(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, out=None, **more):
            uses.append(ufunc.__name__)
            into = {"out": tuple(np.asarray(x) for x in out)} if out else {}
            return getattr(ufunc, method)(*(np.asarray(x) for x in inputs), **into, **more)

        def __array_function__(self, function, types, args, kwargs):
            uses.append(function.__name__)
            return super().__array_function__(function, types, args, kwargs)

    value = arguments[at]
    if isinstance(value, list):
        arguments[at] = [value[0].view(Watched), *value[1:]]
    else:
        arguments[at] = value.view(Watched)
    result = globals()[name](*arguments)
    if isinstance(result, Watched):
        return np.asarray(result), len(uses)
    if not isinstance(result, (list, tuple)):
        return result, len(uses)
    return [np.asarray(g) if isinstance(g, Watched) else g for g in result], len(uses)


def ask_without_differences(student, name, *arguments, of="w1", at=0):
    """Return what `name` gives; raise Feedback if it computes the loss once a number of `of`.

    `of` is what the learner calls argument `at`, or the first array of it.
    """
    value = arguments[at]
    size = value[0].size if isinstance(value, list) else value.size
    got, uses = student.probe(count_uses, name=name, arguments=list(arguments), at=at)
    if uses >= max(2 * size, 32):
        raise Feedback(
            f"{name} used {of} of {size} numbers {uses} times: that is a numerical gradient, at "
            "two runs a number.",
            hint="Which formula of the text gives all its numbers at once?",
        )
    return got


def ask_backward(student, params, x, hidden, out_grad):
    got = ask_without_differences(student, "backward", params, x, hidden, out_grad)
    if not isinstance(got, list | tuple) or len(got) != 4:
        description = f"{len(got)} items" if isinstance(got, list | tuple) else type(got).__name__
        raise Feedback(
            f"backward returned {description}, expected four gradients [w1, b1, w2, b2]."
        )
    return got


@check("backward", weight=2)
def the_second_layer_has_its_gradients(student, rng):
    """w2 and b2 get their gradients"""
    for sizes in ((5, 4, 6, 3), (4, 4, 4, 4)):
        *network, expected = draw_two_layers(rng, *sizes)
        got = ask_backward(student, *network)
        hint = "Of (N, H) and (N, C) there is one product of shape (H, C)."
        close(got[2], expected[2], called=f"gradient of w2, (N, D, H, C) = {sizes}", hint=hint)
        hint = "b2 was added to all rows: each row sends it a share."
        close(got[3], expected[3], called=f"gradient of b2, (N, D, H, C) = {sizes}", hint=hint)


@check("backward", weight=3)
def the_first_layer_has_its_gradients(student, rng):
    """w1 and b1 get their gradients, through w2 and the ReLU"""
    for sizes in ((5, 4, 6, 3), (4, 4, 4, 4)):
        params, x, hidden, out_grad, expected = draw_two_layers(rng, *sizes)
        got = ask_backward(student, params, x, hidden, out_grad)
        called = f"gradient of w1, (N, D, H, C) = {sizes}"
        unmasked = x.T @ (out_grad @ params[2].T)
        masks = not np.allclose(unmasked, expected[0])  # once in a thousand draws all are active
        if masks and np.shape(got[0]) == unmasked.shape and np.allclose(got[0], unmasked):
            raise Feedback(
                f"{called} lets everything through the ReLU.",
                hint="Where hidden is zero, a small change of its input changes nothing.",
            )
        hint = "Through which weights did hidden reach the loss? That way its adjoint comes back."
        close(got[0], expected[0], called=called, hint=hint)
        hint = "b1 was added to all rows: each row sends it a share."
        close(got[1], expected[1], called=f"gradient of b1, (N, D, H, C) = {sizes}", hint=hint)


@check(
    "backward",
    requires=("the_first_layer_has_its_gradients", "the_second_layer_has_its_gradients"),
)
def its_inputs_stay_as_they_are(student, rng):
    """asked again with the same arrays, it gives the same gradients"""
    *network, expected = draw_two_layers(rng)
    must_be_the_same_again(student, "backward", network, expected)


@check("backward", hidden=True)
def a_single_picture_has_gradients_too(student, rng):
    """one picture, one pixel, one class: every axis of length one"""
    for sizes in ((1, 3, 2, 4), (3, 1, 1, 1)):
        *network, expected = draw_two_layers(rng, *sizes)
        got = ask_backward(student, *network)
        close(got, expected, called=f"backward, (N, D, H, C) = {sizes}", hint="Try one picture.")


# ---- 5. Training


def collect_minibatches(n, size, seed):
    import numpy as np

    return [np.array(piece) for piece in minibatches(n, size, np.random.default_rng(seed))]


@check("minibatches", weight=2)
def every_picture_is_in_one_minibatch(student, rng):
    """every index is in exactly one piece, and only the last is shorter"""
    for n, size in ((20, 6), (12, 4), (5, 8), (1, 1)):
        got = student.probe(collect_minibatches, n=n, size=size, seed=int(rng.integers(1000)))
        indices = sorted(int(i) for piece in got for i in np.ravel(piece))
        if indices != list(range(n)):
            raise Feedback(
                f"minibatches({n}, {size}, rng): {n} pictures, but the pieces hold "
                f"{len(indices)} indices, {len(set(indices))} different ones.",
                hint="The last piece may be shorter, and no picture may be in two.",
            )
        lengths, full = [len(piece) for piece in got], n // size
        expected = [size] * full + ([n % size] if n % size else [])
        hint = "Pieces of `size`; what is left over is the last one."
        close(lengths, expected, called=f"lengths of minibatches({n}, {size}, rng)", hint=hint)


@check("minibatches", requires="every_picture_is_in_one_minibatch")
def the_order_is_random(student, rng):
    """the order is drawn from the generator: another state, another order"""
    seed = int(rng.integers(1000))
    cut = [student.probe(collect_minibatches, n=64, size=8, seed=s) for s in (seed, seed, seed + 1)]
    first, same_seed, other_seed = map(np.concatenate, cut)
    hint = "Pictures come sorted, or in their file's order. rng knows how to shuffle."
    if not np.array_equal(first, same_seed):
        raise Feedback("minibatches: the same generator gave two orders.", hint="Use rng alone.")
    if np.array_equal(first, other_seed) or np.array_equal(first, np.arange(64)):
        raise Feedback("minibatches: the order does not come from the generator.", hint=hint)
    if any(np.ptp(piece) == 7 for piece in cut[0]):
        raise Feedback(
            "minibatches(64, 8, rng): a piece holds eight neighbours, as the pictures lay.",
            hint="May any two pictures meet in one minibatch, or only those that lie together?",
        )
    ends = [student.probe(collect_minibatches, n=40, size=16, seed=s)[-1] for s in (seed, seed + 1)]
    if all(sorted(end) == list(range(32, 40)) for end in ends):
        raise Feedback(
            "minibatches(40, 16, rng): the shorter piece always holds the last eight pictures.",
            hint="Which indices are shuffled: all, or only as many as make full pieces?",
        )


def run_sgd_step(params, grads, lr, steps=1):
    """Return (params afterwards, grads afterwards): the very arrays that were passed."""
    own_params, slopes = [p.copy() for p in params], [g.copy() for g in grads]
    arrays = list(own_params)  # whoever else holds the arrays knows nothing of the list
    for _ in range(steps):
        sgd_step(own_params, slopes, lr)
    return arrays, slopes


def ask_sgd_step(student, rng):
    shapes = ((2, 3), (3,), (1, 1))
    params, grads = ([np.array(rng.normal(size=s)) for s in shapes] for _ in range(2))
    lr = float(rng.uniform(0.1, 0.9))
    return params, grads, lr, student.probe(run_sgd_step, params=params, grads=grads, lr=lr)


@check("sgd_step", weight=2)
def a_step_goes_downhill_in_place(student, rng):
    """each parameter moves by lr times its gradient, downhill, in its own memory"""
    params, grads, lr, (after, _) = ask_sgd_step(student, rng)
    if all(np.array_equal(a, p) for a, p in zip(after, params, strict=True)):
        raise Feedback(
            "After sgd_step the arrays that were passed in are what they were.",
            hint="p = p - ... gives a new array a name. Who else knows that name?",
        )
    expected = [p - lr * g for p, g in zip(params, grads, strict=True)]
    close(
        after, expected, called="params after sgd_step", hint="Against the gradient, by lr of it."
    )


@check("sgd_step", requires="a_step_goes_downhill_in_place")
def the_gradients_are_left_alone(student, rng):
    """the gradients are the same afterwards"""
    _, grads, _, (_, after) = ask_sgd_step(student, rng)
    close(after, grads, called="grads after sgd_step", hint="Which of your steps is in place?")


@check("sgd_step", requires="a_step_goes_downhill_in_place")
def a_second_step_is_like_the_first(student, rng):
    """with the same gradients, a second step moves the same arrays as far again"""
    params, grads, lr, _ = ask_sgd_step(student, rng)
    after, _ = student.probe(run_sgd_step, params=params, grads=grads, lr=lr, steps=2)
    expected = [p - 2 * lr * g for p, g in zip(params, grads, strict=True)]
    hint = "What does a step leave behind, in the list or elsewhere, that the next one finds?"
    close(after, expected, called="params after two steps", hint=hint)


# ---- 6. Any depth


def draw_deep_network(rng, sizes, skip):
    """Return (params, notes, out_grad), the notes as `deep_forward` would write them.

    The skip of layer k, the first being 0, is the k-th power of `skip`: no two are alike.
    """
    params, notes, x = [], [], rng.normal(size=(5, sizes[0]))
    for depth, (n_in, n_out) in enumerate(pairwise(sizes)):
        w, b = rng.normal(size=(n_in, n_out)), rng.normal(size=n_out)
        z = x @ w + b
        last = depth == len(sizes) - 2
        is_open = np.ones_like(z, dtype=bool) if last else z > 0
        way_round = skip**depth if depth and not last else 0.0
        params += [w, b]
        notes.append((x, is_open, way_round))
        x = z * is_open + (way_round * x if way_round else 0.0)
    return params, notes, rng.normal(size=x.shape)


def compute_deep_gradients(params, notes, out_grad):
    """The definition: with the gates held, the logits are linear in each number, so move it by 1."""

    def weighted_logits():
        x = notes[0][0]
        for i, (_, is_open, skip) in enumerate(notes):
            x = (x @ params[2 * i] + params[2 * i + 1]) * is_open + (skip * x if skip else 0.0)
        return np.sum(out_grad * x)

    before, grads = weighted_logits(), [np.zeros_like(p) for p in params]
    for param, grad in zip(params, grads, strict=True):
        for at in np.ndindex(param.shape):
            value = param[at]
            param[at] = value + 1.0
            grad[at] = weighted_logits() - before
            param[at] = value
    return grads


def compare_deep(student, rng, sizes, skip, hint):
    params, notes, out_grad = draw_deep_network(rng, sizes, skip)
    got = ask_without_differences(student, "deep_backward", params, notes, out_grad)
    expected = compute_deep_gradients(params, notes, out_grad)
    called = f"deep_backward, sizes {list(sizes)}, skip {skip:g}"
    if not isinstance(got, list | tuple) or len(got) != len(params):
        raise Feedback(f"{called}: expected {len(params)} gradients in a list.", hint=hint)
    for i, (g, e) in reversed(list(enumerate(zip(got, expected, strict=True)))):
        close(g, e, called=f"{called}: gradient {i}", hint=hint)


@check("deep_backward", weight=2)
def layers_without_skips(student, rng):
    """any number of plain layers"""
    hint = "Last layer first; the gradients are in the order of params: w, b, w, b."
    for sizes in ((4, 5, 3), (3, 4, 4, 2), (2, 3)):
        compare_deep(student, rng, sizes, 0.0, hint)


@check("deep_backward", weight=3)
def both_users_of_a_value_send_their_share(student, rng):
    """with skips the two adjoints add up"""
    hint = "The input of a layer with a skip went two ways. What comes back on each of them?"
    for skip in (1.0, 0.5):
        compare_deep(student, rng, (3, 4, 4, 2), skip, hint)


@check("deep_backward", requires="layers_without_skips")
def notes_can_be_read_again(student, rng):
    """asked again with the same notes, it gives the same gradients"""
    network = draw_deep_network(rng, (3, 4, 2), 0.0)
    must_be_the_same_again(student, "deep_backward", network, compute_deep_gradients(*network))


@check("deep_backward", hidden=True)
def a_deep_network_with_skips(student, rng):
    """eight layers with skips, and square ones at both ends"""
    compare_deep(student, rng, (4, 4, 4, 4, 4, 4, 4, 4, 4), -0.7, "What comes back on each way?")
