"""The listings of the course's lectures, run as they stand but for imports and missing data.

Where a listing does not run as it stands, its error is here, and the lab that repairs it shows it:
that the lab's cell runs these very lines is tested too.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import minitorch as mt
import minitorch.graph as tf
from ddp_lab import Communicator, launch
from lessons.graphs.graph_programs import run_declared, run_two_phases
from minitorch.op import Op

LABS = Path(__file__).parents[2] / "labs"
LIBRARIES = pytest.mark.parametrize("library", [torch, mt], ids=["torch", "minitorch"])


def run(listing: str, **names: Any) -> dict[str, Any]:
    """Return the names after a listing was run among `names`."""
    exec(compile(listing, "listing", "exec"), names)
    return names


def names_of(library: Any) -> dict[str, Any]:
    return {"torch": library, "nn": library.nn, "optim": library.optim}


# ── imperative ──────────────────────────────────────────────────────────────────────────────────

LINEAR_LAYER = """
class LinearLayer(Module):
    def __init__(self, in_sz, out_sz):
        super().__init__()
        t1 = torch.randn(in_sz, out_sz)
        self.w = nn.Parameter(t1)
        t2 = torch.randn(out_sz)
        self.b = nn.Parameter(t2)

    def forward(self, activations):
        t = torch.mm(activations, self.w)
        return t + self.b
"""


@LIBRARIES
def test_linear_layer_has_its_parameters(library: Any) -> None:
    names = run(LINEAR_LAYER, **names_of(library), Module=library.nn.Module)
    layer = names["LinearLayer"](3, 2)
    x = library.randn(4, 3)
    want = x.numpy() @ layer.w.detach().numpy() + layer.b.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), want, rtol=1e-5)
    assert [name for name, _ in layer.named_parameters()] == ["w", "b"]


EXP_OP = """
class ExpOp(Op):
    def compute(self, xp, a):
        return xp.exp(a)

    def gradient(self, out_grad, node):
        (a,) = node.inputs
        return [out_grad * exp(a)]
"""


def test_exp_op_with_a_list_of_gradients_serves_tensors_and_nodes() -> None:
    exp = run(EXP_OP, Op=Op, exp=mt.exp)["ExpOp"]()
    x = mt.tensor([0.0, 1.0], requires_grad=True)
    (grad,) = mt.grad(exp(x).sum(), [x])
    np.testing.assert_allclose(grad.numpy(), np.exp([0, 1]), rtol=1e-6)
    v = tf.Variable(np.array([0.0, 1.0]))
    (node,) = tf.gradients(exp(v), [v])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        np.testing.assert_allclose(session.run(node), np.exp([0, 1]), rtol=1e-6)


FOUR_LINES = """
v2 = exp(v1)
v3 = v2 + 1
v4 = v2 * v3
"""

BRANCH = (
    FOUR_LINES
    + """
if v2.numpy() > 1:
    v4 = v2 * 2
"""
)


@pytest.mark.parametrize("exp", [torch.exp, mt.exp], ids=["torch", "minitorch"])
def test_v1_to_v4_compute_line_by_line_and_branch_on_a_value(exp: Any) -> None:
    library = torch if exp is torch.exp else mt
    found = run(FOUR_LINES, exp=exp, v1=library.tensor([0.5]))
    np.testing.assert_allclose(found["v4"].numpy(), np.exp(0.5) * (np.exp(0.5) + 1), rtol=1e-6)
    found = run(BRANCH, exp=exp, v1=library.tensor([0.5]))
    np.testing.assert_allclose(found["v4"].numpy(), 2 * np.exp(0.5), rtol=1e-6)


@pytest.mark.parametrize("exp", [torch.exp, mt.exp], ids=["torch", "minitorch"])
def test_the_branch_refuses_three_elements(exp: Any) -> None:
    library = torch if exp is torch.exp else mt
    with pytest.raises(ValueError, match="truth value of an array with more than one"):
        run(BRANCH, exp=exp, v1=library.ones(3))


def test_v1_to_v4_are_nodes_until_a_session_runs_them() -> None:
    v1 = tf.placeholder(tf.float32, [None])
    found = run(FOUR_LINES, exp=tf.exp, v1=v1)
    line = "value4 = sess.run(v4, feed_dict={v1: [0.5]})"
    (value,) = run(line, sess=tf.Session(), **take(found, "v1 v4"))["value4"]
    assert value == pytest.approx(np.exp(0.5) * (np.exp(0.5) + 1))
    with pytest.raises(TypeError), tf.Session():  # a node is neither true nor false
        run("if v2 > 1: pass", **take(found, "v2"))


def take(names: dict[str, Any], wanted: str) -> dict[str, Any]:
    return {name: names[name] for name in wanted.split()}


WHERE = """
x, y, z = tf.constant(1.0), tf.constant(2.0), tf.constant(3.0)
result = tf.where(x < y, x + z, tf.square(y))
"""


def test_where_chooses_in_a_graph() -> None:
    assert tf.Session().run(run(WHERE, tf=tf)["result"]) == 4.0


# ── symbolic ────────────────────────────────────────────────────────────────────────────────────


def test_the_program_in_two_phases_trains() -> None:
    rng = np.random.default_rng(0)
    batch = rng.random((8, 784)), np.eye(10)[rng.integers(10, size=8)]
    losses = run_two_phases([batch] * 40, steps=40)
    assert len(losses) == 40
    assert losses[-1] < losses[0] / 2


IMPERATIVE = """
a = np.ones(10)
b = np.ones(10) * 2
c = b * a
d = c + 1
"""


def test_the_declared_program_computes_what_the_imperative_one_does() -> None:
    np.testing.assert_array_equal(run_declared(), run(IMPERATIVE, np=np)["d"])


# ── models and their training ───────────────────────────────────────────────────────────────────

TOY_MODEL = """
class ToyModel(nn.Module):
    def __init__(self):
        super(ToyModel, self).__init__()
        self.net1 = torch.nn.Linear(10, 10)
        self.relu = torch.nn.ReLU()
        self.net2 = torch.nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))
"""

TOY_MODEL_ON_TWO = """
class ToyModel(nn.Module):
    def __init__(self):
        super(ToyModel, self).__init__()
        self.net1 = torch.nn.Linear(10, 10).to('cuda:0')
        self.relu = torch.nn.ReLU()
        self.net2 = torch.nn.Linear(10, 5).to('cuda:1')

    def forward(self, x):
        x = self.relu(self.net1(x.to('cuda:0')))
        return self.net2(x.to('cuda:1'))
"""

LOOP = """
model = ToyModel()
loss_fn = nn.MSELoss()
optimizer = optim.SGD(model.parameters(), lr=0.001)
optimizer.zero_grad()
outputs = model(torch.randn(20, 10))
labels = torch.randn(20, 5).to(outputs.device)
loss_fn(outputs, labels).backward()
optimizer.step()
"""


@LIBRARIES
def test_toy_model_takes_a_step(library: Any) -> None:
    assert_learns(run(TOY_MODEL + LOOP, **names_of(library)))


def test_toy_model_takes_a_step_on_two_devices() -> None:
    """On two GPUs as it stands; without them each device is called cpu:0 and cpu:1."""
    text = TOY_MODEL_ON_TWO
    if torch.cuda.device_count() < 2:
        text = text.replace("cuda:", "cpu:")
    assert_learns(run(text + LOOP, **names_of(torch)))


def assert_learns(names: dict[str, Any]) -> None:
    assert all(p.grad is not None for p in names["model"].parameters())
    assert tuple(names["outputs"].shape) == (20, 5)


DDP = """
net = nn.Linear(10, 10)
net = par.DistributedDataParallel(net)
opt = optim.SGD(net.parameters(), lr=0.01)

inp = torch.randn(20, 10)
exp = torch.randn(20, 10)

out = net(inp)
nn.MSELoss()(out, exp).backward()
opt.step()
"""

NO_SYNC = """
with ddp.no_sync():
    for inp, exp in zip(inputs, expected_outputs):
        # no synchronization, accumulate grads
        loss_fn(ddp(inp), exp).backward()
# synchronize grads
loss_fn(ddp(another_inp), another_exp).backward()
opt.step()
"""


def _ddp_lines(comm: Communicator, where: str, of: str) -> list[Any]:
    """Return the weights after both listings, with the class `DistributedDataParallel` of `of`."""
    import torch.distributed as dist

    import ddp_lab.data_parallel.ddp
    import ddp_lab.torch_backend

    dist.init_process_group("ddp_lab", init_method=where, rank=comm.rank, world_size=comm.size)
    torch.manual_seed(comm.rank)  # unlike data, and weights that the constructor makes alike
    par = torch.nn.parallel if of == "torch" else ddp_lab.data_parallel.ddp
    names = run(DDP, **names_of(torch), par=par)
    ddp, opt, loss_fn = names["net"], names["opt"], torch.nn.MSELoss()
    opt.zero_grad()
    data = {"inputs": torch.randn(3, 20, 10), "expected_outputs": torch.randn(3, 20, 10)}
    last = {"another_inp": torch.randn(20, 10), "another_exp": torch.randn(20, 10)}
    run(NO_SYNC, ddp=ddp, opt=opt, loss_fn=loss_fn, **data, **last)
    weights = [p.detach().numpy().copy() for p in ddp.parameters()]
    dist.destroy_process_group()
    return weights


@pytest.mark.parametrize("of", ["torch", "ddp_lab"])
def test_the_lines_of_ddp_leave_ranks_alike(of: str, tmp_path: Path) -> None:
    one, two = launch(_ddp_lines, 2, f"file://{tmp_path}/meet", of)
    for mine, theirs in zip(one, two, strict=True):
        np.testing.assert_array_equal(mine, theirs)


# ── what does not run as it stands ──────────────────────────────────────────────────────────────

REGRESSION = {
    "x = torch.random.randn(20, 3)": "randn",
    "loss = nn.MSELoss(yhat, y)": "ambiguous",
}
REPAIRED = """
x = torch.randn(20, 3)
y = torch.relu(x @ torch.tensor([[1.0], [-2.0], [0.5]]))
w = torch.zeros(3, 1, requires_grad=True)
yhat = torch.relu(x @ w + 0.1)
loss = nn.MSELoss()(yhat, y)
loss.backward()
"""


@pytest.mark.parametrize(("line", "says"), REGRESSION.items())
def test_the_relu_regression_raises_at_two_lines(line: str, says: str) -> None:
    y, yhat = torch.ones(20, 1), torch.zeros(20, 1)
    with pytest.raises((AttributeError, RuntimeError), match=says):
        run(line, torch=torch, nn=torch.nn, y=y, yhat=yhat)


@LIBRARIES
def test_the_relu_regression_runs_repaired(library: Any) -> None:
    assert run(REPAIRED, **names_of(library))["w"].grad.shape == (3, 1)


def test_labs_show_the_errors_of_what_they_repair() -> None:
    """The cells hold the lines that raise above, and print what is raised."""
    text = (LABS / "03_modules_and_training" / "lab.py").read_text()
    (cell,) = re.findall(r"(?ms)^PRINTED = .*?^# %%", text)
    for line in (*(line.partition(" = ")[2] for line in REGRESSION), "v2.numpy() > 1"):
        called = line.partition("(")[0]
        assert called in cell, line
