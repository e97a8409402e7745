"""Named wrong answers to lab 01: each must fail its own check, with a message of its own."""

import numpy as np


# %% wrong="adds_a_ridge" question="closed_form" check="the_formula_finds_the_minimum" says="closed_form(x, y)"
def closed_form(x, y):
    return np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ y)


# %% wrong="each_column_by_itself" question="closed_form" check="the_formula_finds_the_minimum" says="x^T (x w - y)"
def closed_form(x, y):
    return (x.T @ y) / (x**2).sum(axis=0)


# %% wrong="centres_the_targets" question="closed_form" check="the_formula_finds_the_minimum" says="zero"
def closed_form(x, y):
    return np.linalg.solve(x.T @ x, x.T @ (y - y.mean()))


# %% wrong="scales_the_points_in_place" question="closed_form" check="the_points_stay_as_they_are" says="handed in"
def closed_form(x, y):
    largest = np.abs(x).max()
    x /= largest
    return np.linalg.solve(x.T @ x, x.T @ y) / largest


# %% wrong="gradient_of_the_sum" question="mse_gradient" check="the_gradient_of_the_mean_squared_error" says="gradient that of a sum"
def mse_gradient(x, y, w):
    return 2 * x.T @ (x @ w - y)


# %% wrong="no_two" question="mse_gradient" check="the_gradient_of_the_mean_squared_error" says="when it is differentiated"
def mse_gradient(x, y, w):
    return x.T @ (x @ w - y) / len(y)


# %% wrong="truth_minus_prediction" question="mse_gradient" check="the_gradient_of_the_mean_squared_error" says="Which way does the error point"
def mse_gradient(x, y, w):
    return 2 / len(y) * x.T @ (y - x @ w)


# %% wrong="an_error_for_each_point" question="mse_gradient" check="the_gradient_of_the_mean_squared_error" says="shape"
def mse_gradient(x, y, w):
    return 2 / len(y) * (x @ w - y)


# %% wrong="writes_into_the_targets" question="mse_gradient" check="its_data_stay_as_they_are" says="handed in"
def mse_gradient(x, y, w):
    y -= x @ w
    return -2 / len(y) * x.T @ y


# %% wrong="slope_by_differences_again" question="mse_gradient" check="no_weight_is_moved" says="numerical gradient"
def mse_gradient(x, y, w):
    moves = 1e-3 * np.eye(len(w))
    return np.array([mse(x, y, w + move) - mse(x, y, w - move) for move in moves]) / 2e-3


# %% wrong="a_list_of_slopes" question="mse_gradient" check="the_gradient_of_the_mean_squared_error" says="expected an array"
def mse_gradient(x, y, w):
    errors = x @ w - y
    return [2 * np.mean(errors * column) for column in x.T]


# %% wrong="the_same_array_every_time" question="descend" check="each_step_goes_against_the_gradient" says="an array of its own"
def descend(gradient, w, lr, steps):
    path = [w]
    for _ in range(steps):
        w -= lr * gradient(w)
        path.append(w)
    return np.array(path)


# %% wrong="uphill" question="descend" check="each_step_goes_against_the_gradient" says="goes against it"
def descend(gradient, w, lr, steps):
    path = [w]
    for _ in range(steps):
        path.append(path[-1] + lr * gradient(path[-1]))
    return np.array(path)


# %% wrong="the_first_gradient_for_ever" question="descend" check="each_step_goes_against_the_gradient" says="where it stands"
def descend(gradient, w, lr, steps):
    g = gradient(w)
    return np.array([w - lr * i * g for i in range(steps + 1)])


# %% wrong="forgets_the_start" question="descend" check="each_step_goes_against_the_gradient" says="The start is a row"
def descend(gradient, w, lr, steps):
    path = []
    for _ in range(steps):
        w = w - lr * gradient(w)
        path.append(w)
    return np.array(path)


# %% wrong="moves_the_start" question="descend" check="the_start_is_not_modified" says="new array"
def descend(gradient, w, lr, steps):
    path = [w.copy()]
    for _ in range(steps):
        w -= lr * gradient(w)
        path.append(w.copy())
    return np.array(path)


# %% wrong="stops_where_it_is_flat" question="descend" check="all_steps_are_in_the_path" says="how many steps"
def descend(gradient, w, lr, steps):
    path = [w]
    for _ in range(steps):
        slope = gradient(path[-1])
        if np.linalg.norm(slope) < 1e-6:
            break
        path.append(path[-1] - lr * slope)
    return np.array(path)


# %% wrong="writes_into_the_gradient" question="descend" check="the_start_is_not_modified" says="very array"
def descend(gradient, w, lr, steps):
    path = [w.copy()]
    for _ in range(steps):
        step = gradient(path[-1])
        step *= lr
        path.append(path[-1] - step)
    return np.array(path)


# %% wrong="calls_itself_for_each_step" question="descend" check="all_steps_are_in_the_path" says="calls itself"
def descend(gradient, w, lr, steps):
    if steps == 0:
        return w[np.newaxis].copy()
    return np.vstack([w[np.newaxis], descend(gradient, w - lr * gradient(w), lr, steps - 1)])


# %% wrong="walks_from_the_start_each_time" question="descend" check="all_steps_are_in_the_path" says="Where does the next step begin"
def descend(gradient, w, lr, steps):
    def place(n):
        return w if n == 0 else place(n - 1) - lr * gradient(place(n - 1))

    return np.array([place(n) for n in range(steps + 1)])


# %% wrong="where_one_step_is_enough" question="largest_lr" check="the_edge_is_where_the_steepest_direction_stops_shrinking" says="half of what it should be"
def largest_lr(x):
    return 1 / np.linalg.eigvalsh(2 / len(x) * x.T @ x)[-1]


# %% wrong="the_flattest_direction" question="largest_lr" check="the_edge_is_where_the_steepest_direction_stops_shrinking" says="steepest"
def largest_lr(x):
    return 2 / np.linalg.eigvalsh(2 / len(x) * x.T @ x)[0]


# %% wrong="hessian_of_the_sum" question="largest_lr" check="the_edge_is_where_the_steepest_direction_stops_shrinking" says="2/n x^T x"
def largest_lr(x):
    return 2 / np.linalg.eigvalsh(2 * x.T @ x)[-1]


# %% wrong="longest_column" question="largest_lr" check="the_edge_is_where_the_steepest_direction_stops_shrinking" says="direction"
def largest_lr(x):
    return 1 / (x**2).mean(axis=0).max()


# %% wrong="takes_the_first_eigenvalue" question="largest_lr" check="the_edge_is_where_the_steepest_direction_stops_shrinking" says="steepest"
def largest_lr(x):
    return 2 / np.linalg.eigvals(2 / len(x) * x.T @ x)[0]


# %% wrong="forward_differences" question="numerical_gradient" check="differences_are_central" says="forward difference"
def numerical_gradient(f, point, step=1e-5):
    grad = np.zeros_like(point)
    for i in np.ndindex(*point.shape):
        up = point.copy()
        up[i] += step
        grad[i] = (f(up) - f(point)) / step
    return grad


# %% wrong="divides_by_one_step" question="numerical_gradient" check="differences_are_central" says="how far apart"
def numerical_gradient(f, point, step=1e-5):
    grad = np.zeros_like(point)
    for i in np.ndindex(*point.shape):
        up, down = point.copy(), point.copy()
        up[i] += step
        down[i] -= step
        grad[i] = (f(up) - f(down)) / step
    return grad


# %% wrong="all_elements_at_once" question="numerical_gradient" check="differences_are_central" says="One element at a time"
def numerical_gradient(f, point, step=1e-5):
    return np.full(point.shape, (f(point + step) - f(point - step)) / (2 * step))


# %% wrong="does_not_put_the_element_back" question="numerical_gradient" check="differences_are_central" says="One element at a time"
def numerical_gradient(f, point, step=1e-5):
    grad = np.zeros_like(point)
    for i in np.ndindex(*point.shape):
        point[i] += step
        up = f(point)
        point[i] -= 2 * step
        grad[i] = (up - f(point)) / (2 * step)
    return grad


# %% wrong="puts_it_back_by_arithmetic" question="numerical_gradient" check="the_point_stays_where_it_is" says="not always p"
def numerical_gradient(f, point, step=1e-5):
    grad = np.zeros_like(point)
    for i in np.ndindex(*point.shape):
        point[i] += step
        up = f(point)
        point[i] -= 2 * step
        grad[i] = (up - f(point)) / (2 * step)
        point[i] += step
    return grad


# %% wrong="ignores_the_step" question="numerical_gradient" check="differences_are_central" says="step 0.1"
def numerical_gradient(f, point, step=1e-5):
    grad = np.zeros_like(point)
    for i in np.ndindex(*point.shape):
        up, down = point.copy(), point.copy()
        up[i] += 1e-5
        down[i] -= 1e-5
        grad[i] = (f(up) - f(down)) / 2e-5
    return grad


# %% wrong="steps_in_a_copy" question="numerical_gradient" check="two_evaluations_an_element" says="Does f see"
def numerical_gradient(f, point, step=1e-5):
    flat, grad = point.ravel(), np.zeros(point.size)
    for i, value in enumerate(flat):
        flat[i] = value + step
        up = f(point)
        flat[i] = value - step
        grad[i] = (up - f(point)) / (2 * step)
        flat[i] = value
    return grad.reshape(point.shape)


# %% wrong="within_a_hundredth" question="agree" check="equal_gradients_agree" says="in proportion"
def agree(by_hand, numerical, tolerance=1e-6):
    return bool(by_hand.shape == numerical.shape and np.abs(by_hand - numerical).max() < 1e-2)


# %% wrong="allclose_as_it_comes" question="agree" check="wrong_gradients_do_not" says="Near a minimum"
def agree(by_hand, numerical, tolerance=1e-6):
    return by_hand.shape == numerical.shape and np.allclose(by_hand, numerical, rtol=tolerance)


# %% wrong="relative_at_a_hundredth" question="agree" check="wrong_gradients_do_not" says="how wrong may a rule be"
def agree(by_hand, numerical, tolerance=1e-2):
    longer = max(np.linalg.norm(by_hand), np.linalg.norm(numerical))
    return bool(np.linalg.norm(by_hand - numerical) <= tolerance * longer)


# %% wrong="compares_the_lengths" question="agree" check="wrong_gradients_do_not" says="equally long"
def agree(by_hand, numerical, tolerance=1e-6):
    if by_hand.shape != numerical.shape:
        return False
    a, b = np.linalg.norm(by_hand), np.linalg.norm(numerical)
    return bool(abs(a - b) <= tolerance * max(a, b))


# %% wrong="asks_the_wrong_way_round" question="agree" check="nan_never_agrees" says="NaN"
def agree(by_hand, numerical, tolerance=1e-6):
    if by_hand.shape != numerical.shape:
        return False
    longer = max(np.linalg.norm(by_hand), np.linalg.norm(numerical))
    return not np.linalg.norm(by_hand - numerical) > tolerance * longer


# %% wrong="divides_by_zero" question="agree" check="equal_gradients_agree" says="zeros and zeros"
def agree(by_hand, numerical, tolerance=1e-6):
    if by_hand.shape != numerical.shape:
        return False
    longer = max(np.linalg.norm(by_hand), np.linalg.norm(numerical))
    with np.errstate(invalid="ignore"):
        return bool(np.linalg.norm(by_hand - numerical) / longer <= tolerance)


# %% wrong="lets_shapes_broadcast" question="agree" check="another_shape_never_agrees" says="may broadcast"
def agree(by_hand, numerical, tolerance=1e-6):
    longer = max(np.linalg.norm(by_hand), np.linalg.norm(numerical))
    return bool(np.linalg.norm(by_hand - numerical) <= tolerance * longer)


# %% wrong="adds_a_little_below" question="agree" check="wrong_gradients_do_not" says="Near a minimum"
def agree(by_hand, numerical, tolerance=1e-6):
    if by_hand.shape != numerical.shape:
        return False
    longer = max(np.linalg.norm(by_hand), np.linalg.norm(numerical), 1e-12)
    return bool(np.linalg.norm(by_hand - numerical) / longer <= tolerance)


# %% wrong="largest_singular_value" question="agree" check="the_tolerance_is_the_length_of_the_difference" says="no other norm"
def agree(by_hand, numerical, tolerance=1e-6):
    if by_hand.shape != numerical.shape:
        return False
    order = 2 if by_hand.ndim == 2 else None
    longer = max(np.linalg.norm(by_hand, order), np.linalg.norm(numerical, order))
    return bool(np.linalg.norm(by_hand - numerical, order) <= tolerance * longer)


# %% wrong="less_and_not_equal" question="agree" check="the_tolerance_is_the_length_of_the_difference" says="it says <="
def agree(by_hand, numerical, tolerance=1e-6):
    if by_hand.shape != numerical.shape:
        return False
    longer = max(np.linalg.norm(by_hand), np.linalg.norm(numerical))
    return bool(longer == 0 or np.linalg.norm(by_hand - numerical) < tolerance * longer)


# %% wrong="subtracts_in_place" question="agree" check="both_gradients_stay_as_they_are" says="handed in"
def agree(by_hand, numerical, tolerance=1e-6):
    if by_hand.shape != numerical.shape:
        return False
    longer = max(np.linalg.norm(by_hand), np.linalg.norm(numerical))
    by_hand -= numerical
    return bool(np.linalg.norm(by_hand) <= tolerance * longer)


# %% wrong="agrees_on_no_number" question="agree" check="equal_gradients_agree" says="needs an axis"
def agree(by_hand, numerical, tolerance=1e-6):
    if by_hand.shape != numerical.shape or by_hand.ndim == 0:
        return False
    longer = max(np.linalg.norm(by_hand), np.linalg.norm(numerical))
    return bool(np.linalg.norm(by_hand - numerical) <= tolerance * longer)


# %% wrong="overflows" question="cross_entropy" check="large_logits_do_no_harm" says="exp overflows"
def cross_entropy(logits, labels):
    rows = np.arange(len(labels))
    with np.errstate(all="ignore"):
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        loss = -np.log(p[rows, labels]).mean()
    grad = p.copy()
    grad[rows, labels] -= 1
    return loss, grad / len(labels)


# %% wrong="adds_where_it_should_average" question="cross_entropy" check="the_gradient_is_probability_minus_one_hot" says="times too long"
def cross_entropy(logits, labels):
    rows = np.arange(len(labels))
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = exp / exp.sum(axis=1, keepdims=True)
    loss = -np.log(p[rows, labels]).mean()
    p[rows, labels] -= 1
    return loss, p


# %% wrong="softmax_over_the_pictures" question="cross_entropy" check="the_loss_is_the_mean_negative_log_probability" says="over the classes"
def cross_entropy(logits, labels):
    rows = np.arange(len(labels))
    exp = np.exp(logits - logits.max(axis=0))
    p = exp / exp.sum(axis=0)
    loss = -np.log(p[rows, labels]).mean()
    p[rows, labels] -= 1
    return loss, p / len(labels)


# %% wrong="logarithm_of_zero" question="cross_entropy" check="a_hopeless_picture_has_a_finite_loss" says="a logarithm of zero"
def cross_entropy(logits, labels):
    rows = np.arange(len(labels))
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = exp / exp.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        loss = -np.log(p[rows, labels]).mean()
    p[rows, labels] -= 1
    return loss, p / len(labels)


# %% wrong="takes_the_largest_of_all" question="cross_entropy" check="large_logits_do_no_harm" says="softmax of its own"
def cross_entropy(logits, labels):
    rows = np.arange(len(labels))
    shifted = logits - logits.max()
    exp = np.exp(shifted)
    total = exp.sum(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        grad = exp / total
        grad[rows, labels] -= 1
        return np.mean(np.log(total[:, 0]) - shifted[rows, labels]), grad / len(labels)


# %% wrong="shifts_in_place" question="cross_entropy" check="the_logits_are_not_modified" says="in place"
def cross_entropy(logits, labels):
    rows = np.arange(len(labels))
    logits -= logits.max(axis=1, keepdims=True)
    exp = np.exp(logits)
    p = exp / exp.sum(axis=1, keepdims=True)
    loss = (np.log(exp.sum(axis=1)) - logits[rows, labels]).mean()
    p[rows, labels] -= 1
    return loss, p / len(labels)


# %% wrong="numerical_all_the_way" question="cross_entropy" check="no_logit_is_moved" says="numerical gradient"
def cross_entropy(logits, labels):
    def loss(z):
        return np.mean(np.logaddexp.reduce(z, axis=1) - z[np.arange(len(labels)), labels])

    return loss(logits), numerical_gradient(loss, logits)


# %% wrong="turns_labels_into_places" question="cross_entropy" check="the_logits_are_not_modified" says="labels after"
def cross_entropy(logits, labels):
    largest = logits.max(axis=1, keepdims=True)
    total = np.exp(logits - largest).sum(axis=1, keepdims=True)
    grad = np.exp(logits - largest) / total
    labels += logits.shape[1] * np.arange(len(labels))
    grad.flat[labels] -= 1
    loss = np.mean(np.log(total) + largest) - np.mean(logits.flat[labels])
    return loss, grad / len(labels)


# %% wrong="no_relu_on_the_way_back" question="backward" check="the_first_layer_has_its_gradients" says="through the ReLU"
def backward(params, x, hidden, out_grad):
    _, _, w2, _ = params
    inner = out_grad @ w2.T
    return [x.T @ inner, inner.sum(axis=0), hidden.T @ out_grad, out_grad.sum(axis=0)]


# %% wrong="mean_over_the_rows" question="backward" check="the_second_layer_has_its_gradients" says="each row sends it a share"
def backward(params, x, hidden, out_grad):
    _, _, w2, _ = params
    inner = (out_grad @ w2.T) * (hidden > 0)
    return [x.T @ inner, inner.mean(axis=0), hidden.T @ out_grad, out_grad.mean(axis=0)]


# %% wrong="multiplies_by_hidden" question="backward" check="the_first_layer_has_its_gradients" says="That way its adjoint"
def backward(params, x, hidden, out_grad):
    _, _, w2, _ = params
    inner = (out_grad @ w2.T) * hidden
    return [x.T @ inner, inner.sum(axis=0), hidden.T @ out_grad, out_grad.sum(axis=0)]


# %% wrong="transposed" question="backward" check="the_second_layer_has_its_gradients" says="gradient of w2"
def backward(params, x, hidden, out_grad):
    _, _, w2, _ = params
    inner = (out_grad @ w2.T) * (hidden > 0)
    return [inner.T @ x, inner.sum(axis=0), out_grad.T @ hidden, out_grad.sum(axis=0)]


# %% wrong="makes_a_mask_of_hidden" question="backward" check="its_inputs_stay_as_they_are" says="handed in"
def backward(params, x, hidden, out_grad):
    _, _, w2, _ = params
    dw2 = hidden.T @ out_grad
    hidden[hidden > 0] = 1
    inner = (out_grad @ w2.T) * hidden
    return [x.T @ inner, inner.sum(axis=0), dw2, out_grad.sum(axis=0)]


# %% wrong="loses_the_rest" question="minibatches" check="every_picture_is_in_one_minibatch" says="may be shorter"
def minibatches(n, size, rng):
    order = rng.permutation(n)
    return [order[i * size : (i + 1) * size] for i in range(n // size)]


# %% wrong="draws_with_replacement" question="minibatches" check="every_picture_is_in_one_minibatch" says="in two"
def minibatches(n, size, rng):
    order = rng.integers(0, n, size=n)
    return [order[i : i + size] for i in range(0, n, size)]


# %% wrong="does_not_shuffle" question="minibatches" check="the_order_is_random" says="shuffle"
def minibatches(n, size, rng):
    return [np.arange(i, min(i + size, n)) for i in range(0, n, size)]


# %% wrong="shuffles_inside_the_pieces" question="minibatches" check="the_order_is_random" says="meet"
def minibatches(n, size, rng):
    return [rng.permutation(np.arange(i, min(i + size, n))) for i in range(0, n, size)]


# %% wrong="shuffles_the_pieces" question="minibatches" check="the_order_is_random" says="neighbours"
def minibatches(n, size, rng):
    full = n // size * size
    pieces = list(np.arange(full).reshape(-1, size))
    rng.shuffle(pieces)
    return pieces + ([np.arange(full, n)] if full < n else [])


# %% wrong="equal_parts" question="minibatches" check="every_picture_is_in_one_minibatch" says="lengths"
def minibatches(n, size, rng):
    return np.array_split(rng.permutation(n), -(-n // size))


# %% wrong="leaves_the_rest_where_it_is" question="minibatches" check="the_order_is_random" says="only as many as make full pieces"
def minibatches(n, size, rng):
    full = n // size * size
    order = np.concatenate([rng.permutation(full), np.arange(full, n)])
    return [order[i : i + size] for i in range(0, n, size)]


# %% wrong="a_new_array_with_an_old_name" question="sgd_step" check="a_step_goes_downhill_in_place" says="Who else knows"
def sgd_step(params, grads, lr):
    for param, grad in zip(params, grads):
        param = param - lr * grad


# %% wrong="new_arrays_in_the_list" question="sgd_step" check="a_step_goes_downhill_in_place" says="Who else knows"
def sgd_step(params, grads, lr):
    for i, grad in enumerate(grads):
        params[i] = params[i] - lr * grad


# %% wrong="climbs" question="sgd_step" check="a_step_goes_downhill_in_place" says="Against the gradient"
def sgd_step(params, grads, lr):
    for param, grad in zip(params, grads):
        param += lr * grad


# %% wrong="scales_the_gradients_too" question="sgd_step" check="the_gradients_are_left_alone" says="in place"
def sgd_step(params, grads, lr):
    for param, grad in zip(params, grads):
        grad *= lr
        param -= grad


# %% wrong="copies_into_the_list" question="sgd_step" check="a_second_step_is_like_the_first" says="the next one finds"
def sgd_step(params, grads, lr):
    for i, grad in enumerate(grads):
        params[i] -= lr * grad
        params[i] = params[i].copy()


# %% wrong="goes_on_by_itself" question="sgd_step" check="a_second_step_is_like_the_first" says="the next one finds"
moving = {}


def sgd_step(params, grads, lr):
    for i, grad in enumerate(grads):
        moving[i] = (
            0.9 * moving.get(i, 0.0) + grad if np.shape(moving.get(i)) == grad.shape else grad
        )
        params[i] -= lr * moving[i]


# %% wrong="forgets_the_way_round" question="deep_backward" check="both_users_of_a_value_send_their_share" says="went two ways"
def deep_backward(params, notes, out_grad):
    grads = []
    for w, (x, is_open, _) in zip(params[-2::-2], reversed(notes)):
        inner = out_grad * is_open
        grads = [x.T @ inner, inner.sum(axis=0), *grads]
        out_grad = inner @ w.T
    return grads


# %% wrong="closes_the_way_round" question="deep_backward" check="both_users_of_a_value_send_their_share" says="on each of them"
def deep_backward(params, notes, out_grad):
    grads = []
    for w, (x, is_open, skip) in zip(params[-2::-2], reversed(notes)):
        inner = out_grad * is_open
        grads = [x.T @ inner, inner.sum(axis=0), *grads]
        out_grad = inner @ w.T + (skip * inner if skip else 0.0)
    return grads


# %% wrong="last_layer_first" question="deep_backward" check="layers_without_skips" says="order of params"
def deep_backward(params, notes, out_grad):
    grads = []
    for w, (x, is_open, skip) in zip(params[-2::-2], reversed(notes)):
        inner = out_grad * is_open
        grads += [x.T @ inner, inner.sum(axis=0)]
        out_grad = inner @ w.T + (skip * out_grad if skip else 0.0)
    return grads


# %% wrong="takes_every_skip_for_one" question="deep_backward" check="both_users_of_a_value_send_their_share" says="skip 0.5"
def deep_backward(params, notes, out_grad):
    grads = []
    for w, (x, is_open, skip) in zip(params[-2::-2], reversed(notes)):
        inner = out_grad * is_open
        grads = [x.T @ inner, inner.sum(axis=0), *grads]
        out_grad = inner @ w.T + (out_grad if skip else 0.0)
    return grads


# %% wrong="takes_the_notes_away" question="deep_backward" check="notes_can_be_read_again" says="handed in"
def deep_backward(params, notes, out_grad):
    grads = []
    for w in params[-2::-2]:
        x, is_open, skip = notes.pop()
        inner = out_grad * is_open
        grads = [x.T @ inner, inner.sum(axis=0), *grads]
        out_grad = inner @ w.T + (skip * out_grad if skip else 0.0)
    return grads


# %% wrong="one_skip_for_all_layers" question="deep_backward" check="a_deep_network_with_skips" says="each way"
def deep_backward(params, notes, out_grad):
    grads, skip = [], notes[min(1, len(notes) - 1)][2]
    for i in reversed(range(len(notes))):
        x, is_open, _ = notes[i]
        inner = out_grad * is_open
        grads = [x.T @ inner, inner.sum(axis=0), *grads]
        out_grad = inner @ params[2 * i].T + (skip * out_grad if 0 < i < len(notes) - 1 else 0.0)
    return grads
