# %% [markdown] builds="a line by formula and by descent, a gradient check, a network with gradients of your own" needs="NumPy, the chain rule" audience="gpu"
# # Lab 01: Gradients by hand
#
# - **You build** a line fitted by a formula and by descent, a check for gradients, and a network for handwritten digits whose every gradient you derive yourself.
# - **You need** NumPy, matrix products, the chain rule.
# - **It takes** about 90 minutes: introduction 2, sections 6, 15, 17, 17, 11 and 12, discussion 10. The reading note is for another day.
#
# The gradients of AlexNet (2012) were derived on paper. You do the same for a small network, and find out how to be *sure* of a gradient, and why nobody works like this any more.

# %% tags="setup"
import platform
import time
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import lessons.gradient_figures as figures
from autograder import compare, lab
from lessons.device_note import device_note
from lessons.figures import GrowingCurve
from lessons.timing import best_seconds, in_turns
from minitorch.data import digits

try:
    import torch
except ImportError:
    torch = None

q = lab("gradients_by_hand")

# %% tags="setup"
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
CUDA = torch is not None and torch.cuda.is_available()
for name in ("numpy", "scikit-learn", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())
print(device_note(torch.cuda.get_device_name() if CUDA else "", "section 4 times forward there"))

# %% [markdown]
# The whole lab uses three points. The first column of `x` is one: the first weight is where the line starts, the second its slope.

# %%
x = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 4.0]])
y = np.array([1.0, 2.0, 2.0])


# %% [markdown]
# ## 1. A formula
#
# **Supervised learning** in one line: given $X$ and $Y$, find weights $W$ with $f(X \mid W) = Y + e$ and errors $e$ that are small. How small is a loss; its mean over the points that one has is the **empirical risk**, and to make that small is **empirical risk minimisation**. What one wants is a small loss on points that nobody has seen yet: section 5 measures both.
#
# Here $f$ is a line, and the risk is the **mean squared error**, $L(w) = \frac1n \sum_i (x_i \cdot w - y_i)^2$. The simplest way: try many.


# %%
def mse(x, y, w):
    """The mean squared error of the predictions x @ w."""
    return np.mean((x @ w - y) ** 2)


def try_them_all(x, y, ticks):
    """Return the best pair of weights on a grid, and how many were tried."""
    pairs = [np.array([a, b]) for a in ticks for b in ticks]
    return min(pairs, key=lambda w: mse(x, y, w)), len(pairs)


start = time.perf_counter()
best, tried = try_them_all(x, y, np.linspace(-2, 2, 101))
took = time.perf_counter() - start
print(f"{tried:,} pairs: {best}, mean squared error {mse(x, y, best):.4f}")
print(f"ten weights would take {took / tried * 101.0**10 / 3.15e7:.1g} years, and give two digits")

# %% [markdown]
# **Idea.** At the minimum the gradient is zero. With $x$ the matrix whose rows are the points,
#
# $$\nabla L = \tfrac2n\, x^\top (x w - y) = 0 \quad\Longleftrightarrow\quad x^\top x\, w = x^\top y .$$
#
# These **normal equations** are linear in $w$. So the error $xw - y$ stands at a right angle to every column of $x$.
#
# The product $x^\top x$ costs $n d^2$ multiplications, and solving the equations $d^3/3$.
# *(Gauss 1809; Golub & Van Loan, "Matrix Computations", chapter 5.)*
#
# **Predict.** With twice as many weights and twice as many points, how many times as long does the formula take?

# %%
### BEGIN STARTER
# predicted_growth = ...
### END STARTER
### BEGIN SOLUTION
predicted_growth = 8
### END SOLUTION


# %% question="closed_form" points="3" hint1="The normal equations have the form A w = c. What is A, what is c, and which shapes do they have?" hint2="np.linalg.solve(A, c) returns the w with A @ w = c. There is no need to invert a matrix."
def closed_form(x, y):
    """Return the weights with the smallest mean squared error.

    Args:
        x: (n, d), with independent columns, d <= n.
        y: (n,).
    Returns: an array, (d,).
    """
    ### BEGIN SOLUTION
    return np.linalg.solve(x.T @ x, x.T @ y)
    ### END SOLUTION


# %% [markdown]
# **Try it** on the three points. By hand: the line is $1 + \frac27 t$.

# %%
w_best = closed_form(x, y)
print("weights", w_best, "   2/7 =", 2 / 7)
print("error at a right angle to the columns:", x.T @ (x @ w_best - y))
through_0 = mse(x[:, 1:], y, closed_form(x[:, 1:], y))
print(f"mean squared error {mse(x, y, w_best):.3f}; without the column of ones {through_0:.3f}")

# %% tags="check"
q.check("closed_form")

# %% [markdown]
# **Measure** for more and more weights $d$ and $n = 2d$ points.

# %%
rng = np.random.default_rng(0)
sizes = [128, 256, 512, 1024]
many = [(rng.normal(size=(2 * d, d)), rng.normal(size=2 * d)) for d in sizes]
formula_s = [best_seconds(partial(closed_form, *points), 7) for points in many]
compare("time at 1024 weights over time at 512", predicted_growth, formula_s[-1] / formula_s[-2])

# %%
figures.plot_formula(sizes, formula_s)
alexnet_s = formula_s[-1] * (60e6 / sizes[-1]) ** 3
print(f"60 million weights, as AlexNet has, would take {alexnet_s / 3.15e7:.1g} years")

# %% [markdown]
# **Reflect.** On the left the measured times lie above the model's line. What does the model leave out, and why does it matter less on the right? And how many bytes has $x^\top x$ for 60 million weights?
#
# *What the real system does.* scikit-learn's [`LinearRegression`](https://github.com/scikit-learn/scikit-learn/blob/main/sklearn/linear_model/_base.py) calls `scipy.linalg.lstsq`, which factors $x$ itself. The product $x^\top x$ would lose twice as many digits.

# %% [markdown]
# ## 2. Down the slope
#
# Now real data: 442 patients with diabetes, ten measurements each, and the state of the disease a year later (Efron et al. 2004), scaled to mean 0 and variance 1. We go against the gradient, with a short step and with one three times as long.

# %%
patients, progress = load_diabetes(return_X_y=True)
patients = (patients - patients.mean(axis=0)) / patients.std(axis=0)
progress = (progress - progress.mean()) / progress.std()
goal = closed_form(patients, progress)


def slope_by_differences(w, step=1e-6):
    """The gradient by definition: move each weight a little up and down."""
    moves = step * np.eye(len(w))
    up = np.array([mse(patients, progress, w + move) for move in moves])
    down = np.array([mse(patients, progress, w - move) for move in moves])
    return (up - down) / (2 * step)


for lr in (0.1, 0.3):
    w = np.zeros(10)
    for _ in range(60):
        w = w - lr * slope_by_differences(w)
    print(f"lr {lr}: error {mse(patients, progress, w):.4g} after 60 steps", end="; ")
    print(f"the formula has {mse(patients, progress, goal):.4g}")

# %% [markdown]
# **Idea.** The error is a bowl, steeper in some directions than in others. Take the **Hessian** $H = \frac2n x^\top x$ with eigenvectors $v_k$ and eigenvalues $\lambda_k$. Along $v_k$ each step multiplies the distance to the minimum by
#
# $$1 - \text{lr} \cdot \lambda_k .$$
#
# The distance shrinks while this factor is between $-1$ and $1$. The steepest direction, $\lambda_{\max}$, limits the step; the flattest, $\lambda_{\min}$, then decides how many steps are needed. With $\text{lr} = 1/\lambda_{\max}$ the flattest direction shrinks by the factor $1 - 1/\kappa$ in each step, where $\kappa = \lambda_{\max}/\lambda_{\min}$ is the **condition number**.
# *(Goh 2017, "Why Momentum Really Works", Distill.)*
#
# **Predict.** $\kappa$ for our patients is printed below. How many steps, with $\text{lr} = 1/\lambda_{\max}$, until the distance is a tenth? For a large $\kappa$, $(1 - 1/\kappa)^{\kappa} \approx 1/e$.

# %%
kappa = np.linalg.cond(patients) ** 2
print(f"condition number {kappa:.0f}")

# %%
### BEGIN STARTER
# predicted_steps = ...
### END STARTER
### BEGIN SOLUTION
predicted_steps = np.log(10) * kappa
### END SOLUTION


# %% question="mse_gradient" points="3" hint1="Differentiate (x_i . w - y_i)**2 by w_j: which two factors come out, besides the 2?" hint2="The factor x_ij, summed over i with the errors, is a matrix product. Which matrix, which way round, gives shape (d,)?" hint3="Do not forget that the loss is a mean over n."
def mse_gradient(x, y, w):
    """Return the gradient of `mse(x, y, w)` with respect to w.

    Args:
        x: (n, d).
        y: (n,).
        w: (d,).
    Returns: an array, (d,).
    """
    ### BEGIN SOLUTION
    return 2 / len(y) * x.T @ (x @ w - y)
    ### END SOLUTION


# %% question="descend" points="3" hint1="Keep all the points of the path in a list, and make the next from the last." hint2="If you write w -= ..., how many different arrays are there in the list?"
def descend(gradient, w, lr, steps):
    """Return the path of gradient descent, the start included.

    Args:
        gradient: a function of w, gives an array of w's shape.
        w: (d,), where to start; not modified.
        lr: the learning rate.
        steps: how many steps to take.
    Returns: (steps + 1, d); the first row is w.
    """
    ### BEGIN SOLUTION
    path = [w]
    for _ in range(steps):
        path.append(path[-1] - lr * gradient(path[-1]))
    return np.array(path)
    ### END SOLUTION


# %% question="largest_lr" points="3" hint1="Which direction is the first in which the distance no longer shrinks, and what is the factor there?" hint2="1 - lr * lambda reaches -1 first for the largest eigenvalue of the Hessian. Solve for lr." hint3="np.linalg.eigvalsh returns the eigenvalues of a symmetric matrix, the largest last. The Hessian is 2/n x^T x."
def largest_lr(x):
    """Return the learning rate above which descent on `mse` over x no longer converges.

    Args:
        x: (n, d), the data.
    Returns: a number.
    """
    ### BEGIN SOLUTION
    hessian = 2 / len(x) * x.T @ x
    return 2 / np.linalg.eigvalsh(hessian)[-1]
    ### END SOLUTION


# %% [markdown]
# **Try it** on the three points, with ten steps and with a hundred.

# %%
path = descend(lambda w: mse_gradient(x, y, w), np.zeros(2), lr=0.1, steps=100)
print("gradient at the start", mse_gradient(x, y, np.zeros(2)).round(3))
for name, w in {"10 steps": path[10], "100 steps": path[100], "the formula": w_best}.items():
    print(f"{name:12}", w.round(4))
print(f"largest learning rate {largest_lr(x):.4f}")

# %% tags="check"
q.check("mse_gradient")

# %% tags="check"
q.check("descend")

# %% tags="check"
q.check("largest_lr")

# %% [markdown]
# **Measure.** First find the largest learning rate that converges, by bisection with your `descend`. Then count the steps.


# %%
def distances(lr, steps):
    """Return how far from the formula's weights descent is after each step."""
    path = descend(lambda w: mse_gradient(patients, progress, w), np.zeros(10), lr, steps)
    return np.linalg.norm(path - goal, axis=1)


low, high = 0.1, 0.3  # the first converged, the second did not
while high / low > 1.0001:
    middle = (low + high) / 2
    way = distances(middle, 400)
    low, high = (low, middle) if way[-1] > way[-100] else (middle, high)
compare("largest learning rate", largest_lr(patients), low)

# %%
safe_lr = largest_lr(patients) / 2
way = distances(safe_lr, 4000)
measured_steps = np.argmax(way < way[2000] / 10) - 2000
compare("steps for a tenth of the distance", predicted_steps, float(measured_steps))
shares = (0.25, 0.5, 0.95, 1.01)
ways = {f"{s:g} of the largest": distances(s * largest_lr(patients), 600) for s in shares}
figures.plot_distances(ways, way[300] * (1 - 1 / kappa) ** (np.arange(600) - 300))

# %% [markdown]
# **Reflect.** A step of descent costs $4nd$ operations, the formula about $nd^2$. With the number of steps that you measured: for which $d$ would descent to a tenth be cheaper here? And if $\kappa$ is a million?
#
# *What the real system does.* [`torch.optim.SGD`](https://github.com/pytorch/pytorch/blob/main/torch/optim/sgd.py) is your loop body, with momentum, which needs about $\sqrt\kappa$ steps instead of $\kappa$. For a network one raises the learning rate until the loss jumps (Cohen et al. 2021).

# %% [markdown]
# ## 3. Is the gradient right?
#
# A colleague's gradient has a mistake. Look at the loss.


# %%
def colleagues_gradient(w):
    """Right, but for three of the ten weights."""
    grad = mse_gradient(patients, progress, w)
    grad[7:] *= [0.1, 3.0, 0.5]
    return grad


for name, rule in {
    "right": lambda w: mse_gradient(patients, progress, w),
    "colleague's": colleagues_gradient,
}.items():
    path = descend(rule, np.zeros(10), lr=0.05, steps=300)
    print(f"{name:12}", *(f"{mse(patients, progress, path[i]):.4f}" for i in (0, 10, 100, 300)))

# %% [markdown]
# The loss falls, and to the same value. **A falling loss does not prove a gradient.**
#
# **Idea.** Move one weight by $h$ up and down and look at the loss:
#
# $$\frac{f(w + h) - f(w - h)}{2h} = f'(w) + \tfrac{h^2}{6} f'''(w) + \dots$$
#
# This **central difference** has an error of about $h^2$, because the curve bends. A **forward difference**, $\frac{f(w+h) - f(w)}{h}$, has an error of about $h$. Both also lose digits: $f$ is known to a relative $\varepsilon \approx 10^{-16}$, and dividing by $h$ makes this an error of $\varepsilon / h$. The best step is where $h^2 = \varepsilon/h$.
# *(Press et al., "Numerical Recipes", section 5.7.)*
#
# (Beware: some texts call all of gradient *descent* "numerical", because it steps towards the answer where a formula would have it in closed form. Here a **numerical gradient** is one taken by differences.)
#
# **Predict.** Which step $h$ is best for central differences in float64, up to a factor of ten?

# %%
### BEGIN STARTER
# predicted_step = ...
### END STARTER
### BEGIN SOLUTION
predicted_step = 1e-16 ** (1 / 3)
### END SOLUTION


# %% question="numerical_gradient" points="4" hint1="np.ndindex(*point.shape) goes through all indices, whatever the number of axes; point[i] is then one element." hint2="Two evaluations for each element: one with that element a step up, one a step down. All the others stay where they are." hint3="Work on copies, or put the element back before you go on. By how far are the two places apart?"
def numerical_gradient(f, point, step=1e-5):
    """Return the gradient of f at `point` by central differences, one element at a time.

    Args:
        f: a function of an array of point's shape, gives a number.
        point: a float array of any shape; the same afterwards as before.
        step: how far to go up, and down.
    Returns: an array of point's shape.
    """
    ### BEGIN SOLUTION
    grad = np.zeros_like(point)
    for i in np.ndindex(*point.shape):
        up, down = point.copy(), point.copy()
        up[i] += step
        down[i] -= step
        grad[i] = (f(up) - f(down)) / (2 * step)
    return grad
    ### END SOLUTION


# %% [markdown]
# **Try it** on your gradient of section 2 and on the colleague's.

# %%
w = np.linspace(-1, 1, 10)
numerical = numerical_gradient(lambda w: mse(patients, progress, w), w)
print("yours      ", np.round(mse_gradient(patients, progress, w) / numerical, 4))
print("colleague's", np.round(colleagues_gradient(w) / numerical, 4))

# %% tags="check"
q.check("numerical_gradient")

# %% [markdown]
# **Measure** the error for each step, on a function that bends: $f(w) = \frac1n\sum_i \log(1 + e^{x_i \cdot w})$, whose gradient is $\frac1n x^\top \sigma(xw)$.


# %%
def bending(w):
    return np.logaddexp(0, x @ w).mean()


at = np.array([0.3, -0.7])
exact = x.T @ (1 / (1 + np.exp(-x @ at))) / len(x)
steps = 10.0 ** np.arange(-13, 0.1, 0.5)
central = [np.abs(numerical_gradient(bending, at, h) / exact - 1).max() for h in steps]
moves = np.eye(2)
forward_ = [
    np.abs([(bending(at + h * m) - bending(at)) / h for m in moves] / exact - 1).max()
    for h in steps
]
measured_step = steps[np.argmin(central)]
compare("best step of central differences", predicted_step, measured_step)

# %%
figures.plot_differences(steps, central, forward_)

# %% [markdown]
# **When do two gradients agree?** At the best step the two sides agree to ten digits, so a check may ask for six. A difference of less than 0.01 looks strict, but near the minimum the gradient itself is smaller, and *any* rule passes.
#
# So compare **relatively**: the length of the difference with that of the longer of the two,
#
# $$\lVert a - b \rVert \;\le\; \text{tolerance} \cdot \max(\lVert a \rVert, \lVert b \rVert).$$


# %% question="agree" points="4" hint1="np.linalg.norm(a) is the length of an array of any shape up to two axes." hint2="What does a - b do when a has shape (3,) and b has (3, 1)? Look at the shapes first." hint3="A comparison with NaN is always False. Is your condition one that must be True for agreement, or one that must be False?"
def agree(by_hand, numerical, tolerance=1e-6):
    """Return True if two gradients agree by the formula above, else False.

    Arrays of different shapes never agree, nor do arrays with a NaN in them.
    Two gradients that are zero everywhere do.
    """
    ### BEGIN SOLUTION
    if by_hand.shape != numerical.shape:
        return False
    longer = max(np.linalg.norm(by_hand), np.linalg.norm(numerical))
    return bool(np.linalg.norm(by_hand - numerical) <= tolerance * longer)
    ### END SOLUTION


# %% tags="check"
q.check("agree")

# %% [markdown]
# **Measure** three ways of comparing, on one right rule and five wrong ones, near the minimum.

# %%
near = goal + 1e-4
right = mse_gradient(patients, progress, near)
numerical = numerical_gradient(lambda w: mse(patients, progress, w), near)
rules = {
    "right": right,
    "1.0005 times as much": 1.0005 * right,
    "the colleague's": colleagues_gradient(near),
    "twice as much": 2 * right,
    "uphill": -right,
    "nothing at all": 0 * right,
}
print(f"the gradient has length {np.linalg.norm(right):.1e}\n")
print(f"{'rule':24}{'within 0.01':>14}{'relative 0.01':>16}{'relative 1e-6':>16}")
for name, rule in rules.items():
    loose = [np.abs(rule - numerical).max() < 1e-2, agree(rule, numerical, 1e-2)]
    passes = ["passes" if ok else "caught" for ok in (*loose, agree(rule, numerical))]
    print(f"{name:24}{passes[0]:>14}{passes[1]:>16}{passes[2]:>16}")

# %% [markdown]
# **Reflect.** Suppose the loss is computed in float32, where $\varepsilon \approx 10^{-7}$. Which step is best then? How many digits are left, and which of the rules above could you still find?
#
# *What the real system does.* PyTorch's [`gradcheck`](https://github.com/pytorch/pytorch/blob/main/torch/autograd/gradcheck.py) takes central differences with a step of 1e-6, and asks for `atol=1e-5` and `rtol=1e-3`.

# %% [markdown]
# ## 4. Two layers, by hand
#
# Handwritten digits: 1,797 pictures of 8 by 8 pixels. The network has two layers, 64-32-10, and 2,410 parameters. First the numerical gradient, of 64 pictures.

# %%
images, labels = (t.numpy() for t in digits(flat=True).tensors)
test_images, test_labels = (t.numpy() for t in digits(train=False, flat=True).tensors)
images, test_images = images.astype(np.float64), test_images.astype(np.float64)


def initial(sizes, seed=0, scale=1.0):
    """Return [w1, b1, w2, b2, ...]: normal weights divided by the root of the inputs, no bias."""
    rng = np.random.default_rng(seed)
    params = []
    for n_in, n_out in pairwise(sizes):
        params += [scale * rng.normal(size=(n_in, n_out)) / np.sqrt(n_in), np.zeros(n_out)]
    return params


def forward(params, x):
    """Return the hidden values, (N, H), and the logits, (N, C). `clip(0)` is ReLU."""
    w1, b1, w2, b2 = params
    hidden = (x @ w1 + b1).clip(0)
    return hidden, hidden @ w2 + b2


# %%
params = initial([64, 32, 10])
forward_s = best_seconds(partial(forward, params, images[:64]), 101)


def sum_of_logits(w1):
    return forward([w1, *params[1:]], images[:64])[1].sum()


numerical_s = best_seconds(partial(numerical_gradient, sum_of_logits, params[0]), 5)
print(f"one run of the network: {forward_s * 1e6:.0f} µs")
print(f"its gradient for the {params[0].size} weights of layer 1: {numerical_s * 1e3:.0f} ms")

# %% [markdown]
# **Idea.** The gradient of the loss with respect to a value is called its **adjoint**, written with a bar. Start from the end and go back, one rule for each step. With $N$ pictures, $D$ pixels, $H$ hidden values and $C$ classes:
#
# | forward | shape | backward |
# |---|---|---|
# | $z = h\,w_2 + b_2$ | $(N, C)$ | $\bar w_2 = h^\top \bar z$, $\quad \bar b_2 = \sum_{\text{rows}} \bar z$, $\quad \bar h = \bar z\, w_2^\top$ |
# | $h = \max(a, 0)$ | $(N, H)$ | $\bar a = \bar h$ where $h > 0$, else 0 |
# | $a = x\,w_1 + b_1$ | $(N, H)$ | as in the first row |
#
# The shapes help: $\bar w_2$ must be $(H, C)$, and only one product of $(N, H)$ and $(N, C)$ has that shape. **Softmax** $p_c = e^{z_c} / \sum_k e^{z_k}$ makes probabilities of logits. The loss is the mean of $-\log p_{\text{label}}$, and its gradient is simple:
#
# $$\bar z = \frac1N (p - \text{one-hot}(\text{label})).$$
#
# *(Rumelhart, Hinton & Williams, Nature 1986.)*
#
# Before ReLU there were $\sigma(z) = 1 / (1 + e^{-z})$ and tanh, which is the same curve, stretched. What is left of a gradient that passes ten of each?

# %%
z = np.linspace(-4, 4, 161)
sigmoid = 1 / (1 + np.exp(-z))
apart = np.abs(np.tanh(z) - (2 / (1 + np.exp(-2 * z)) - 1)).max()
print(f"tanh(z) and 2 sigmoid(2z) - 1 differ by {apart:.0e}")
slopes = {"sigmoid": sigmoid * (1 - sigmoid), "tanh": 1 - np.tanh(z) ** 2, "ReLU": 1.0 * (z > 0)}
print("slope at z = 2, ten times:", {name: f"{s[120] ** 10:.1g}" for name, s in slopes.items()})
figures.plot_activations(z, {"sigmoid": sigmoid, "tanh": np.tanh(z), "ReLU": z.clip(0)}, slopes)

# %% [markdown]
# **Predict.** An untrained network gives all ten classes about the same probability. What is its loss? The forward pass has two matrix products: how many has the backward pass?

# %%
### BEGIN STARTER
# predicted_first_loss = ...
# predicted_products = ...
### END STARTER
### BEGIN SOLUTION
predicted_first_loss = np.log(10)
predicted_products = 3  # nobody needs the adjoint of the pictures
### END SOLUTION


# %% question="cross_entropy" points="5" hint1="exp(1000) is infinite. Softmax does not change when the same number is taken from all logits of a row: which number makes it safe?" hint2="With z shifted, -log p_label is log(sum(exp(z))) - z_label: no logarithm of a zero." hint3="logits[np.arange(N), labels] picks the logit of the label in each row. The same index serves to subtract the 1."
def cross_entropy(logits, labels):
    """Return (loss, gradient): the mean of -log softmax at the label, and its gradient by logits.

    Args:
        logits: (N, C), any finite numbers, however large; not modified.
        labels: (N,) integers in 0..C-1.
    Returns: a number, and an array (N, C).
    """
    ### BEGIN SOLUTION
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1, keepdims=True)
    exp = np.exp(shifted)
    total = exp.sum(axis=1, keepdims=True)
    grad = exp / total
    grad[rows, labels] -= 1
    return np.mean(np.log(total[:, 0]) - shifted[rows, labels]), grad / len(labels)
    ### END SOLUTION


# %% question="backward" points="6" hint1="Take the rows of the table from top to bottom, and print shapes. Each adjoint has the shape of its value." hint2="The bias was added to every row, so every row sends it a share: what happens to the shares?" hint3="hidden > 0 is True where the ReLU was open. Multiply the adjoint of hidden with it before it goes on into layer 1."
def backward(params, x, hidden, out_grad):
    """Return the gradients [of w1, of b1, of w2, of b2], each of its parameter's shape.

    Args:
        params: [w1 (D, H), b1 (H,), w2 (H, C), b2 (C,)].
        x: (N, D), what went in.
        hidden: (N, H), as `forward` returned it.
        out_grad: (N, C), the gradient of the loss with respect to the logits.
    """
    ### BEGIN SOLUTION
    _, _, w2, _ = params
    inner = (out_grad @ w2.T) * (hidden > 0)
    return [x.T @ inner, inner.sum(axis=0), hidden.T @ out_grad, out_grad.sum(axis=0)]
    ### END SOLUTION


# %% [markdown]
# **Try it.** Your check of section 3 tests your gradients.


# %%
def loss_of(params, x, labels):
    return cross_entropy(forward(params, x)[1], labels)[0]


def gradients_of(params, x, labels):
    hidden, logits = forward(params, x)
    loss, out_grad = cross_entropy(logits, labels)
    return loss, backward(params, x, hidden, out_grad)


def judge(loss, params, grads):
    """Hold each gradient against differences of loss(params), and print whether they agree."""

    def with_one(i, value):
        return loss([*params[:i], value, *params[i + 1 :]])

    for i, (param, grad) in enumerate(zip(params, grads)):
        agrees = agree(grad, numerical_gradient(partial(with_one, i), param))
        print(f"parameter {i}, shape {param.shape!s:9} agrees: {agrees}")


# %%
few, few_labels = images[:64], labels[:64]
first_loss, grads = gradients_of(params, few, few_labels)
judge(lambda params: loss_of(params, few, few_labels), params, grads)

# %% tags="check"
q.check("cross_entropy")

# %% tags="check"
q.check("backward")

# %% [markdown]
# **Measure** the first loss. Then time both ways to the same 2,410 numbers.

# %%
small = initial([64, 32, 10], scale=0.1)
compare("loss of an untrained network", predicted_first_loss, loss_of(small, images, labels))

hidden, logits = forward(params, few)
_, out_grad = cross_entropy(logits, few_labels)
ways = {
    "forward": lambda: forward(params, few),
    "backward": lambda: backward(params, few, hidden, out_grad),
}
times = in_turns(ways, repeats=201)
predicted = ... if predicted_products is ... else predicted_products / 2
compare("time backward over forward", predicted, times["backward"] / times["forward"])
count = sum(p.size for p in params)
speedup = 2 * count * times["forward"] / times["backward"]
print(f"{2 * count:,} runs of the network, or one backward: {speedup:,.0f} times as long")

# %% [markdown]
# How does the time of a run depend on the number of pictures?


# %%
def forward_times(params, pictures, wait=lambda: None):
    """Return the least time of a forward pass for each batch size."""

    def run(n):
        forward(params, pictures[:n])
        wait()  # a GPU works on while Python goes ahead

    return np.array([best_seconds(partial(run, n), 31) for n in batches])


batches = [2**k for k in range(11)]
curves = {"NumPy, CPU": forward_times(params, images)}
if CUDA:
    there = [torch.tensor(p, device="cuda") for p in params]
    on_gpu = torch.tensor(images, device="cuda")
    curves["torch, CUDA"] = forward_times(there, on_gpu, torch.cuda.synchronize)

# %%
lines = {}
for name, times in curves.items():
    fixed, each = times[0], (times[-1] - times[0]) / (batches[-1] - 1)
    lines[name] = times, fixed + each * np.array(batches)
    for k in (3, 6, 8):
        compare(f"{name}, {batches[k]} pictures, µs", lines[name][1][k] * 1e6, times[k] * 1e6)
figures.plot_batches(batches, lines)

# %% [markdown]
# **Reflect.** Your backward needs `hidden`, which forward has computed. What would a network with a hundred layers have to keep until its backward begins?
#
# *What the real system does.* AlexNet's own code, [cuda-convnet](https://github.com/akrizhevsky/cuda-convnet2), and [Caffe](https://github.com/BVLC/caffe/blob/master/src/caffe/layers/inner_product_layer.cpp) have such pairs: each layer is a class with a forward and a backward written by hand.

# %% [markdown]
# ## 5. Train, and trust no falling loss
#
# A gradient of all 1,438 pictures gives one step. A step on 64 is 22 times cheaper:

# %%
for name, rows in {"all 1,438": slice(None), "64": slice(0, 64)}.items():
    _, grads = gradients_of(params, images[rows], labels[rows])
    moved = [p - 0.3 * g for p, g in zip(params, grads)]
    before, after = loss_of(params, images, labels), loss_of(moved, images, labels)
    print(f"one step on {name:9} pictures: loss {before:.3f} -> {after:.3f}")

# %% [markdown]
# **Idea.** **Stochastic gradient descent**: shuffle the pictures, cut them into **minibatches**, and take a step on each. One pass over all pictures is an **epoch**. The gradient of a minibatch is right on average, so many cheap steps are better than a few exact ones.
# *(Robbins & Monro 1951; Bottou 2010.)*


# %% question="minibatches" points="2" hint1="rng.permutation(n) is the numbers 0..n-1 in random order." hint2="Cut the permutation into pieces of `size`. The last piece may be shorter, but no picture may be lost."
def minibatches(n, size, rng):
    """Return a list of index arrays: 0..n-1 shuffled by `rng` and cut into pieces of `size`.

    Every index is in one piece; only the last may be shorter.
    """
    ### BEGIN SOLUTION
    order = rng.permutation(n)
    return [order[start : start + size] for start in range(0, n, size)]
    ### END SOLUTION


# %% question="sgd_step" points="2" hint1="In which direction does the loss fall: along the gradient, or against it?" hint2="param = param - ... makes a new array and leaves the one in the list alone. Which operator changes an array where it is?"
def sgd_step(params, grads, lr):
    """Move every parameter by lr against its gradient, in place; return nothing."""
    ### BEGIN SOLUTION
    for param, grad in zip(params, grads):
        param -= lr * grad
    ### END SOLUTION


# %% tags="check"
q.check("minibatches")

# %% tags="check"
q.check("sgd_step")

# %% [markdown]
# **Try it.** `train` is made of your functions.


# %%
def train(gradients, params, epochs, lr=0.3, size=64, seed=1, curve=None):
    """Train `params` in place with gradients(params, x, labels) -> (loss, grads); return losses."""
    rng, losses = np.random.default_rng(seed), []
    for epoch in range(epochs):
        for rows in minibatches(len(images), size, rng):
            loss, grads = gradients(params, images[rows], labels[rows])
            sgd_step(params, grads, lr)
            losses.append(loss)
        if curve is not None and epoch % 4 == 3:
            curve.show(losses)
    return losses


def accuracy(logits):
    return np.mean(logits.argmax(axis=1) == test_labels)


# %%
net = initial([64, 32, 10])
title = "Digits, gradients by hand"
curve = GrowingCurve(460, ylim=(0.01, 4), xlabel="step", ylabel="loss, nats", title=title)
right_losses = train(gradients_of, net, epochs=20, curve=curve)
right_accuracy = accuracy(forward(net, test_images)[1])
print(f"right on {right_accuracy:.1%} of {len(test_labels)} pictures never seen")
seen, unseen = loss_of(net, images, labels), loss_of(net, test_images, test_labels)
print(f"empirical risk {seen:.4f}; loss on pictures never seen {unseen:.4f}")

# %% [markdown]
# Does it matter that the pictures are shuffled? The same number of steps with the pictures sorted by their digit: a minibatch then has one or two digits.

# %%
unshuffled, by_digit = initial([64, 32, 10]), np.argsort(labels, kind="stable")
for start in range(0, 20 * len(labels), 64):
    rows = np.take(by_digit, range(start, start + 64), mode="wrap")
    sgd_step(unshuffled, gradients_of(unshuffled, images[rows], labels[rows])[1], lr=0.3)
print(f"sorted, never shuffled: right on {accuracy(forward(unshuffled, test_images)[1]):.1%}")

# %% [markdown]
# Now three **wrong** gradients, made from your right one:
#
# 1. layer 1 gets no gradient;
# 2. the biases get no gradient;
# 3. on the way back a fixed *random* matrix stands in the place of $w_2$: every gradient of layer 1 is wrong.
#
# **Predict.** What share of the test pictures does the network with rule 3 get right after the same 20 epochs? Guessing gets 0.1.

# %%
### BEGIN STARTER
# predicted_nonsense = ...
### END STARTER
### BEGIN SOLUTION
predicted_nonsense = 0.95
### END SOLUTION

# %%
nonsense = np.random.default_rng(9).normal(size=(32, 10)) / np.sqrt(32)


def layer_1_forgotten(params, x, labels):
    loss, (dw1, db1, dw2, db2) = gradients_of(params, x, labels)
    return loss, [0 * dw1, 0 * db1, dw2, db2]


def biases_forgotten(params, x, labels):
    loss, (dw1, db1, dw2, db2) = gradients_of(params, x, labels)
    return loss, [dw1, 0 * db1, dw2, 0 * db2]


def nonsense_on_the_way_back(params, x, labels):
    hidden, logits = forward(params, x)
    loss, out_grad = cross_entropy(logits, labels)
    return loss, backward([*params[:2], nonsense, params[3]], x, hidden, out_grad)


# %% [markdown]
# **Measure** all four from the same start.

# %%
rules = {
    "right": gradients_of,
    "1: layer 1 forgotten": layer_1_forgotten,
    "2: biases forgotten": biases_forgotten,
    "3: nonsense on the way back": nonsense_on_the_way_back,
}
_, exact = gradients_of(params, few, few_labels)


# %%
share, losses = {}, {}
for name, rule in rules.items():
    net = initial([64, 32, 10])
    losses[name] = train(rule, net, epochs=20)
    share[name] = accuracy(forward(net, test_images)[1])
    agrees = all(agree(g, e) for g, e in zip(rule(params, few, few_labels)[1], exact))
    print(f"{name:28} {share[name]:6.1%} right; agrees with the right gradient: {agrees}")
figures.plot_losses(losses, "Four gradients, three of them wrong", wide="right")
compare("share right with rule 3", predicted_nonsense, share["3: nonsense on the way back"])

# %% [markdown]
# **Reflect.** Rule 3 is known as *feedback alignment* (Lillicrap et al. 2016). Which cell of this lab would have found the mistake, and how fast?
#
# *What the real system does.* PyTorch checks the gradient of every operator against central differences, in float64, for all the shapes in [`op_db`](https://github.com/pytorch/pytorch/blob/main/test/test_ops_gradients.py): tens of thousands of tests.

# %% [markdown]
# ## 6. One connection more
#
# Deep networks of this kind stop learning. Here is one of 16 hidden layers. (`deep_forward` notes what it did.)


# %%
def deep_forward(params, x, skip=0.0):
    """Return (notes, logits). Layers of equal width add `skip` times their input to their output.

    One note for each layer: (its input, True where it let values through, its skip).
    """
    notes, last = [], len(params) // 2 - 1
    for depth, (w, b) in enumerate(zip(params[::2], params[1::2])):
        z = x @ w + b
        is_open = z > 0 if depth < last else np.ones_like(z, dtype=bool)
        way_round = skip if 0 < depth < last else 0.0
        notes.append((x, is_open, way_round))
        x = z * is_open + (way_round * x if way_round else 0.0)
    return notes, x


SIZES = [64, *[32] * 16, 10]
deep = initial(SIZES)
for skip in (0.0, 1.0):
    notes, logits = deep_forward(deep, images, skip)
    print(
        f"skip {skip:g}: behind {len(notes) - 1} layers the logits have size {np.std(logits):.1g}"
    )

# %% [markdown]
# **Idea.** Without skips a signal shrinks from layer to layer: ReLU sets half of the values to zero, which halves the mean square. The gradient shrinks alike on its way back. A **residual** connection adds the input to the output, $h' = s\,h + \max(h w + b, 0)$, so that both can pass around the layer (He et al. 2016).
#
# Now $h$ is used **twice**: by the layer and by the connection around it. Each use sends an adjoint back, and they **add up**:
#
# $$\bar h = s\,\bar h' + \bar a\, w^\top, \qquad \bar a = \bar h' \text{ where the layer is open, else } 0.$$
#
# **Predict.** A product with the weights keeps the length, and each ReLU halves the mean square. By which factor is the gradient shorter after 15 layers without skips?

# %%
### BEGIN STARTER
# predicted_shrink = ...
### END STARTER
### BEGIN SOLUTION
predicted_shrink = 2 ** (-15 / 2)
### END SOLUTION


# %% question="deep_backward" points="6" hint1="Go through layers and notes from the last to the first. w is params[2 * i], the note is notes[i]." hint2="In each turn: close what the layer closed, take the gradients of w and b, then make the adjoint of the layer's input. It is the out_grad of the next turn." hint3="The input of a layer with a skip has two users. Add skip times the adjoint that came in, before it was closed, to what comes through the layer."
def deep_backward(params, notes, out_grad):
    """Return the gradients of all of `params`, in their order.

    Args:
        params: [w1, b1, w2, b2, ...].
        notes: one (x, is_open, skip) a layer, from `deep_forward`. A skip of 0 is none.
        out_grad: (N, C), the gradient of the loss with respect to the logits.
    """
    ### BEGIN SOLUTION
    grads = []
    for w, (x, is_open, skip) in zip(params[-2::-2], reversed(notes)):
        inner = out_grad * is_open
        grads = [x.T @ inner, inner.sum(axis=0), *grads]
        out_grad = inner @ w.T + (skip * out_grad if skip else 0.0)
    return grads
    ### END SOLUTION


# %% [markdown]
# **Try it** on the two layers that you know, then on three with a skip.

# %%
notes, logits = deep_forward(params, few)
_, out_grad = cross_entropy(logits, few_labels)
again = zip(deep_backward(params, notes, out_grad), gradients_of(params, few, few_labels)[1])
print("two layers, as before:", all(agree(a, b) for a, b in again))

three = initial([64, 4, 4, 10])
notes, logits = deep_forward(three, few, skip=0.7)
found = deep_backward(three, notes, cross_entropy(logits, few_labels)[1])
judge(lambda p: cross_entropy(deep_forward(p, few, 0.7)[1], few_labels)[0], three, found)

# %% tags="check"
q.check("deep_backward")

# %% [markdown]
# **Measure** how long the gradient is at each layer. The bias of a layer gets the sum of what arrives there, so we take its length.


# %%
def lengths(skip, seeds=range(20)):
    """The length of the gradient at each layer of equal width, the mean over networks."""
    found = []
    for seed in seeds:
        drawn = initial(SIZES, seed=seed)
        notes, logits = deep_forward(drawn, images[:256], skip)
        grads = deep_backward(drawn, notes, cross_entropy(logits, labels[:256])[1])
        found.append([np.linalg.norm(b) for b in grads[1:-2:2]])
    return np.exp(np.mean(np.log(found), axis=0))


plain, residual = lengths(0.0), lengths(1.0)
compare("gradient at the first layer over the last", predicted_shrink, plain[0] / plain[-1])

# %%
figures.plot_lengths(residual, plain)

# %% [markdown]
# Train both. With skips the middle layers start at 0.3 of their weights, to change the signal only a little at first.


# %%
def deep_rule(skip):
    def rule(params, x, labels):
        notes, logits = deep_forward(params, x, skip)
        loss, out_grad = cross_entropy(logits, labels)
        return loss, deep_backward(params, notes, out_grad)

    return rule


# %%
losses = {}
for skip, scale, name in [(1.0, 0.3, "16 layers, with skips"), (0.0, 1.0, "16 layers, plain")]:
    net = initial(SIZES)
    for w in net[2:-2:2]:
        w *= scale
    losses[name] = train(deep_rule(skip), net, epochs=15, lr=0.05)
    print(f"{name:24} {accuracy(deep_forward(net, test_images, skip)[1]):.1%} right")
figures.plot_losses(losses, "Sixteen layers, gradients by hand")

# %% [markdown]
# **And ResNet-50?** Its layers are convolutions, each followed by a normalisation, in blocks of three with skips around them.

# %%
shapes = list(figures.resnet50_parameters())
total = sum(int(np.prod(shape)) for shape in shapes)
print(f"{len(shapes)} parameter tensors with {total:,} numbers, 16 skips")
minutes = 2 * total * 0.01 / 60
print(f"a numerical gradient, at 10 ms a run: {minutes / 60 / 24:.0f} days")

# %% [markdown]
# **Reflect.** Which single line of `deep_forward` could you change so that your `deep_backward` is wrong, and would anything tell you? What is missing until each turn of your loop can have a rule of its own?
#
# *What the real system does.* [torchvision's ResNet](https://github.com/pytorch/vision/blob/main/torchvision/models/resnet.py) has a forward and no backward at all: `out += identity` is one line, and the sum of the two adjoints follows from it.

# %% [markdown]
# ## Discussion

# %% [markdown] question="why_not_resnet" points="5" manual="true" rubric1="1: The work grows with the number of kinds of layers and of connections, not only with depth, and every change of the forward pass must be repeated backwards by hand" rubric2="1: Values with several users (skips, shared weights) need sums that nothing in the code enforces" rubric3="1: The mistake is silent, shown with numbers from section 5" rubric4="1: The numerical gradient is no way out, with its cost from this notebook" rubric5="1: Says what would have to be recorded and what stays per kind of operation (local rules plus bookkeeping, the idea of autodiff)"
# Why do hand-written gradients not scale to ResNet? Argue with what you measured: what grows, what can go wrong without anybody seeing it, why the numerical gradient is no way out, and which part of the work could be left to a program.
# ### BEGIN SOLUTION
# A loop did because the sixteen layers were alike. ResNet-50 has convolutions of three sizes and two strides, normalisation whose gradient couples the whole batch, pooling, and 16 skips, four of which have a layer of their own: 161 parameter tensors. Each change of the forward pass has to be made again, backwards, in another place, by somebody who keeps in mind which values have two users. Nothing enforces it: with a skip forgotten, or with a random matrix on the way back, the loss falls all the same, and in section 5 the network was right on well over nine in ten pictures. Only a check against the definition finds such a thing, and that costs two runs a parameter: 51 million runs of ResNet-50 for one gradient, days where backward takes about two runs. It serves as a test of small pieces, not as a way to train. What repeats is the bookkeeping: notes of the forward pass, the reverse order, the sums where a value is used twice. What is particular is one rule for each kind of operation, a line or two. A program can record the operations as they run and do the bookkeeping; the rules are written once and checked once.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="5" manual="true" rubric1="1: Overview in the learner's own words" rubric2="1: Problem and challenges: a large labelled set, a model too large for one GPU of 3 GB, overfitting" rubric3="1: Methods: ReLU, two GPUs that talk at some layers only, local response normalisation, overlapping pooling, augmentation, dropout" rubric4="1: Evaluation read critically: what the second-best entry was and what each part contributed, what was not measured" rubric5="1: Trade-offs and one open question"
# **Reading note.** Krizhevsky, Sutskever & Hinton 2012, ["ImageNet Classification with Deep Convolutional Neural Networks"](https://papers.nips.cc/paper/2012/hash/c399862d3b9d6b76c8436e924a68c45b-Abstract.html), NIPS. One page, in this form. What was built by hand there that you get from a library?
# ### BEGIN STARTER
# **Overview** (two sentences of your own):
#
# **Problem and challenges:**
#
# **Methods and contributions:**
#
# **Evaluation and discussion** (a figure with its conditions; what was not measured?):
#
# **Trade-offs:**
#
# **Open questions** (one at least that the paper does not answer):
# ### END STARTER
# ### BEGIN SOLUTION
# *Overview.* A convolutional network with eight learned layers and 60 million parameters, trained on 1.2 million labelled pictures on two GPUs, wins the 2012 challenge with a top-5 error of 15.3 %, against 26.2 % for the next.
# *Problem and challenges.* Object recognition needs models with a large capacity and much data; such a model neither fits into a GPU of 3 GB nor trains in reasonable time on a CPU, and it overfits.
# *Methods.* ReLU instead of tanh, which trains several times as fast; the network split over two GPUs that exchange activations at certain layers only; local response normalisation; overlapping pooling; augmentation; dropout. Convolutions and their gradients are hand-written CUDA, published with the paper.
# *Evaluation.* Errors of 37.5 % and 17.0 % on ILSVRC-2010, 15.3 % with an ensemble in 2012. Contributions are given one by one (a point or two each), from single runs; training takes five to six days, and the speed of the system itself is not studied.
# *Trade-offs.* The split over two GPUs shapes the model: which layers may see which. Smaller batches or a smaller model would have fitted, for less accuracy.
# *Open questions.* How far does depth carry, and does the architecture have to follow the hardware?
# ### END SOLUTION

# %%
q.status()
