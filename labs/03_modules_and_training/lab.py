# %% [markdown] builds="`Module`, `Linear`, SGD and Adam in place; a network of convolutions" needs="02" audience="gpu"
# # Lab 03: Modules and training
#
# - **You build** modules that know their parameters, a layer that starts well, SGD and Adam that change weights in place. They train a convolutional network.
# - **You need** lab 02 or a working idea of `backward()`, and NumPy; a little PyTorch helps.
# - **It takes** about 90 minutes: introduction 1, sections 14, 8, 12, 17, 19 and 9, discussion 10. The reading note is for another day.
#
# `minitorch` gives tensors and gradients. From section 5 on, everything runs on *your* `Module`, `Linear` and `Adam`, beside PyTorch and NumPy by hand.

# %% tags="setup"
import platform
from importlib.metadata import version
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import display

# %% tags="setup"
import lessons.graphs.variable_updates as updates
import lessons.training_figures as figures
import minitorch as mt
import minitorch.graph as tf
import minitorch.nn.functional as F
from autograder import compare, lab
from ddp_lab.show import TrainingCurves
from lessons.convolution_by_hand import WRITTEN, StepByHand, gradients_by_hand
from lessons.device_note import device_note
from lessons.language.stack import lines_of
from lessons.timing import in_turns, milliseconds
from lessons.torch_reference import TorchTraining
from minitorch.data import digits

q = lab("modules_and_training")

# %% tags="setup"
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
torch.set_num_threads(1)  # the others use one thread for most of their work, too
CUDA = torch.cuda.is_available()
for name in ("numpy", "torch", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())
print(device_note(torch.cuda.get_device_name() if CUDA else "", "section 5 times a step there"))

# %% [markdown]
# The whole lab uses three rows, two features, and the wanted results.

# %%
x = mt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
wanted = mt.tensor([[1.0], [0.0], [2.0]])


# %% [markdown]
# ## 1. Where do the parameters live?
#
# In lab 02, in a list. Here somebody has added a layer and forgotten to list it.

# %%
rng = np.random.default_rng(0)
w1, w2, w3 = (mt.tensor(rng.normal(size=s), requires_grad=True) for s in ((2, 4), (4, 4), (4, 1)))
parameters = [w1, w3]
before = [w.detach().numpy().copy() for w in (w1, w2, w3)]
for step in range(201):
    out = mt.relu(mt.relu(x.double() @ w1) @ w2) @ w3
    loss = ((out - wanted.double()) ** 2).mean()
    for w, grad in zip(parameters, mt.grad(loss, parameters)):
        w.detach().numpy()[:] -= 0.003 * grad.numpy()
    if step % 100 == 0:
        print(f"step {step:3}: loss {loss.item():.4f}")
for name, w, old in zip(("w1", "w2", "w3"), (w1, w2, w3), before):
    print(f"{name} has moved by {np.abs(w.detach().numpy() - old).max():.3f}")

# %% [markdown]
# No message says that `w2` never learnt.
#
# **Idea.** A **module** is an object whose attributes are **parameters** and other modules: a tree. A walk through the tree finds every parameter, and the path gives it a name:
#
#     net = Net()                net.first.weight    net.first.bias
#     ├── first: Linear          net.blocks.0.weight ...
#     ├── blocks: [Linear, ...]  net.gain
#     └── gain: Parameter
#
# Only its class makes a tensor a parameter. A layer that stands in two places has shared weights, to be found **once**: an optimizer that gets them twice takes two steps.
# *(Paszke et al. 2019, section 4.1: models are ordinary programs.)*
#
# **Predict.** A network of four linear layers, 64 to 32, 32 to 32, 32 to 32, 32 to 10, each with a bias. The two in the middle are *the same object*. How many numbers does it train?

# %%
### BEGIN STARTER
# predicted_numbers = ...
### END STARTER
### BEGIN SOLUTION
predicted_numbers = 64 * 32 + 32 + 32 * 32 + 32 + 32 * 10 + 10
### END SOLUTION


# %%
def parts(name, value):
    """Yield (name, value), or for a list or tuple its items as (name.0, item), (name.1, item)."""
    if isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from parts(f"{name}.{i}", item)
    else:
        yield name, value


print(list(parts("gain", 2.5)), list(parts("blocks", ["a", "b"])))


# %% question="Module" defines="Parameter Module" points="5" hint1="vars(self).items() are the attributes of a module, in the order in which they were set: (name, value). Put each through `parts`." hint2="Three kinds of value: a Parameter is yielded, a Module is walked with its name and a dot in front, anything else is passed over." hint3="To yield each parameter once, keep the id of those you have seen in a set, and hand the set down to the children. (Tensors compare elementwise with ==, so `in` a list will not do.)"
class Parameter(mt.Tensor):
    """A float32 tensor that wants a gradient, made of an array; modules look for this class."""

    def __init__(self, values):
        ### BEGIN SOLUTION
        super().__init__(values)
        self.requires_grad_()
        ### END SOLUTION


class Module:
    """Base of layers and models: set parameters and modules as attributes, write `forward`."""

    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        """Yield (dotted name, Parameter) for all of this module and of those below it.

        Attributes come in the order in which they were set; items of lists are named by index.
        Each parameter comes once, by the first name under which it is met.
        """
        ### BEGIN SOLUTION
        seen = set() if seen is None else seen
        for attribute, value in vars(self).items():
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.", seen)
                elif isinstance(part, Parameter) and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part
        ### END SOLUTION

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% [markdown]
# **Try it** on a module that holds one of each.


# %%
class Scale(Module):
    """Multiply by one number that is learnt."""

    def __init__(self, start):
        self.gain = Parameter([start])

    def forward(self, x):
        return x * self.gain


# %%
class Several(Module):
    """Several scales, one of them twice, and an attribute that is no parameter."""

    def __init__(self):
        self.rate = 0.5
        self.first = Scale(2.0)
        self.others = [Scale(3.0), self.first]

    def forward(self, x):
        for scale in (self.first, *self.others):
            x = scale(x)
        return x


several = Several()
print("3 rows, times 2, times 3, times 2:", several(x).detach().numpy().tolist())
for name, parameter in several.named_parameters():
    print(f"{name:16} {tuple(parameter.shape)}", parameter.detach().numpy())

# %% tags="check"
q.check("Module")

# %% [markdown]
# **Measure** your prediction, with modules that have only shapes.


# %%
class Shapes(Module):
    """The parameters of a linear layer, and no arithmetic."""

    def __init__(self, n_in, n_out):
        self.weight = Parameter(np.zeros((n_out, n_in)))
        self.bias = Parameter(np.zeros(n_out))


tied = Module()
middle = Shapes(32, 32)
tied.layers = [Shapes(64, 32), middle, middle, Shapes(32, 10)]
compare("numbers trained", predicted_numbers, sum(p.numel() for p in tied.parameters()))

# %% [markdown]
# **Reflect.** Your walk reads the attributes each time. What does that allow a user to do after the network was made, and what does it cost a network of a thousand layers at every step?
#
# *What the real system does.* PyTorch's `Module` notes parameters when they are *set*: [`__setattr__`](https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/module.py) sorts every attribute into one of three dictionaries. So it does not see a list of modules: one has to write `ModuleList`.

# %% [markdown]
# ## 2. A layer that starts well
#
# Twenty layers of width 64, weights drawn from the standard normal distribution. How large is the result?

# %%
rng = np.random.default_rng(1)
h = rng.normal(size=(256, 64))
for depth in range(1, 21):
    h = np.maximum(h @ rng.normal(size=(64, 64)), 0)
    if depth in (1, 2, 10, 20):
        print(f"after {depth:2} layers: root mean square {np.sqrt(np.mean(h**2)):.3g}")

# %% [markdown]
# **Idea.** An output is a sum of $n$ products, so its variance is $n \cdot \sigma_w^2 \cdot \overline{h^2}$. ReLU makes the negative half of them zero, which halves the mean square. So from one layer to the next
#
# $$\overline{h'^2} = \tfrac12\, n\, \sigma_w^2\; \overline{h^2}.$$
#
# It stays the same if $\sigma_w = \sqrt{2/n}$, where $n$ is the number of **inputs**.
# *(He et al. 2015.)*
#
# **Predict.** With $\sigma_w = 1$ and $n = 64$: by which factor has the *root* mean square grown after 20 layers?

# %%
### BEGIN STARTER
# predicted_growth = ...
### END STARTER
### BEGIN SOLUTION
predicted_growth = (64 / 2) ** (20 / 2)
### END SOLUTION


# %% question="Linear" points="4" hint1="rng.normal(size=(n_out, n_in)) draws from the standard normal distribution. Which factor gives it the spread of the formula?" hint2="weight is (n_out, n_in), as in PyTorch; x is (N, n_in). Which product of x and the weight has shape (N, n_out)?" hint3="Both have to be a Parameter and an attribute of self, or no walk will find them. A bias starts at zero."
class Linear(Module):
    """x W^T + b, from (..., n_in) to (..., n_out), as `torch.nn.Linear` computes it.

    Attributes, set in this order: `weight`, (n_out, n_in), drawn with the NumPy generator `rng`
    from a normal distribution with mean 0 and the standard deviation of the formula; `bias`,
    (n_out,), zeros.
    """

    def __init__(self, n_in, n_out, rng):
        ### BEGIN SOLUTION
        self.weight = Parameter(rng.normal(size=(n_out, n_in)) * np.sqrt(2 / n_in))
        self.bias = Parameter(np.zeros(n_out))
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        return x @ self.weight.T + self.bias
        ### END SOLUTION


# %% [markdown]
# **Try it** on the three rows.

# %%
layer = Linear(2, 4, np.random.default_rng(0))
print(layer(x).detach().numpy().round(3))
print({name: tuple(p.shape) for name, p in layer.named_parameters()})

# %% tags="check"
q.check("Linear")


# %% [markdown]
# **Measure** three ways to start, layer by layer, with your `Linear`.


# %%
def sizes_of_signal(spread, depth=20, width=64):
    """Return the root mean square after each layer; `spread` times the weights as you drew them."""
    rng = np.random.default_rng(2)
    h = mt.tensor(rng.normal(size=(256, width)).astype(np.float32))
    found = [1.0]
    with mt.no_grad():
        for _ in range(depth):
            layer = Linear(width, width, rng)
            layer.weight *= spread
            h = mt.relu(layer(h))
            found.append((h * h).mean().item() ** 0.5)
    return np.array(found)


starts = {"1": np.sqrt(64 / 2), "sqrt(2/n)": 1.0, "sqrt(1/n)": np.sqrt(1 / 2)}


# %%
found = {name: sizes_of_signal(spread) for name, spread in starts.items()}
figures.plot_signals(found, starts)
compare("growth with weights of size 1", predicted_growth, found["1"][-1])

# %% [markdown]
# **Reflect.** Start all weights at zero instead. Why does the network never learn? Which gradients are zero, and which are equal?
#
# *What the real system does.* [`torch.nn.Linear`](https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/linear.py) starts with `kaiming_uniform_(a=sqrt(5))`, a standard deviation of $\sqrt{1/(3n)}$: smaller than yours.

# %% [markdown]
# ## 3. Change the weights in place
#
# A first try at descent. Look at the loss.

# %%
net = Linear(2, 1, np.random.default_rng(0))
for step in range(3):
    loss = ((net(x) - wanted) ** 2).mean()
    print(f"step {step}: loss {loss.item():.4f}")
    loss.backward()
    for p in net.parameters():
        p = p - 0.01 * p.grad

# %% [markdown]
# `p = p - ...` makes a new tensor and gives it the name `p`. The network still has the old one.
#
# **Idea.** The optimizer and the network hold **the same objects**, and the optimizer writes into their memory: `p -= ...`. Autodiff must not record that, so it happens under `mt.no_grad()`.
#
# **Momentum** keeps a running sum of gradients, the velocity, and moves along it:
#
# $$v \leftarrow \mu v + g, \qquad w \leftarrow w - \text{lr} \cdot v .$$
#
# Across a narrow valley the gradients change sign and cancel in $v$; along it they add up. With condition number $\kappa$, plain descent multiplies the error by $\frac{\kappa-1}{\kappa+1}$ in each step at best, momentum by $\frac{\sqrt\kappa-1}{\sqrt\kappa+1}$.
# *(Polyak 1964; Sutskever et al. 2013, with the learning rate inside $v$.)*
#
# **Predict.** In a valley with $\kappa = 100$, how many times as many steps does plain descent need?

# %%
### BEGIN STARTER
# predicted_fewer = ...
### END STARTER
### BEGIN SOLUTION
predicted_fewer = np.sqrt(100)
### END SOLUTION


# %%
class Optimizer:
    """Holds parameters; a subclass writes `step`, which changes them in place."""

    def __init__(self, parameters):
        self.parameters = list(parameters)

    def zero_grad(self):
        """Forget the gradients: backward() adds to what is there."""
        for p in self.parameters:
            p.grad = None


# %% question="SGD" points="5" hint1="Make one velocity for each parameter in __init__: mt.zeros_like(p.detach()) has its shape." hint2="with mt.no_grad(): go through parameters and velocities together; a parameter whose grad is None is left alone." hint3="v *= momentum, v += p.grad, p -= lr * v: three changes in place. If the velocity *is* the gradient (v = p.grad), then v *= ... changes the gradient as well."
class SGD(Optimizer):
    """w <- w - lr v, v <- momentum v + grad, in place; velocities start at zero."""

    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        ### BEGIN SOLUTION
        self.velocities = [mt.zeros_like(p.detach()) for p in self.parameters]
        ### END SOLUTION

    def step(self):
        """Move every parameter that has a gradient; leave the gradients as they are."""
        ### BEGIN SOLUTION
        with mt.no_grad():
            for p, v in zip(self.parameters, self.velocities):
                if p.grad is not None:
                    v *= self.momentum
                    v += p.grad
                    p -= self.lr * v
        ### END SOLUTION


# %% [markdown]
# **Try it** where the loop above failed.

# %%
net = Linear(2, 1, np.random.default_rng(0))
optimizer = SGD(net.parameters(), lr=0.01)
for step in range(3):
    optimizer.zero_grad()
    loss = ((net(x) - wanted) ** 2).mean()
    at = net.weight.detach().numpy().ctypes.data
    print(f"step {step}: loss {loss.item():.4f}, weight at address {at:x}")
    loss.backward()
    optimizer.step()

# %% tags="check"
q.check("SGD")

# %% [markdown]
# **Lines to repair.** On many slides regression with a ReLU stands like this, and raises. Which name is wrong, which class is used as a function, and which array is asked whether it is true?

# %%
nn, yhat, y, v2 = torch.nn, torch.zeros(20, 1), torch.ones(20, 1), torch.ones(3)
PRINTED = (
    "x = torch.random.randn(20, 3)",
    "loss = nn.MSELoss(yhat, y)",
    "if v2.numpy() > 1: v2 *= 2",
)
for line in PRINTED:
    try:
        exec(line)
    except (AttributeError, RuntimeError, ValueError) as error:
        print(f"{line:29} {type(error).__name__}: {str(error)[:56]}")

# %% [markdown]
# Repaired, natively in tensors and with `nn`. (`torch.where(v2 > 1, ...)` decides for each element.)

# %%
torch.manual_seed(0)
rows, w, b = torch.randn(20, 3), torch.full((1, 3), 0.1), torch.full((1,), 0.1)
y, model = torch.relu(rows @ torch.tensor([[1.0], [-2.0], [0.5]])), nn.Linear(3, 1)
model.load_state_dict({"weight": w, "bias": b})
descent, loss_fn = torch.optim.SGD(model.parameters(), lr=0.1), nn.MSELoss()
for p in (w, b):
    p.requires_grad_()
for step in range(101):
    native = ((torch.relu(rows @ w.T + b) - y) ** 2).mean()
    loss = loss_fn(torch.relu(model(rows)), y)
    for p, g in zip((w, b), torch.autograd.grad(native, (w, b))):
        p.data -= 0.1 * g
    descent.zero_grad()
    loss.backward()
    descent.step()
    if step % 50 == 0:
        print(f"step {step:3}: loss natively {native.item():.5f}, with nn {loss.item():.5f}")


# %% [markdown]
# **Measure** in the valley $\frac12(w_0^2 + 100\, w_1^2)$, each method with its best constants.


# %%
def walk(optimizer, w, curvature, steps):
    """Return how far from the minimum at `goal` the parameter is after each step."""
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        (curvature * w * w).sum().backward()
        optimizer.step()
        found.append(np.linalg.norm(w.detach().numpy()))
    return np.array(found)


def valley(lr, momentum, steps=800):
    w = Parameter([1.0, 1.0])
    return walk(SGD([w], lr, momentum), w, mt.tensor([0.5, 50.0]), steps)


# %%
kappa = 100
root = np.sqrt(kappa)
plain = valley(lr=2 / (1 + kappa), momentum=0.0)
heavy = valley(lr=4 / (1 + root) ** 2, momentum=((root - 1) / (root + 1)) ** 2)
needed = [np.argmax(way < 1e-6) for way in (plain, heavy)]
compare("steps to a millionth, plain over momentum", predicted_fewer, needed[0] / needed[1])

# %%
shrink = (kappa - 1) / (kappa + 1), (root - 1) / (root + 1)
figures.plot_valley({"plain": plain, "momentum": heavy}, shrink)

# %% [markdown]
# **Reflect.** Momentum's curve falls as steeply as its model, but later. What happens in the first steps, and why not in plain descent?
#
# A value that `backward` still needs may be overwritten. Try it: `y = w * w`, then `w -= 1` under `no_grad`, then `y.sum().backward()`. What does minitorch say, and how could it know?
#
# *What the real system does.* [`torch.optim.SGD`](https://github.com/pytorch/pytorch/blob/main/torch/optim/sgd.py) changes all parameters in one call. Every tensor has a [version counter](https://github.com/pytorch/pytorch/blob/main/c10/core/TensorImpl.h): each write in place raises it, and backward compares.

# %% [markdown]
# ## 4. A step of the right length
#
# Five directions, whose curvatures differ by a factor of ten each, should go from 0 to 1. The steepest allows a learning rate of 1, not more.

# %%
curvatures = mt.tensor([1.0, 1e-1, 1e-2, 1e-3, 1e-4])


def towards_one(optimizer, w, steps):
    """Return the parameter after each step of descent on sum of curvature/2 (w - 1)^2."""
    path = []
    for _ in range(steps):
        optimizer.zero_grad()
        (0.5 * curvatures * (w - 1.0) ** 2).sum().backward()
        optimizer.step()
        path.append(w.detach().numpy().copy())
    return np.array(path)


w = Parameter(np.zeros(5))
sgd_path = towards_one(SGD([w], lr=1.0), w, 300)
print("SGD after 300 steps:", sgd_path[-1].round(3))

# %% [markdown]
# **Idea.** **Adam** keeps two running means for each weight: $m$ of the gradient, and $s$ of its square. It moves by $m / \sqrt{s}$. There the *size* of the gradient cancels:
#
# $$m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad s \leftarrow \beta_2 s + (1 - \beta_2) g^2,$$
# $$w \leftarrow w - \text{lr} \cdot \frac{m / (1 - \beta_1^t)}{\sqrt{s / (1 - \beta_2^t)} + \epsilon}.$$
#
# Both means start at zero: after $t$ steps they hold only the share $1 - \beta^t$ of a mean. To divide by it is the **bias correction**. $\epsilon$ keeps the quotient finite.
# *(Kingma & Ba 2015, algorithm 1.)*
#
# **Predict.** The learning rate is 0.05, and the gradient in the flattest direction 0.0001. How long is Adam's first step in that direction? And how many bytes does training with Adam keep between steps for each float32 weight: the weight, its gradient, and what else?

# %%
### BEGIN STARTER
# predicted_first_step = ...
# predicted_bytes = ...
### END STARTER
### BEGIN SOLUTION
predicted_first_step = 0.05
predicted_bytes = 16
### END SOLUTION


# %% question="Adam" points="6" hint1="Keep a list of means, a list of squares and one count t of the steps. t is the same for all parameters." hint2="In place: m *= b1, m += (1 - b1) * g; the same for s with g * g. The corrected means are new tensors, made for this step alone." hint3="epsilon is added to the root, after it was taken. For the root of a tensor there is mt.sqrt."
class Adam(Optimizer):
    """Adam by the formulas above, in place."""

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr = lr
        self.betas = betas
        self.eps = eps
        ### BEGIN SOLUTION
        self.t = 0
        self.means = [mt.zeros_like(p.detach()) for p in self.parameters]
        self.squares = [mt.zeros_like(p.detach()) for p in self.parameters]
        ### END SOLUTION

    def step(self):
        """Move every parameter that has a gradient; leave the gradients as they are."""
        ### BEGIN SOLUTION
        self.t += 1
        b1, b2 = self.betas
        with mt.no_grad():
            for p, m, s in zip(self.parameters, self.means, self.squares):
                if p.grad is not None:
                    m *= b1
                    m += (1 - b1) * p.grad
                    s *= b2
                    s += (1 - b2) * p.grad * p.grad
                    root = mt.sqrt(s / (1 - b2**self.t)) + self.eps
                    p -= self.lr / (1 - b1**self.t) * m / root
        ### END SOLUTION


# %% [markdown]
# **Try it** on the five directions.

# %%
w = Parameter(np.zeros(5))
adam = Adam([w], lr=0.05)
adam_path = towards_one(adam, w, 300)
print("Adam after   1 step: ", adam_path[0])
print("Adam after 300 steps:", adam_path[-1].round(3))

# %% tags="check"
q.check("Adam")


# %% [markdown]
# **Measure** the first step, the bytes, and the path.


# %%
def bytes_held(thing):
    """The bytes of all tensors and arrays that `thing` holds: in attributes, lists, dicts."""
    if isinstance(thing, mt.Tensor | np.ndarray):
        return thing.nbytes
    if isinstance(thing, dict):
        return sum(map(bytes_held, thing.values()))
    if isinstance(thing, list | tuple):
        return sum(map(bytes_held, thing))
    return bytes_held(vars(thing)) if hasattr(thing, "__dict__") else 0


big = Parameter(np.zeros(100_000))
adam = Adam([big])
big.sum().backward()
adam.step()
held = bytes_held(adam) + big.grad.nbytes
compare("first step in the flattest direction", predicted_first_step, adam_path[0, -1])
compare("bytes for each weight", predicted_bytes, held / big.numel())

# %%
figures.plot_directions({"SGD, lr 1": sgd_path, "Adam, lr 0.05": adam_path})

# %% [markdown]
# **Reflect.** All five of Adam's curves lie on top of each other. Why? With the bytes that you measured: what does Adam hold for GPT-2's 1.5 billion weights, and which part of that is needed to *use* the model?
#
# *What the real system does.* [`torch.optim.Adam`](https://github.com/pytorch/pytorch/blob/main/torch/optim/adam.py) is your loop in three versions: tensor by tensor, all tensors in a few calls (`foreach`), and one CUDA kernel (`fused=True`).

# %% [markdown]
# ## 5. A convolutional network, three times
#
# A linear layer does not know which pixels are neighbours. Here every picture is moved by one pixel:

# %%
images, labels = digits().tensors
test_images, test_labels = digits(train=False).tensors


def moved(pictures):
    """The pictures one pixel to the right; what falls out comes in on the left."""
    return mt.tensor(np.roll(pictures.numpy(), 1, axis=3))


def accuracy(model, pictures=test_images):
    with mt.no_grad():
        found = model(pictures).numpy().argmax(axis=1)
    return np.mean(found == test_labels.numpy())


# %%
class Flat(Module):
    """64-32-10, of your linear layers."""

    def __init__(self, rng):
        self.hidden = Linear(64, 32, rng)
        self.out = Linear(32, 10, rng)

    def forward(self, x):
        return self.out(mt.relu(self.hidden(x.reshape(-1, 64))))


flat = Flat(np.random.default_rng(0))
adam = Adam(flat.parameters(), lr=0.01)
for _ in range(100):
    adam.zero_grad()
    F.cross_entropy(flat(images), labels).backward()
    adam.step()
shifted = accuracy(flat, moved(test_images))
print(f"two linear layers: {accuracy(flat):.1%}, moved by one pixel {shifted:.1%}")

# %% [markdown]
# **Idea.** A **convolution** puts the same small filter on every place of the picture. It has 9 weights where a linear layer has 64, and what it learns in one place it knows everywhere. With $c$ channels in and $k$ filters of 3 by 3, it has $9ck$ weights and $k$ biases. A **stride** of 2 moves the filter two pixels at a time, which halves the height and the width.
# *(LeCun et al. 1989.)*
#
#     (N, 1, 8, 8)  conv1: 8 filters, stride 1   (N, 8, 8, 8)   ReLU
#                   conv2: 16 filters, stride 2  (N, 16, 4, 4)  ReLU
#                   out: linear, 256 to 10       (N, 10)


# %%
class Conv2d(Module):
    """Filters of 3 by 3, with a border of zeros: (N, n_in, H, W) to (N, n_out, H/s, W/s)."""

    def __init__(self, n_in, n_out, stride, rng):
        spread = np.sqrt(2 / (9 * n_in))
        self.weight = Parameter(rng.normal(size=(n_out, n_in, 3, 3)) * spread)
        self.bias = Parameter(np.zeros(n_out))
        self.stride = stride

    def forward(self, x):
        return F.conv2d(x, self.weight, self.bias, stride=self.stride, padding=1)


# %% [markdown]
# **Predict.** How many numbers does this network train? And how long does one training step take on a batch of 64, as a multiple of PyTorch's time: for your modules over minitorch, and for NumPy with gradients by hand?

# %%
### BEGIN STARTER
# predicted_parameters = ...
# predicted_slowdown = ...
# predicted_numpy_slowdown = ...
### END STARTER
### BEGIN SOLUTION
predicted_parameters = (9 * 8 + 8) + (9 * 8 * 16 + 16) + (256 * 10 + 10)
predicted_slowdown = 1
predicted_numpy_slowdown = 1
### END SOLUTION


# %% question="CNN" points="4" hint1="Three attributes, three parameters of which two are made by Conv2d(n_in, n_out, stride, rng)." hint2="A linear layer wants (N, 256). Which method turns (N, 16, 4, 4) into that, whatever N is?" hint3="ReLU stands behind each convolution, and not behind the last layer: mt.relu(...)."
class CNN(Module):
    """The network above, from (N, 1, 8, 8) to logits (N, 10).

    Attributes: `conv1`, `conv2`, `out`, made in this order with `rng`.
    """

    def __init__(self, rng):
        ### BEGIN SOLUTION
        self.conv1 = Conv2d(1, 8, 1, rng)
        self.conv2 = Conv2d(8, 16, 2, rng)
        self.out = Linear(256, 10, rng)
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        h = mt.relu(self.conv1(x))
        h = mt.relu(self.conv2(h))
        return self.out(h.reshape(-1, 256))
        ### END SOLUTION


# %% question="train_step" points="4" hint1="Five lines: forget old gradients, forward, loss, backward, step. In which order?" hint2="backward() adds to the gradients that are there. Somebody may have left some." hint3="F.cross_entropy(logits, labels) is the loss, and .item() its number."
def train_step(model, optimizer, x, y):
    """Take one step of training on a batch and return its loss before the step, a float.

    Gradients left over from before do not count.

    Args:
        model: gives logits (N, C) for x.
        optimizer: with `zero_grad()` and `step()`.
        x: a tensor, the batch.
        y: an integer tensor (N,), its labels.
    """
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION


# %% [markdown]
# **Try it**: a few steps on eight pictures.

# %%
net = CNN(np.random.default_rng(0))
adam = Adam(net.parameters(), lr=0.003)
print([round(train_step(net, adam, images[:8], labels[:8]), 3) for _ in range(6)])
compare("numbers to train", predicted_parameters, sum(p.numel() for p in net.parameters()))

# %% tags="check"
q.check("CNN")

# %% tags="check"
q.check("train_step")

# %% [markdown]
# Now train it.


# %%
def batches(epochs, size=64, seed=0):
    """Yield (epoch, images, labels) of shuffled minibatches."""
    rng = np.random.default_rng(seed)
    for epoch in range(epochs):
        order = rng.permutation(len(labels))
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            yield epoch, mt.tensor(images.numpy()[rows]), mt.tensor(labels.numpy()[rows])


# %%
def train(model, optimizer, epochs, curves):
    losses = []
    for _, x, y in batches(epochs):
        losses.append(train_step(model, optimizer, x, y))
        curves.add("your modules", losses[-1])
    return losses


net = CNN(np.random.default_rng(0))
curves = TrainingCurves(title="Digits, convolutions", log_y=True)
shown = display(curves, display_id=True)
my_losses = train(net, Adam(net.parameters(), lr=0.003), epochs=12, curves=curves)
shown.update(curves)  # for where no widget can be: the picture of the whole run
shifted = accuracy(net, moved(test_images))
print(f"convolutions: {accuracy(net):.1%}, moved by one pixel {shifted:.1%}")

# %% [markdown]
# **Max pooling** keeps the largest of 2 by 2 neighbours: the picture is halved by it instead of by a stride, and a move within the four changes nothing. It has no weights.


# %%
class Pooled(CNN):
    """The same weights; conv2 looks at every place, and the largest of four goes on."""

    def forward(self, x):
        self.conv2.stride = 1
        h = mt.relu(self.conv2(mt.relu(self.conv1(x))))
        return self.out(F.max_pool2d(h, 2).reshape(-1, 256))


pooled = Pooled(np.random.default_rng(0))
train(pooled, Adam(pooled.parameters(), lr=0.003), epochs=12, curves=TrainingCurves())
shifted = accuracy(pooled, moved(test_images))
strides_ms, pool_ms = milliseconds(lambda: net(images[:64]), lambda: pooled(images[:64]))
print(f"with max pooling: {accuracy(pooled):.1%}, moved by one pixel {shifted:.1%}, ", end="")
print(f"forward {pool_ms / strides_ms:.1f} times as long")

# %% [markdown]
# **The same network in PyTorch**, from the same weights, on the same batches, with PyTorch's Adam.


# %%
def numbers(module):
    """Return copies of a module's parameters as arrays."""
    return [p.detach().numpy().copy() for p in module.parameters()]


# %%
theirs = TorchTraining(numbers(CNN(np.random.default_rng(0))))
their_losses = [theirs(*theirs.to_device(x.numpy(), y.numpy())) for _, x, y in batches(12)]
for loss in their_losses:
    curves.add("PyTorch", loss)
apart = np.abs(np.subtract(my_losses, their_losses))
first, whole = apart[:23].max(), apart.max()
print(f"largest difference of the losses: {first:.1g} in the first epoch, {whole:.1g} in all")
curves

# %% [markdown]
# **And in NumPy, by hand**, as in lab 01. A convolution is a matrix product once the picture has been cut into overlapping windows; its gradient puts the windows back and adds where they overlap. `gradients_by_hand??` shows what has to be derived on paper.

# %%
start = CNN(np.random.default_rng(0))
F.cross_entropy(start(images[:64]), labels[:64]).backward()
_, by_hand = gradients_by_hand(numbers(start), images.numpy()[:64], labels.numpy()[:64])
for (name, p), g in zip(start.named_parameters(), by_hand):
    difference = np.linalg.norm(p.grad.numpy() - g) / np.linalg.norm(g)
    print(f"{name:13} by hand and by autodiff differ by {difference:.1g}")

# %% [markdown]
# **Measure the time of a step** for batches of 1 to 512 pictures.


# %%
def runners(n):
    """Return {name: a function that takes one training step on n pictures}."""
    x, y = images[:n], labels[:n]
    mine = CNN(np.random.default_rng(0))
    adam, by_hand = Adam(mine.parameters(), lr=0.003), StepByHand(numbers(mine))
    found = {
        "your modules": lambda: train_step(mine, adam, x, y),
        "NumPy by hand": lambda: by_hand(x.numpy(), y.numpy()),
    }
    for device, name in {"cpu": "PyTorch", "cuda": "PyTorch, CUDA"}.items():
        if device == "cpu" or CUDA:
            step = TorchTraining(numbers(mine), device)
            there = step.to_device(x.numpy(), y.numpy())
            found[name] = lambda step=step, there=there: step(*there)
    return found


# %%
counts = [1, 4, 16, 64, 256, 512]
raced = [in_turns(runners(n), repeats=49 if n < 100 else 9) for n in counts]
at_64 = raced[counts.index(64)]
predicted = {"your modules": predicted_slowdown, "NumPy by hand": predicted_numpy_slowdown}
for name, guess in predicted.items():
    compare(f"step on 64, {name} over PyTorch", guess, at_64[name] / at_64["PyTorch"])
figures.plot_race(counts, raced, predicted)

# %% [markdown]
# **Ease beside speed.** PyTorch's authors weigh the two: a little slower is allowed, if the model is much easier to write. Here are the lines that this network took, with its gradients and its step.

# %%
for name, pieces in {"your modules": (CNN, train_step), "NumPy by hand": WRITTEN}.items():
    longer = at_64[name] / at_64["PyTorch"]
    print(f"{name:14}{sum(map(lines_of, pieces)):4} lines, {longer:.1f} times PyTorch's step")

# %% [markdown]
# **Six frameworks, in 2019.** Table 1 of Paszke et al.: how fast each trains, on one GPU, as a share of the fastest; PyTorch was within 17 % of it everywhere. Most of the time all of them are in the same kernels of cuDNN.

# %%
figures.plot_frameworks(at_64)

# %% [markdown]
# So speed did not decide. TensorFlow 1 had three convolutions with different arguments (`tf.nn.conv2d`, `tf.layers.conv2d`, `tf.keras.layers.Conv2D`), PyTorch one; and both find gradients in the same way, yours of lab 02. On such a library stand the **toolkits** of a domain (torchvision for pictures, Hugging Face's Transformers for text): models, data and weights, without tensors or gradients of their own.

# %%
mine = ((mt.ones(3, 2) @ mt.ones(2, 2, requires_grad=True)).relu() ** 2).sum()
theirs = ((torch.ones(3, 2) @ torch.ones(2, 2, requires_grad=True)).relu() ** 2).sum().grad_fn
while theirs is not None:  # from the loss back, as the reverse sweep goes
    print(f"PyTorch: {theirs.name():14} minitorch: {mine.op.name}")
    mine, theirs = mine.inputs[0], theirs.next_functions[0][0]

# %% [markdown]
# **Reflect.** Each way has a fixed time for a step and a time for each picture. What is done in the fixed time, and which part of it does a core in C++ make cheap? For which models would you therefore *not* take an imperative library? And which layer of `CNN` knows the place?
#
# *What the real system does.* PyTorch does not cut windows: on the CPU it gives convolutions to [oneDNN](https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/mkldnn/Conv.cpp), on NVIDIA cards to cuDNN.

# %% [markdown]
# ## 6. What an `assign` costs a graph
#
# In a static graph (`minitorch.graph`, with TensorFlow 1's names) weights are **variables**, and a change of one is a node: `assign`. Here is momentum as in the formulas. Gradient and learning rate are 1 and the momentum is 0.5, so after three steps the weight should be $-(1 + 1.5 + 1.75) = -4.25$.


# %%
def run_three(build):
    """Run the node of `build(w, v, grad)` three times; return w after each."""
    tf.reset_default_graph()
    w, v = tf.Variable(np.zeros(1)), tf.Variable(np.zeros(1))
    node = build(w, v, tf.constant(np.ones(1)))
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        found = []
        for _ in range(3):
            session.run(node)
            found.append(float(session.run(w)[0]))
    return found


def as_the_formulas_stand(w, v, grad):
    first = tf.assign(v, 0.5 * v + grad)
    second = tf.assign_sub(w, 1.0 * v)
    return tf.group(first, second)


# %%
print("the weight after each step:", run_three(as_the_formulas_stand))

# %% [markdown]
# It is one step late: the second line reads `v`, the first writes `v`, and **no edge says which comes first**.
#
# **Idea.** In an imperative program the order of lines is the order of effects. A graph knows only edges: use the *result of* `assign`, which is the new value, or put a read under `control_dependencies`.
#
# The graph pays for that. With pure values it may merge two equal nodes, drop one that nobody needs, reuse a buffer, or run two branches at once. Around each write it must forbid this, or prove it harmless. A write may go into the old memory only if nobody reads it later. Otherwise it needs **a copy**.
# *(Abadi et al. 2016, section 3.1: variables are stateful operations.)*
#
# **Predict.** In one run, `w` is decreased by `lr * g`, **and** its old value is fetched. How many arrays of `w`'s size have to be made in that run? (Without the fetch `w` is overwritten in place, and nothing of its size is made.)

# %%
### BEGIN STARTER
# predicted_arrays = ...
### END STARTER
### BEGIN SOLUTION
predicted_arrays = 2  # the product, and a new array for the new value: the old one is taken
### END SOLUTION


# %% question="momentum_in_graph" points="4" hint1="tf.assign(v, ...) returns a node. What is the value of that node?" hint2="If w's update is made from that node instead of from v, there is an edge from the one to the other, and the order is settled." hint3="If w's update depends on v's, running the first runs both: one node to return."
def momentum_in_graph(w, v, grad, lr, momentum):
    """Return one node; each run of it does v <- momentum v + grad, then w <- w - lr v.

    Args:
        w, v: variables of one shape.
        grad: a node of that shape.
        lr, momentum: numbers.
    """
    ### BEGIN SOLUTION
    new = tf.assign(v, momentum * v + grad)
    return tf.assign_sub(w, lr * new)
    ### END SOLUTION


# %% [markdown]
# **Try it** on the same three steps.

# %%
found = run_three(lambda w, v, grad: momentum_in_graph(w, v, grad, 1.0, 0.5))
print(found, "expected -1, -2.5, -4.25")

# %% tags="check"
q.check("momentum_in_graph")


# %% [markdown]
# **Measure** one update of `w` in five ways, from ten weights to four million: in place by NumPy; as `assign`; as `assign_sub`; as the optimizer's own node, which knows the whole rule; and as `assign_sub` with the old value fetched.

# %%
sizes = [10, 1_000, 30_000, 300_000, 4_000_000]
took = {}
for size in sizes:
    repeats = 7 if size > 1e6 else 49
    for name, seconds in in_turns(updates.ways_to_write(size), repeats=repeats).items():
        took.setdefault(name, []).append(seconds)
largest = updates.ways_to_write(sizes[-1])
arrays = {name: updates.peak_arrays(run, sizes[-1]) for name, run in largest.items()}
for name, found in took.items():
    few, many = (found[k] / took["NumPy, in place"][k] for k in (0, -1))
    print(f"{name:26} {few:5.1f} to {many:4.1f} times NumPy, {arrays[name]:.2f} arrays")
made = arrays["and the old value fetched"]
compare("arrays made with the old value fetched", predicted_arrays, made)
figures.plot_updates(sizes, took, base="NumPy, in place")

# %% [markdown]
# **Train with it**: one linear layer on the digits, as a graph with your node, and imperatively with your `Linear` and `SGD`.


# %%
def train_in_graph(start, epochs=3, lr=0.1, momentum=0.9):
    """Return the losses of training the layer `start` as a graph, by `momentum_in_graph`."""
    tf.reset_default_graph()
    x, y = tf.placeholder(tf.float32, (None, 64)), tf.placeholder(tf.int64, (None,))
    w, b = (tf.Variable(p.detach().numpy().copy()) for p in start.parameters())
    logits = tf.matmul(x, w, transpose_b=True) + b
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    slots = [tf.Variable(np.zeros(p.shape, np.float32), trainable=False) for p in (w, b)]
    updates = zip((w, b), slots, tf.gradients(loss, [w, b]))
    steps = [momentum_in_graph(p, v, g, lr, momentum) for p, v, g in updates]
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        feeds = ({x: i.numpy().reshape(-1, 64), y: t.numpy()} for _, i, t in batches(epochs))
        return [float(session.run([loss, *steps], feed)[0]) for feed in feeds]


# %%
in_graph = train_in_graph(Linear(64, 10, np.random.default_rng(0)))
layer = Linear(64, 10, np.random.default_rng(0))
sgd = SGD(layer.parameters(), lr=0.1, momentum=0.9)
in_place = [train_step(layer, sgd, i.reshape(-1, 64), t) for _, i, t in batches(3)]
print(f"loss {in_graph[0]:.3f} -> {in_graph[-1]:.3f} in the graph, ", end="")
print(f"largest difference to your SGD {np.abs(np.subtract(in_graph, in_place)).max():.1g}")

# %% [markdown]
# **And Adam.** Your `step` has about ten operations for each parameter. As nodes it becomes a subgraph for each variable; as the optimizer's own node it is one.

# %%
for size in (10, 1_000_000):
    (many, few), steps = updates.ways_of_adam(size)
    slow, fast = milliseconds(*steps, repeats=31)
    print(f"{size:9,} weights: {many} nodes over {few}: {slow / fast:.2f} times as long")

# %% [markdown]
# **Reflect.** TensorFlow 1 gave its optimizers hand-written kernels (`ApplyAdam`), although each of them can be made of nodes. From your numbers: for which sizes was that useful, and what did it save besides time?
#
# *What the real system does.* TensorFlow's [`resource variables`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/training_ops.cc) copy on write when somebody still reads. [JAX](https://github.com/jax-ml/jax) has no writes: a step is a function from old weights to new ones, and the compiler is *told* that it may reuse the old memory (`donate_argnums`).

# %% [markdown]
# ## Discussion

# %% [markdown] question="mutable_tensors" points="5" manual="true" rubric1="1: Order: in a graph nothing but edges orders a write and a read, with the step-behind example" rubric2="1: Which rewrites a write forbids or makes conditional (merging equal reads, dropping, reordering, reusing buffers), with an example" rubric3="1: Copies: when a write needs a new array, with the measured arrays and times" rubric4="1: What mutability gives the imperative style: one object shared by module and optimizer, memory of 16 bytes a weight and no more, and its price (version counters, a value that backward needs may be gone)" rubric5="1: A judgement with a reason, e.g. functional steps with donated buffers"
# What does an `assign` node cost a static graph? Argue with section 6: order, the rewrites that it forbids, the copies. What do tensors that can be written to buy an imperative library, and what does *it* pay for them? How would you let a compiler have both?
# ### BEGIN SOLUTION
# An `assign` is an effect among values, and a graph orders values only. Where the formulas stood one below the other, the weight was always one step behind, since no edge led from the write of `v` to its read. So the user has to write edges that say nothing about data, or the library must order every read against every write. Around a write the optimizer may no longer treat two reads of `w` as one value, nor move a read across it, nor drop it though nobody uses its result, nor hand `w`'s memory on. Overwriting is allowed only when it is proved that nobody can still look: then `assign_sub` makes nothing of the variable's size and is about as fast as NumPy. When the old value was fetched in the same run two arrays of its size had to be made instead of none, and it took several times as long. And each small effect is a node: Adam of nodes took a third longer for ten weights and about twice as long for a million, so a fused kernel is written by hand.
# The imperative side: optimizer and network share one object, so a step needs no plumbing; weights, gradients and two means are all there is, 16 bytes a weight. It pays with aliasing: a write may destroy what backward needs, which costs a version counter on every tensor and an error at run time; and no compiler sees the step as a whole. A way to have both: write the step as a function from old weights to new ones, let the compiler optimise values, and let the caller promise that the old ones are dead, so that their memory is reused (donation), or turn writes into values automatically and put them back at the end.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="5" manual="true" rubric1="1: Overview in the learner's own words" rubric2="1: Problem and challenges: the four design principles and where they conflict, usability against speed" rubric3="1: Methods: models as programs and extensible autodiff; separate control and data flow, caching allocator, multiprocessing, reference counting; mutation made safe by versioning" rubric4="1: Evaluation read critically: what table 1 compares, within 17 % of the fastest, one machine, what it leaves out" rubric5="1: Trade-offs and one open question"
# **Reading note.** Paszke et al. 2019, ["PyTorch: An Imperative Style, High-Performance Deep Learning Library"](https://arxiv.org/abs/1912.01703), NeurIPS. One page, in this form. Which of your classes are in sections 4 and 5, and what do they say about tensors that are written to?
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
# *Overview.* A library for deep learning in which models are ordinary Python programs that run at once, and which is nevertheless about as fast as those that compile graphs.
# *Problem and challenges.* Be Pythonic, put researchers first, provide pragmatic performance, worse is better: the principles conflict where speed asks for a restricted language.
# *Methods.* Layers are classes with parameters as attributes, optimizers are programs that update them: everything is a program (section 4.1). Autodiff by operator overloading that lets tensors be mutated: a version counter makes sure that what backward reads is what forward wrote, and otherwise raises, instead of copying on write, so that nobody loses speed without knowing it (4.3). In section 5: a C++ core; control flow in Python on the CPU with kernels queued on the GPU; a caching allocator tuned to CUDA streams; shared-memory multiprocessing; reference counting that frees memory at once.
# *Evaluation.* Throughput on six models is within 17 % of the fastest framework on each; one machine, one GPU, 32-bit floats, and mostly the same cuDNN kernels underneath, so the comparison is one of overheads.
# *Trade-offs.* No optimisation over the whole program; small models are bound by the interpreter; mutation is an error at run time where a copy would have worked.
# *Open questions.* Can the program be captured and compiled without giving up the style, writes included?
# ### END SOLUTION

# %%
q.status()
