"""Named wrong answers to lab 03: each must fail its own check, with a message of its own."""

import numpy as np

import minitorch as mt
import minitorch.graph as tf
import minitorch.nn.functional as F


# %% wrong="never_asks_for_a_gradient" question="Module" check="a_parameter_is_a_tensor_that_wants_a_gradient" says="not a leaf that requires a gradient"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for attribute, value in vars(self).items():
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.", seen)
                elif isinstance(part, Parameter) and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="only_its_own" question="Module" check="every_parameter_is_found_by_its_path" says="are missing: first.weight"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        for name, value in vars(self).items():
            if isinstance(value, Parameter):
                yield name, value

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="forgets_the_path" question="Module" check="every_parameter_is_found_by_its_path" says="the name is the path"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for attribute, value in vars(self).items():
            for name, part in parts(attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.", seen)
                elif isinstance(part, Parameter) and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="takes_every_tensor" question="Module" check="every_parameter_is_found_by_its_path" says="do not belong"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for attribute, value in vars(self).items():
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.", seen)
                elif isinstance(part, mt.Tensor) and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="does_not_look_into_lists" question="Module" check="every_parameter_is_found_by_its_path" says="modules in lists"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for name, part in vars(self).items():
            if isinstance(part, Module):
                yield from part.named_parameters(f"{prefix}{name}.", seen)
            elif isinstance(part, Parameter) and id(part) not in seen:
                seen.add(id(part))
                yield prefix + name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="yields_a_shared_one_twice" question="Module" check="a_shared_parameter_comes_once" says="given twice"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        for attribute, value in vars(self).items():
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.")
                elif isinstance(part, Parameter):
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="remembers_for_ever" question="Module" check="every_parameter_is_found_by_its_path" says="What does the first walk leave behind"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=set()):  # noqa: B006
        for attribute, value in vars(self).items():
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.", seen)
                elif isinstance(part, Parameter) and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="forgets_to_transpose" question="Linear" check="the_layer_computes_x_w_transposed_plus_b" says="Linear on x"
class Linear(Module):
    def __init__(self, n_in, n_out, rng):
        self.weight = Parameter(rng.normal(size=(n_out, n_in)) * np.sqrt(2 / n_in))
        self.bias = Parameter(np.zeros(n_out))

    def forward(self, x):
        return (x.reshape(-1, x.shape[-1]) @ self.weight.reshape(x.shape[-1], -1)) + self.bias


# %% wrong="standard_normal" question="Linear" check="the_signal_keeps_its_size" says="Which factor is missing"
class Linear(Module):
    def __init__(self, n_in, n_out, rng):
        self.weight = Parameter(rng.normal(size=(n_out, n_in)))
        self.bias = Parameter(np.zeros(n_out))

    def forward(self, x):
        return x @ self.weight.T + self.bias


# %% wrong="counts_the_outputs" question="Linear" check="the_signal_keeps_its_size" says="Whose sum"
class Linear(Module):
    def __init__(self, n_in, n_out, rng):
        self.weight = Parameter(rng.normal(size=(n_out, n_in)) * np.sqrt(2 / n_out))
        self.bias = Parameter(np.zeros(n_out))

    def forward(self, x):
        return x @ self.weight.T + self.bias


# %% wrong="forgets_the_relu" question="Linear" check="the_signal_keeps_its_size" says="What does ReLU do"
class Linear(Module):
    def __init__(self, n_in, n_out, rng):
        self.weight = Parameter(rng.normal(size=(n_out, n_in)) / np.sqrt(n_in))
        self.bias = Parameter(np.zeros(n_out))

    def forward(self, x):
        return x @ self.weight.T + self.bias


# %% wrong="takes_the_variance" question="Linear" check="the_signal_keeps_its_size" says="Which root"
class Linear(Module):
    def __init__(self, n_in, n_out, rng):
        self.weight = Parameter(rng.normal(size=(n_out, n_in)) * 2 / n_in)
        self.bias = Parameter(np.zeros(n_out))

    def forward(self, x):
        return x @ self.weight.T + self.bias


# %% wrong="a_bias_that_nobody_finds" question="Linear" check="weight_and_bias_are_parameters" says="expected weight and bias"
class Linear(Module):
    def __init__(self, n_in, n_out, rng):
        self.weight = Parameter(rng.normal(size=(n_out, n_in)) * np.sqrt(2 / n_in))
        self.bias = mt.zeros(n_out)

    def forward(self, x):
        return x @ self.weight.T + self.bias


# %% wrong="draws_for_itself" question="Linear" check="weights_are_drawn_from_the_generator" says="rng.normal"
class Linear(Module):
    def __init__(self, n_in, n_out, rng):
        rng = np.random.default_rng()
        self.weight = Parameter(rng.normal(size=(n_out, n_in)) * np.sqrt(2 / n_in))
        self.bias = Parameter(np.zeros(n_out))

    def forward(self, x):
        return x @ self.weight.T + self.bias


# %% wrong="the_bias_first" question="Linear" check="weight_and_bias_are_parameters" says="Set self.weight first"
class Linear(Module):
    def __init__(self, n_in, n_out, rng):
        self.bias = Parameter(np.zeros(n_out))
        self.weight = Parameter(rng.normal(size=(n_out, n_in)) * np.sqrt(2 / n_in))

    def forward(self, x):
        return x @ self.weight.T + self.bias


# %% wrong="computes_on_arrays" question="Linear" check="the_layer_can_learn" says="Only operations on tensors"
class Linear(Module):
    def __init__(self, n_in, n_out, rng):
        self.weight = Parameter(rng.normal(size=(n_out, n_in)) * np.sqrt(2 / n_in))
        self.bias = Parameter(np.zeros(n_out))

    def forward(self, x):
        return mt.tensor(x.detach().numpy() @ self.weight.detach().numpy().T) + self.bias


# %% wrong="new_tensors_with_old_names" question="SGD" check="a_step_goes_against_the_gradient" says="an old name"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        for p, v in zip(self.parameters, self.velocities):
            v = self.momentum * v + p.grad
            p = p - self.lr * v


# %% wrong="the_velocity_is_the_gradient" question="SGD" check="gradients_are_left_alone" says="under another name"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [None for p in self.parameters]

    def step(self):
        with mt.no_grad():
            for i, p in enumerate(self.parameters):
                if p.grad is None:
                    continue
                old = self.velocities[i]
                self.velocities[i] = p.grad
                if old is not None:
                    self.velocities[i] += self.momentum * old
                p -= self.lr * self.velocities[i]


# %% wrong="the_first_velocity_is_the_gradient" question="SGD" check="gradients_are_left_alone" says="under another name"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [None] * len(self.parameters)

    def step(self):
        with mt.no_grad():
            for k, p in enumerate(self.parameters):
                if p.grad is None:
                    continue
                if self.velocities[k] is None:
                    self.velocities[k] = p.grad
                else:
                    self.velocities[k] *= self.momentum
                    self.velocities[k] += p.grad
                p -= self.lr * self.velocities[k]


# %% wrong="clears_the_gradients" question="SGD" check="gradients_are_left_alone" says="zero_grad() takes gradients away"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [0.0] * len(self.parameters)

    def step(self):
        with mt.no_grad():
            for k, p in enumerate(self.parameters):
                if p.grad is None:
                    continue
                self.velocities[k] = self.momentum * self.velocities[k] + p.grad
                p -= self.lr * self.velocities[k]
        self.zero_grad()


# %% wrong="no_momentum" question="SGD" check="velocities_gather_gradients" says="one velocity a parameter"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr

    def step(self):
        with mt.no_grad():
            for p in self.parameters:
                if p.grad is not None:
                    p -= self.lr * p.grad


# %% wrong="a_mean_of_gradients" question="SGD" check="velocities_gather_gradients" says="not a mean"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        with mt.no_grad():
            for p, v in zip(self.parameters, self.velocities):
                if p.grad is not None:
                    v *= self.momentum
                    v += (1 - self.momentum) * p.grad
                    p -= self.lr * v


# %% wrong="moves_before_it_looks" question="SGD" check="velocities_gather_gradients" says="In which order"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        with mt.no_grad():
            for p, v in zip(self.parameters, self.velocities):
                if p.grad is not None:
                    p -= self.lr * v
                    v *= self.momentum
                    v += p.grad


# %% wrong="one_velocity_for_all" question="SGD" check="velocities_gather_gradients" says="one velocity a parameter"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.v = 0.0

    def step(self):
        with mt.no_grad():
            for p in self.parameters:
                if p.grad is not None:
                    self.v = self.momentum * self.v + p.grad.mean().item()
                    p -= self.lr * (p.grad + self.v - p.grad.mean().item())


# %% wrong="rolls_on_without_a_gradient" question="SGD" check="without_a_gradient_nothing_moves" says="leave it out"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        with mt.no_grad():
            for p, v in zip(self.parameters, self.velocities):
                v *= self.momentum
                if p.grad is not None:
                    v += p.grad
                p -= self.lr * v


# %% wrong="the_rate_in_the_velocity" question="SGD" check="the_learning_rate_may_change" says="out of the velocity"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        with mt.no_grad():
            for p, v in zip(self.parameters, self.velocities):
                if p.grad is not None:
                    v *= self.momentum
                    v += self.lr * p.grad
                    p -= v


# %% wrong="no_bias_correction" question="Adam" check="each_step_follows_the_formulas" says="began at zero"
class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.means = [mt.zeros_like(p.detach()) for p in self.parameters]
        self.squares = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        b1, b2 = self.betas
        with mt.no_grad():
            for p, m, s in zip(self.parameters, self.means, self.squares):
                if p.grad is not None:
                    m *= b1
                    m += (1 - b1) * p.grad
                    s *= b2
                    s += (1 - b2) * p.grad * p.grad
                    p -= self.lr * m / (mt.sqrt(s) + self.eps)


# %% wrong="epsilon_under_the_root" question="Adam" check="each_step_follows_the_formulas" says="under the root"
class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.t = 0
        self.means = [mt.zeros_like(p.detach()) for p in self.parameters]
        self.squares = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        self.t += 1
        b1, b2 = self.betas
        with mt.no_grad():
            for p, m, s in zip(self.parameters, self.means, self.squares):
                if p.grad is not None:
                    m *= b1
                    m += (1 - b1) * p.grad
                    s *= b2
                    s += (1 - b2) * p.grad * p.grad
                    root = mt.sqrt(s / (1 - b2**self.t) + self.eps)
                    p -= self.lr / (1 - b1**self.t) * m / root


# %% wrong="epsilon_before_the_correction" question="Adam" check="each_step_follows_the_formulas" says="correct first"
class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr, self.betas, self.eps, self.t = lr, betas, eps, 0
        self.m, self.s = ([mt.zeros(*p.shape) for p in self.parameters] for _ in range(2))

    def step(self):
        self.t += 1
        b1, b2 = self.betas
        rate = self.lr * (1 - b2**self.t) ** 0.5 / (1 - b1**self.t)
        with mt.no_grad():
            for i, p in enumerate(self.parameters):
                if p.grad is not None:
                    self.m[i] = b1 * self.m[i] + (1 - b1) * p.grad
                    self.s[i] = b2 * self.s[i] + (1 - b2) * p.grad**2
                    p -= rate * self.m[i] / (mt.sqrt(self.s[i]) + self.eps)


# %% wrong="counts_parameters" question="Adam" check="each_step_follows_the_formulas" says="t counts steps"
class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.t = 0
        self.means = [mt.zeros_like(p.detach()) for p in self.parameters]
        self.squares = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        b1, b2 = self.betas
        with mt.no_grad():
            for p, m, s in zip(self.parameters, self.means, self.squares):
                self.t += 1
                if p.grad is not None:
                    m *= b1
                    m += (1 - b1) * p.grad
                    s *= b2
                    s += (1 - b2) * p.grad * p.grad
                    root = mt.sqrt(s / (1 - b2**self.t)) + self.eps
                    p -= self.lr / (1 - b1**self.t) * m / root


# %% wrong="forgets_the_root" question="Adam" check="each_step_follows_the_formulas" says="the root of the second"
class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.t = 0
        self.means = [mt.zeros_like(p.detach()) for p in self.parameters]
        self.squares = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        self.t += 1
        b1, b2 = self.betas
        with mt.no_grad():
            for p, m, s in zip(self.parameters, self.means, self.squares):
                if p.grad is not None:
                    m *= b1
                    m += (1 - b1) * p.grad
                    s *= b2
                    s += (1 - b2) * p.grad * p.grad
                    p -= self.lr / (1 - b1**self.t) * m / (s / (1 - b2**self.t) + self.eps)


# %% wrong="squares_the_gradient_in_place" question="Adam" check="adam_leaves_gradients_and_memory_alone" says="begins with the gradient"
class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.t = 0
        self.means = [mt.zeros_like(p.detach()) for p in self.parameters]
        self.squares = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        self.t += 1
        b1, b2 = self.betas
        with mt.no_grad():
            for p, m, s in zip(self.parameters, self.means, self.squares):
                if p.grad is not None:
                    m *= b1
                    m += (1 - b1) * p.grad
                    g = p.grad
                    g *= g
                    s *= b2
                    s += (1 - b2) * g
                    root = mt.sqrt(s / (1 - b2**self.t)) + self.eps
                    p -= self.lr / (1 - b1**self.t) * m / root


# %% wrong="keeps_its_first_lr" question="Adam" check="adam_reads_lr_in_each_step" says="read it in each step"
class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.t, self.length = 0, lr
        self.means = [mt.zeros_like(p.detach()) for p in self.parameters]
        self.squares = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
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
                    p -= self.length / (1 - b1**self.t) * m / root


# %% wrong="moves_by_the_means_alone" question="Adam" check="adam_leaves_out_what_has_no_gradient" says="whatever its means"
class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.t = 0
        self.means = [mt.zeros_like(p.detach()) for p in self.parameters]
        self.squares = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
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


# %% wrong="no_relu_in_between" question="CNN" check="the_network_computes_what_is_drawn" says="A ReLU behind each"
class CNN(Module):
    def __init__(self, rng):
        self.conv1 = Conv2d(1, 8, 1, rng)
        self.conv2 = Conv2d(8, 16, 2, rng)
        self.out = Linear(256, 10, rng)

    def forward(self, x):
        h = self.conv2(self.conv1(x))
        return self.out(mt.relu(h).reshape(-1, 256))


# %% wrong="reshapes_in_numpy" question="CNN" check="all_layers_can_learn" says="conv1.weight"
class CNN(Module):
    def __init__(self, rng):
        self.conv1 = Conv2d(1, 8, 1, rng)
        self.conv2 = Conv2d(8, 16, 2, rng)
        self.out = Linear(256, 10, rng)

    def forward(self, x):
        h = mt.relu(self.conv2(mt.relu(self.conv1(x))))
        return self.out(mt.tensor(h.detach().numpy().reshape(-1, 256)))


# %% wrong="relu_on_the_logits" question="CNN" check="the_network_computes_what_is_drawn" says="none behind the logits"
class CNN(Module):
    def __init__(self, rng):
        self.conv1 = Conv2d(1, 8, 1, rng)
        self.conv2 = Conv2d(8, 16, 2, rng)
        self.out = Linear(256, 10, rng)

    def forward(self, x):
        h = mt.relu(self.conv1(x))
        h = mt.relu(self.conv2(h))
        return mt.relu(self.out(h.reshape(-1, 256)))


# %% wrong="strides_the_other_way_round" question="CNN" check="the_network_computes_what_is_drawn" says="stride 1, then 2"
class CNN(Module):
    def __init__(self, rng):
        self.conv1 = Conv2d(1, 8, 2, rng)
        self.conv2 = Conv2d(8, 16, 1, rng)
        self.out = Linear(256, 10, rng)

    def forward(self, x):
        h = mt.relu(self.conv1(x))
        h = mt.relu(self.conv2(h))
        return self.out(h.reshape(-1, 256))


# %% wrong="eight_filters_twice" question="CNN" check="the_layers_have_their_sizes" says="conv2.weight has shape"
class CNN(Module):
    def __init__(self, rng):
        self.conv1 = Conv2d(1, 8, 1, rng)
        self.conv2 = Conv2d(8, 8, 2, rng)
        self.out = Linear(128, 10, rng)

    def forward(self, x):
        h = mt.relu(self.conv1(x))
        h = mt.relu(self.conv2(h))
        return self.out(h.reshape(-1, 128))


# %% wrong="never_forgets" question="train_step" check="the_optimizer_sees_the_gradient_of_this_batch" says="backward() adds"
def train_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong="forgets_afterwards" question="train_step" check="the_optimizer_sees_the_gradient_of_this_batch" says="there before"
def train_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


# %% wrong="forgets_in_between" question="train_step" check="the_optimizer_sees_the_gradient_of_this_batch" says="there was no gradient"
def train_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


# %% wrong="hands_the_graph_back" question="train_step" check="the_loss_is_the_one_before_the_step" says="a thousand graphs"
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


# %% wrong="loss_after_the_step" question="train_step" check="the_loss_is_the_one_before_the_step" says="when backward ran"
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    return F.cross_entropy(model(x), y).item()


# %% wrong="never_steps" question="train_step" check="the_optimizer_sees_the_gradient_of_this_batch" says="0 steps"
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss.item()


# %% wrong="as_the_formulas_stand" question="momentum_in_graph" check="the_weight_moves_by_the_new_velocity" says="Which edge"
def momentum_in_graph(w, v, grad, lr, momentum):
    first = tf.assign(v, momentum * v + grad)
    second = tf.assign_sub(w, lr * v)
    return tf.group(first, second)


# %% wrong="returns_the_first_half" question="momentum_in_graph" check="the_weight_moves_by_the_new_velocity" says="depends on, and nothing else"
def momentum_in_graph(w, v, grad, lr, momentum):
    new = tf.assign(v, momentum * v + grad)
    tf.assign_sub(w, lr * new)
    return new


# %% wrong="computes_and_does_not_write" question="momentum_in_graph" check="the_weight_moves_by_the_new_velocity" says="still zero"
def momentum_in_graph(w, v, grad, lr, momentum):
    return tf.assign_sub(w, lr * (momentum * v + grad))


# %% wrong="adds_instead" question="momentum_in_graph" check="the_weight_moves_by_the_new_velocity" says="each once in a run"
def momentum_in_graph(w, v, grad, lr, momentum):
    new = tf.assign_add(v, momentum * v + grad)
    return tf.assign_sub(w, lr * new)


# %% wrong="takes_what_wants_a_gradient" question="Module" check="every_parameter_is_found_by_its_path" says="is its class"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for attribute, value in vars(self).items():
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.", seen)
                elif isinstance(part, mt.Tensor) and part.requires_grad and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="knows_no_subclass" question="Module" check="every_parameter_is_found_by_its_path" says="are missing: gain"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for attribute, value in vars(self).items():
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.", seen)
                elif type(part) is Parameter and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="leaves_out_what_is_frozen" question="Module" check="every_parameter_is_found_by_its_path" says="missing: last"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for attribute, value in vars(self).items():
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.", seen)
                elif isinstance(part, Parameter) and id(part) not in seen and part.requires_grad:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="walks_once" question="Module" check="every_parameter_is_found_by_its_path" says="with one parameter more"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        if not hasattr(self, "_cache"):
            self._cache = list(self._walk(prefix, seen))
        return iter(self._cache)

    def _walk(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for attribute, value in vars(self).items():
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part._walk(f"{name}.", seen)
                elif isinstance(part, Parameter) and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="passes_over_underscores" question="Module" check="lists_of_lists_and_empty_modules" says="an underscore"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for attribute, value in vars(self).items():
            if attribute.startswith("_"):
                continue
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.", seen)
                elif isinstance(part, Parameter) and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="takes_arrays_alone" question="Module" check="a_parameter_is_a_tensor_that_wants_a_gradient" says="AttributeError"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values.astype(np.float32))
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for attribute, value in vars(self).items():
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.", seen)
                elif isinstance(part, Parameter) and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="leaves_out_a_number" question="Module" check="every_parameter_is_found_by_its_path" says="missing: gain"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for attribute, value in vars(self).items():
            for name, part in parts(prefix + attribute, value):
                if isinstance(part, Module):
                    yield from part.named_parameters(f"{name}.", seen)
                elif isinstance(part, Parameter) and len(part.shape) > 0 and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())


# %% wrong="a_bias_of_one_row" question="Linear" check="the_layer_computes_x_w_transposed_plus_b" says="Linear on x (3,)"
class Linear(Module):
    def __init__(self, n_in, n_out, rng):
        self.weight = Parameter(rng.normal(size=(n_out, n_in)) * np.sqrt(2 / n_in))
        self.bias = Parameter(np.zeros(n_out))

    def forward(self, x):
        return x @ self.weight.T + self.bias.reshape(1, -1)


# %% wrong="the_first_velocity_is_their_memory" question="SGD" check="gradients_are_left_alone" says="overwritten behind each step"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.state = {}

    def step(self):
        with mt.no_grad():
            for i, p in enumerate(self.parameters):
                if p.grad is None:
                    continue
                v = self.momentum * self.state[i] + p.grad if i in self.state else p.grad
                self.state[i] = v
                p.sub_(self.lr * v)


# %% wrong="keeps_its_first_momentum" question="SGD" check="the_learning_rate_may_change" says="optimizer.momentum"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [mt.zeros_like(p.detach()) for p in self.parameters]
        self._m = momentum

    def step(self):
        with mt.no_grad():
            for p, v in zip(self.parameters, self.velocities):
                if p.grad is None:
                    continue
                v *= self._m
                v += p.grad
                p -= self.lr * v


# %% wrong="one_velocity_for_each_shape" question="SGD" check="velocities_gather_gradients" says="one velocity a parameter"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.v = {}

    def step(self):
        with mt.no_grad():
            for p in self.parameters:
                if p.grad is None:
                    continue
                v = self.v.setdefault(p.shape, mt.zeros_like(p.detach()))
                v *= self.momentum
                v += p.grad
                p -= self.lr * v


# %% wrong="passes_over_a_gradient_of_zeros" question="SGD" check="velocities_gather_gradients" says="zeros count"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        with mt.no_grad():
            for p, v in zip(self.parameters, self.velocities):
                if p.grad is None or not np.any(p.grad.numpy()):
                    continue
                v *= self.momentum
                v += p.grad
                p -= self.lr * v


# %% wrong="parameters_that_stop_learning" question="SGD" check="parameters_stay_where_they_are" says="Who may write"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        for p, v in zip(self.parameters, self.velocities):
            if p.grad is None:
                continue
            p.requires_grad = False
            v *= self.momentum
            v += p.grad
            p -= self.lr * v


# %% wrong="velocities_of_the_class" question="SGD" check="another_sgd_changes_nothing" says="what do they share"
class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr = lr
        self.momentum = momentum
        self.velocities = SGD.__dict__.get("cache") or [
            mt.zeros_like(p.detach()) for p in self.parameters
        ]
        SGD.cache = self.velocities

    def step(self):
        with mt.no_grad():
            for p, v in zip(self.parameters, self.velocities):
                if p.grad is None:
                    continue
                v *= self.momentum
                v += p.grad
                p -= self.lr * v


# %% wrong="counts_for_all_optimizers" question="Adam" check="another_adam_changes_nothing" says="what do they share"
class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr = lr
        self.betas = betas
        self.eps = eps
        Adam.t = 0
        self.means = [mt.zeros_like(p.detach()) for p in self.parameters]
        self.squares = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        Adam.t += 1
        b1, b2 = self.betas
        with mt.no_grad():
            for p, m, s in zip(self.parameters, self.means, self.squares):
                if p.grad is not None:
                    m *= b1
                    m += (1 - b1) * p.grad
                    s *= b2
                    s += (1 - b2) * p.grad * p.grad
                    root = mt.sqrt(s / (1 - b2**Adam.t)) + self.eps
                    p -= self.lr / (1 - b1**Adam.t) * m / root


# %% wrong="asks_the_model_twice" question="train_step" check="the_optimizer_sees_the_gradient_of_this_batch" says="asked the model 6 times"
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    loss = F.cross_entropy(model(x), y).item()
    optimizer.step()
    return loss


# %% wrong="returns_both_nodes" question="momentum_in_graph" check="the_weight_moves_by_the_new_velocity" says="expected one node"
def momentum_in_graph(w, v, grad, lr, momentum):
    new = tf.assign(v, momentum * v + grad)
    return [new, tf.assign_sub(w, lr * new)]


# %% wrong="two_means_for_each_shape" question="Adam" check="each_step_follows_the_formulas" says="Two means for each parameter"
class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr = lr
        self.betas = betas
        self.eps = eps
        self.t = 0
        self.m = {}
        self.s = {}

    def step(self):
        self.t += 1
        b1, b2 = self.betas
        with mt.no_grad():
            for p in self.parameters:
                if p.grad is None:
                    continue
                m = self.m.setdefault(p.shape, mt.zeros_like(p.detach()))
                s = self.s.setdefault(p.shape, mt.zeros_like(p.detach()))
                m *= b1
                m += (1 - b1) * p.grad
                s *= b2
                s += (1 - b2) * p.grad * p.grad
                p -= self.lr / (1 - b1**self.t) * m / (mt.sqrt(s / (1 - b2**self.t)) + self.eps)


# %% wrong="rests_where_the_gradient_is_zero" question="Adam" check="each_step_follows_the_formulas" says="Two means for each parameter"
class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr = lr
        self.betas = betas
        self.eps = eps
        self.t = 0
        self.means = [mt.zeros_like(p.detach()) for p in self.parameters]
        self.squares = [mt.zeros_like(p.detach()) for p in self.parameters]

    def step(self):
        self.t += 1
        b1, b2 = self.betas
        with mt.no_grad():
            for p, m, s in zip(self.parameters, self.means, self.squares):
                if p.grad is not None and np.any(p.grad.numpy()):
                    m *= b1
                    m += (1 - b1) * p.grad
                    s *= b2
                    s += (1 - b2) * p.grad * p.grad
                    root = mt.sqrt(s / (1 - b2**self.t)) + self.eps
                    p -= self.lr / (1 - b1**self.t) * m / root


# %% wrong="looks_two_modules_deep" question="Module" check="every_parameter_is_found_by_its_path" says="are missing: outer.inner"
class Parameter(mt.Tensor):
    def __init__(self, values):
        super().__init__(values)
        self.requires_grad_()


class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)

    def named_parameters(self, prefix="", seen=None):
        seen = set() if seen is None else seen
        for a, value in vars(self).items():
            for name, part in parts(a, value):
                if isinstance(part, Module):
                    for b, v2 in vars(part).items():
                        for n2, p2 in parts(f"{name}.{b}", v2):
                            if isinstance(p2, Module):
                                for c, v3 in vars(p2).items():
                                    if isinstance(v3, Parameter) and id(v3) not in seen:
                                        seen.add(id(v3))
                                        yield f"{n2}.{c}", v3
                            elif isinstance(p2, Parameter) and id(p2) not in seen:
                                seen.add(id(p2))
                                yield n2, p2
                elif isinstance(part, Parameter) and id(part) not in seen:
                    seen.add(id(part))
                    yield name, part

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())
