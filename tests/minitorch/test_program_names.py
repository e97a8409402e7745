"""Names with which programs written for PyTorch begin: each is there, and means what it means."""

import importlib
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch import nn
from minitorch.errors import ArgumentError, DeviceError, DTypeError, GradientError, GraphError
from minitorch.graph import Session, count_nodes
from minitorch.tracing.jitted import MOST_TRACES, Compiled

BOTH = [minitorch, torch]


def test_utils_data_is_data() -> None:
    from minitorch.utils.data import DataLoader, Dataset

    assert DataLoader is minitorch.data.DataLoader is minitorch.utils.data.DataLoader
    assert Dataset is minitorch.data.Dataset
    assert set(minitorch.utils.data.__all__) == set(minitorch.data.__all__)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("cuda.amp", "autocast"),
        ("cuda.amp", "GradScaler"),
        ("utils.data.dataset", "random_split"),
        ("utils.data.sampler", "SubsetRandomSampler"),
        ("utils.data.dataloader", "default_collate"),
        ("optim.lr_scheduler", "_LRScheduler"),
        ("distributions.kl", "kl_divergence"),
    ],
)
def test_a_name_is_imported_from_where_torch_has_it_too(module: str, name: str) -> None:
    for lib in ("torch", "minitorch"):
        assert callable(getattr(importlib.import_module(f"{lib}.{module}"), name))


def test_checkpoints_of_layers_in_a_row_give_what_the_row_gives() -> None:
    for lib in BOTH:
        checkpoint = importlib.import_module(f"{lib.__name__}.utils.checkpoint")
        row = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 2))
        x = lib.ones(2, 3, requires_grad=True)
        y = checkpoint.checkpoint_sequential(row, 2, x, use_reentrant=False)
        assert (y == row(x)).all()
        y.sum().backward()
        assert x.grad.shape == (2, 3)


@pytest.mark.parametrize("options", [{}, {"return_inverse": True}, {"return_counts": True}])
@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["int64", "float32", "bool", "uint8"])
def test_unique_is_torchs(options: dict[str, bool], dim: int | None, dtype: str) -> None:
    numbers = np.random.default_rng(0).integers(0, 2, (4, 6)).astype(dtype)
    ours = minitorch.tensor(numbers).unique(dim=dim, **options)
    theirs = torch.tensor(numbers).unique(dim=dim, **options)
    assert isinstance(ours, tuple) == isinstance(theirs, tuple)
    for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (ours, theirs)), strict=True):
        assert f"torch.{a.dtype}" == str(b.dtype)
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_counts_of_numbers_are_torchs(dtype: str) -> None:
    numbers, weights = np.array([0, 1, 1, 3]), np.array([1, 2, 3, 4], dtype)
    for options in (
        {},
        {"minlength": 6},
        {"weights": weights},
        {"weights": weights, "minlength": 5},
    ):
        results = []
        for lib in BOTH:
            made = {k: lib.tensor(v) if k == "weights" else v for k, v in options.items()}
            results.append(lib.bincount(lib.tensor(numbers), **made))
        assert results[0].tolist() == results[1].tolist()
        assert f"torch.{results[0].dtype}" == str(results[1].dtype)
    for bad in ([[0, 1]], [0.5], [-1]):
        with pytest.raises(ArgumentError, match="bincount: got tensor"):
            minitorch.tensor(bad).bincount()


@pytest.mark.parametrize("dim", [-1, 0])
def test_gumbel_softmax_draws_by_the_weights_and_has_the_gradient_of_its_softmax(dim: int) -> None:
    F = nn.functional
    logits = minitorch.tensor([[0.0, 1.0, -1.0]]).expand(6000, 3)
    logits = (logits if dim else logits.T).clone().requires_grad_()
    minitorch.manual_seed(0)
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True, dim=dim)
    assert set(hard.unique().tolist()) == {0.0, 1.0}
    share = hard.detach().mean(0 if dim else 1).numpy()
    weights = torch.softmax(torch.tensor([0.0, 1.0, -1.0]), 0).numpy()
    np.testing.assert_allclose(share, weights, atol=5 * 0.5 / 6000**0.5)
    factors = minitorch.arange(18000.0).reshape(*logits.shape)
    minitorch.manual_seed(0)
    smooth = F.gumbel_softmax(logits, tau=0.5, dim=dim)
    wanted, got = (minitorch.grad((y * factors).sum(), logits)[0] for y in (smooth, hard))
    np.testing.assert_allclose(got.numpy(), wanted.numpy())


def test_unique_keeps_each_nan_and_takes_a_parameter() -> None:
    x = [float("nan"), 1.0, float("nan"), 1.0]
    for lib in BOTH:
        values, counts = lib.unique(lib.tensor(x), True, return_counts=True)
        assert len(values) == 3
        assert sorted(counts.tolist()) == [1, 1, 2]
    assert nn.Parameter(minitorch.tensor([2.0, 1.0])).unique().tolist() == [1.0, 2.0]


def test_multinomial_is_a_method_and_draws_by_weight() -> None:
    minitorch.manual_seed(0)
    weights = minitorch.tensor([[1.0, 0.0, 3.0], [0.0, 1.0, 0.0]])
    drawn = weights.multinomial(4000, replacement=True)
    assert drawn.shape == (2, 4000)
    assert drawn.dtype == minitorch.int64
    share = (drawn[0] == 2).float().mean().item()
    assert abs(share - 0.75) < 5 * (0.75 * 0.25 / 4000) ** 0.5
    assert set(drawn[0].tolist()) == {0, 2}
    assert set(drawn[1].tolist()) == {1}
    assert sorted(minitorch.tensor([1.0, 2.0, 0.0]).multinomial(2).tolist()) == [0, 1]
    with pytest.raises(ArgumentError, match="at most one for each weight"):
        weights.multinomial(2)


def test_a_traced_function_draws_anew() -> None:
    draw = minitorch.compile(lambda w: w.multinomial(50, replacement=True), fullgraph=True)
    first, second = draw(minitorch.ones(9)), draw(minitorch.ones(9))
    assert first.shape == (50,)
    assert first.tolist() != second.tolist()


NAMES = ["Float", "Double", "Half", "Byte", "Char", "Short", "Int", "Long", "Bool"]


@pytest.mark.parametrize("name", [f"{name}Tensor" for name in NAMES])
def test_a_kind_of_tensor_makes_it_names_it_and_converts_to_it(name: str) -> None:
    ours, theirs = (getattr(lib, name)([0, 1]) for lib in BOTH)
    assert f"torch.{ours.dtype}" == str(theirs.dtype)
    assert ours.type() == theirs.type()
    for kind in (getattr(minitorch, name), f"torch.{name}", ours.dtype):
        assert minitorch.tensor([1.5, 0.0]).type(kind).dtype == ours.dtype
    kinds = [other for other in NAMES if isinstance(ours, getattr(minitorch, f"{other}Tensor"))]
    assert kinds == [name.removesuffix("Tensor")]
    assert getattr(minitorch, name)(2, 3).shape == (2, 3)
    assert getattr(minitorch, name)().shape == (0,)


def test_a_shape_is_a_size_and_elements_are_counted_by_either_name() -> None:
    x = minitorch.zeros(2, 3)
    assert isinstance(x.shape, minitorch.Size)
    assert minitorch.Size([2, 3]) == x.shape == x.size()
    assert x.nelement() == x.numel() == 6
    with pytest.raises(DTypeError, match="expected one of"):
        x.type("torch.QuaternionTensor")


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_the_limits_of_floats_are_torchs(name: str) -> None:
    ours, theirs = (lib.finfo(getattr(lib, name)) for lib in BOTH)
    for limit in ("bits", "eps", "max", "min", "tiny", "smallest_normal"):
        assert getattr(ours, limit) == getattr(theirs, limit)
    assert minitorch.finfo().eps == torch.finfo().eps
    with pytest.raises(DTypeError, match="Use finfo"):
        minitorch.iinfo(name)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_the_limits_of_integers_are_torchs(name: str) -> None:
    ours, theirs = (lib.iinfo(getattr(lib, name)) for lib in BOTH)
    assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)
    with pytest.raises(DTypeError, match="Use iinfo"):
        minitorch.finfo(name)


def test_a_copy_to_a_device_takes_torchs_hints() -> None:
    x = minitorch.ones(2).pin_memory().to("cpu", non_blocking=True)
    assert x.tolist() == [1.0, 1.0]
    net = nn.Linear(2, 1).to("cpu", non_blocking=True)
    assert net(x).shape == (1,)


def test_questions_about_an_accelerator_are_answered_without_one() -> None:
    assert minitorch.accelerator.is_available() == minitorch.cuda.is_available()
    minitorch.cuda.manual_seed_all(1)
    minitorch.cuda.reset_peak_memory_stats()
    minitorch.cuda.empty_cache()
    if not minitorch.cuda.is_available():
        assert minitorch.accelerator.current_accelerator() is None
        assert minitorch.accelerator.device_count() == 0
        for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
            assert getattr(minitorch.cuda, name)() == getattr(torch.cuda, name)() == 0
        assert not minitorch.cuda.is_bf16_supported()
    with pytest.raises(AttributeError, match="nonsense"):
        _ = minitorch.cuda.nonsense


def test_switches_of_libraries_can_be_set() -> None:
    cudnn = importlib.import_module("minitorch.backends.cudnn")
    assert cudnn is minitorch.backends.cudnn
    cudnn.deterministic = True
    cudnn.benchmark = False
    minitorch.backends.cuda.matmul.allow_tf32 = True
    minitorch.use_deterministic_algorithms(True, warn_only=True)
    minitorch.set_float32_matmul_precision("high")
    with pytest.raises(ArgumentError, match="expected 'highest'"):
        minitorch.set_float32_matmul_precision("low")
    assert minitorch.backends.mps.is_available() is False
    assert cudnn.is_available() is False


# ── layers on a device, with a dtype ────────────────────────────────────────────────────────────

LAYERS: dict[str, tuple[Any, ...]] = {
    "Linear": (2, 3, True),
    "Conv1d": (2, 3, 1, 1, 0, 1, 1, True, "zeros"),
    "Conv2d": (2, 3, 1, 1, 0, 1, 1, True, "zeros"),
    "ConvTranspose2d": (2, 3, 1, 1, 0, 0, 1, True, 1, "zeros"),
    "Embedding": (4, 3, None, None, 2.0, False, True, None, False),
    "LayerNorm": (3, 1e-5, True, True),
    "RMSNorm": (3, 1e-5, True),
    "BatchNorm1d": (3, 1e-5, 0.1, True, True),
    "InstanceNorm2d": (3, 1e-5, 0.1, True, True),
    "GroupNorm": (1, 3, 1e-5, True),
    "PReLU": (3, 0.25),
    "MultiheadAttention": (4, 2, 0.0, True, False, False, None, None, True),
    "TransformerEncoderLayer": (4, 2, 8, 0.0, "relu", 1e-5, True, False, True),
    "LSTMCell": (2, 3, True),
    "RNNCell": (2, 3, True, "tanh"),
    "LSTM": (2, 3, 1, True, True, 0.0, True, 0),
    "GRU": (2, 3, 1, True, True, 0.0, True, 0),
    "RNN": (2, 3, 1, "tanh", True, True, 0.0, True, 0),
}


@pytest.mark.parametrize("name", LAYERS)
def test_device_and_dtype_of_a_layer_are_torchs_last_positions(name: str) -> None:
    ours, theirs = (
        getattr(lib.nn, name)(*LAYERS[name], "cpu", lib.float64).state_dict() for lib in BOTH
    )
    assert {k: (f"torch.{v.dtype}", v.shape) for k, v in ours.items()} == {
        k: (str(v.dtype), tuple(v.shape)) for k, v in theirs.items()
    }
    getattr(nn, name)(*LAYERS[name], None, None)
    with pytest.raises(DeviceError, match="cuda:99"):
        getattr(nn, name)(*LAYERS[name], device="cuda:99")


def test_what_a_layer_cannot_do_is_refused() -> None:
    for option in ("add_bias_kv", "add_zero_attn"):
        with pytest.raises(ArgumentError, match="which are not here"):
            nn.MultiheadAttention(4, 2, **{option: True})
    with pytest.raises(ArgumentError, match="which is not here"):
        nn.LSTM(4, 4, proj_size=2)
    with pytest.raises(ArgumentError, match="which is not here"):
        nn.Embedding(4, 3, scale_grad_by_freq=True)
    table = minitorch.ones(4, 3)
    assert not nn.Embedding(4, 3, _weight=table, _freeze=True).weight.requires_grad


# ── compile ─────────────────────────────────────────────────────────────────────────────────────


def test_compile_runs_a_function_as_a_graph_with_gradients() -> None:
    calls = []

    @minitorch.compile(mode="max-autotune", dynamic=False)
    def f(x: Any) -> Any:
        calls.append(1)
        return (x * x).sum()

    x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3):
        assert f(x).item() == 5.0
    f(x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0]
    assert len(calls) == 1


def test_compile_runs_what_cannot_be_traced_as_it_is() -> None:
    def f(x: Any) -> Any:
        return x + 1 if x.sum().item() > 0 else x - 1

    compiled = minitorch.compile(f)
    assert compiled(minitorch.ones(2)).tolist() == [2.0, 2.0]
    assert compiled(-minitorch.ones(2)).tolist() == [-2.0, -2.0]
    assert compiled.eager
    with pytest.raises(minitorch.errors.GraphError):
        minitorch.compile(f, fullgraph=True)(minitorch.ones(2))
    with pytest.raises(ArgumentError, match="compile: got int"):
        minitorch.compile(3)
    with pytest.raises(ArgumentError, match="unknown mode: got 'fast', expected one of 'default'"):
        minitorch.compile(f, mode="fast")


def test_a_mistake_of_the_caller_is_an_error_and_leaves_the_function_compiled() -> None:
    net = minitorch.compile(nn.Linear(2, 3))
    with pytest.raises(minitorch.errors.ShapeError):
        net(minitorch.ones(1, 5))
    assert net(minitorch.ones(1, 2)).shape == (1, 3)
    assert isinstance(net, Compiled)
    assert not net.eager
    assert set(net.state_dict()) == {"weight", "bias"}


def test_a_function_called_with_ever_other_shapes_is_not_traced_for_all_of_them() -> None:
    f = minitorch.compile(lambda x: x + 1)
    for n in range(1, 3 * MOST_TRACES):
        assert f(minitorch.zeros(n)).tolist() == [1.0] * n
    assert len(f.traces) <= MOST_TRACES + 1


def test_the_package_of_that_name_is_still_there() -> None:
    from minitorch.compile import Program

    assert minitorch.compile.Program is Program
    assert callable(minitorch.compile)
    assert Session is not None
    assert count_nodes is not None


# ── mixed precision ─────────────────────────────────────────────────────────────────────────────


def test_autocast_is_a_context_and_a_decorator_that_change_nothing() -> None:
    x = minitorch.randn(3, 3)
    with minitorch.autocast("cpu", dtype=minitorch.float16) as context:
        inside = x @ x
    assert context is not None
    assert inside.dtype == minitorch.float32
    assert inside.tolist() == (x @ x).tolist()
    assert minitorch.amp.autocast("cuda")(lambda: 3)() == 3
    with pytest.raises(ArgumentError, match="autocast: got 'abacus'"):
        minitorch.autocast("abacus")


def scaled_steps(lib: Any) -> list[Any]:
    """Six steps of which two overflow; the scale and the parameter after each."""
    w = lib.nn.Parameter(lib.tensor([1.0, -2.0]))
    optimizer = lib.optim.SGD([w], lr=0.1)
    scaler = lib.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
    seen: list[Any] = []
    for factor in (1.0, 1.0, float("inf"), 2.0, float("nan"), 1.0):
        optimizer.zero_grad()
        scaler.scale((w * w * factor).sum()).backward()
        scaler.unscale_(optimizer)
        lib.nn.utils.clip_grad_norm_([w], 1.0)
        scaler.step(optimizer)
        scaler.update()
        seen += [scaler.get_scale(), *w.detach().tolist()]
    again = lib.amp.GradScaler("cpu")
    again.load_state_dict(scaler.state_dict())
    return [*seen, again.get_scale(), *scaler.state_dict().values()]


def test_a_grad_scaler_skips_and_scales_as_torchs() -> None:
    np.testing.assert_allclose(scaled_steps(minitorch), scaled_steps(torch), rtol=1e-6)


def test_a_grad_scaler_that_is_off_does_nothing_and_unscaling_twice_is_an_error() -> None:
    w = nn.Parameter(minitorch.ones(1))
    optimizer = minitorch.optim.SGD([w], lr=1.0)
    off, on = (minitorch.amp.GradScaler("cpu", enabled=enabled) for enabled in (False, True))
    loss = (w * 3).sum()
    assert off.scale(loss) is loss
    loss.backward()
    off.step(optimizer)
    off.update()
    assert w.tolist() == [-2.0]
    on.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="twice"):
        on.unscale_(optimizer)


# ── data ────────────────────────────────────────────────────────────────────────────────────────


def test_a_loader_takes_what_torchs_takes() -> None:
    numbered: list[int] = []
    loader = minitorch.utils.data.DataLoader(
        list(range(6)),
        batch_size=2,
        shuffle=None,
        num_workers=2,
        pin_memory=True,
        drop_last=True,
        timeout=10,
        worker_init_fn=numbered.append,
        prefetch_factor=None,
        persistent_workers=True,
    )
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]
    assert loader.pin_memory
    assert set(numbered) <= {0, 1}
    assert 0 in numbered


@pytest.mark.parametrize("lib", BOTH)
def test_arrays_in_a_single_item_are_tensors(lib: Any) -> None:
    load = importlib.import_module(f"{lib.__name__}.utils.data").DataLoader
    item = {"x": np.ones(2, np.float32), "pair": (np.float64(2.0), 3), "name": "a"}
    (found,) = load([item], batch_size=None)
    assert found["x"].dtype is lib.float32
    assert found["pair"][0].dtype is lib.float64
    assert [type(found["pair"]), found["pair"][1], found["name"]] == [list, 3, "a"]


def test_a_recurrent_network_has_nothing_to_flatten() -> None:
    net = nn.LSTM(2, 3)
    net.flatten_parameters()
    assert net(minitorch.ones(4, 1, 2))[0].shape == (4, 1, 3)


# ── what programs do with them ──────────────────────────────────────────────────────────────────


def exponential(lib: Any) -> Any:
    class Exp(lib.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (result,) = ctx.saved_tensors
            return grad * result

    return Exp.apply


def two_results(lib: Any) -> Any:
    class Two(lib.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, factor: float, y: Any) -> Any:
            ctx.factor = factor
            ctx.save_for_backward(x, y)
            return x * y, (x + y) * factor, x.argmax()

        @staticmethod
        def backward(ctx: Any, by_product: Any, by_sum: Any, _: Any) -> Any:
            x, y = ctx.saved_tensors
            by_sum = by_sum * ctx.factor
            return by_product * y + by_sum, None, by_product * x + by_sum

    return Two.apply


@pytest.mark.parametrize("lib", BOTH)
def test_a_function_of_ones_own_has_gradients_of_any_order(lib: Any) -> None:
    x = lib.tensor([0.5, -1.0], dtype=lib.float64, requires_grad=True)
    (first,) = lib.autograd.grad(exponential(lib)(2 * x).sum(), x, create_graph=True)
    (second,) = lib.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = lib.autograd.grad(second.sum(), x)
    for order, grad in enumerate((first, second, third), 1):
        expected = 2.0**order * np.exp(2 * x.detach().numpy())
        np.testing.assert_allclose(grad.detach().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("lib", BOTH)
def test_a_function_of_ones_own_may_have_several_results(lib: Any) -> None:
    x, y = (lib.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [3.0, 5.0]))
    product, total, place = two_results(lib)(x, 10.0, y)
    assert (place.item(), place.requires_grad) == (1, False)
    total.sum().backward(retain_graph=True)
    assert x.grad.tolist() == y.grad.tolist() == [10.0, 10.0]
    product.sum().backward(inputs=[x])
    assert (x.grad.tolist(), y.grad.tolist()) == ([13.0, 15.0], [10.0, 10.0])


@pytest.mark.parametrize("lib", BOTH)
def test_what_a_function_of_ones_own_saved_must_stay_as_it_was(lib: Any) -> None:
    x = lib.ones(2, requires_grad=True)
    y, factor = x * 1, lib.ones(2)
    product, _, _ = two_results(lib)(y, 1.0, factor)
    factor.add_(1)
    with pytest.raises(RuntimeError):
        product.sum().backward()


def test_a_backward_of_ones_own_with_too_few_gradients_is_named() -> None:
    class Bad(minitorch.autograd.Function):
        forward = staticmethod(lambda ctx, x, y: x + y)
        backward = staticmethod(lambda ctx, grad: grad)

    x = minitorch.ones(2, requires_grad=True)
    with pytest.raises(GradientError, match=r"Bad\.backward: got 1 gradients, expected 2"):
        Bad.apply(x, x).sum().backward()
    with pytest.raises(GraphError, match="test_program_names"):  # in jit: its line is named
        minitorch.compile(lambda x: Bad.apply(x, x).sum(), fullgraph=True)(x)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # torch's, of no requires_grad
@pytest.mark.parametrize("requires", [True, False])
def test_a_backward_hook_sees_what_torchs_sees(requires: bool) -> None:
    seen: list[list[object]] = []
    for lib in BOTH:
        calls: list[object] = []
        net = lib.nn.Linear(3, 2)
        with lib.no_grad():
            net.weight.copy_(lib.ones(2, 3))

        def hook(module: Any, grad_input: Any, grad_output: Any, calls: Any = calls) -> Any:
            calls += [None if g is None else g.tolist() for g in (*grad_input, *grad_output)]
            return None if grad_input[0] is None else (grad_input[0] * 2,)

        handle = net.register_full_backward_hook(hook)
        x = lib.ones(1, 3, requires_grad=requires)
        net(x).sum().backward()
        calls.append(x.grad.tolist() if requires else None)
        handle.remove()
        net(x).sum().backward()
        calls.append(net.weight.grad.tolist())
        seen.append(calls)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("lib", BOTH)
def test_a_backward_hook_returns_one_gradient_for_each_input(lib: Any) -> None:
    net = lib.nn.Linear(3, 2)
    net.register_full_backward_hook(lambda module, grad_input, grad_output: grad_input * 2)
    with pytest.raises(RuntimeError, match=r"2.* expected 1"):
        net(lib.ones(1, 3, requires_grad=True)).sum().backward()


@pytest.mark.parametrize("name", ["Linear", "GRU", "MultiheadAttention"])
def test_a_hook_computes_the_weights_of_a_layer(name: str) -> None:
    found = []
    for lib in BOTH:
        layer = {"Linear": (4, 4), "GRU": (4, 4), "MultiheadAttention": (4, 2)}[name]
        net = getattr(lib.nn, name)(*layer)
        weight = next(key for key, value in net.named_parameters() if value.ndim == 2)
        with lib.no_grad():
            for i, param in enumerate(net.parameters()):
                param.copy_(lib.arange(float(param.numel())).reshape(param.shape) / 9 - i)
        whole = lib.nn.Parameter(getattr(net, weight).detach())
        delattr(net, weight)

        def prune(module: Any, args: Any, weight: str = weight, whole: Any = whole) -> None:
            setattr(module, weight, whole * (whole > 0))

        net.register_forward_pre_hook(prune)
        x = lib.ones(1, 2, 4)
        result = net(*[x] * 3) if name == "MultiheadAttention" else net(x)
        result = result if lib.is_tensor(result) else result[0]
        result.sum().backward()
        found.append((result.detach().numpy(), whole.grad.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def words(lib: Any) -> list[Any]:
    x = lib.arange(6.0).reshape(2, 3)
    net = lib.nn.Sequential(lib.nn.ReLU())
    net.insert(0, lib.nn.Tanh())
    net.extend([lib.nn.Identity(), lib.nn.ELU()])
    del net[2]
    pd = lib.nn.ParameterDict({"a": lib.nn.Parameter(lib.ones(2))})
    linear = lib.nn.Linear(3, 1)
    pad = lib.nn.utils.rnn.pad_sequence
    call = importlib.import_module(f"{lib.__name__}.func").functional_call
    rows = [x[0], x[1, :2], x[0, :0]]
    target = lib.tensor([1.0, -1.0])
    return [
        x.sum(axis=0), x.max(axis=1, keepdims=True)[0], lib.cumprod(x, axis=1),
        lib.cat([x, x], axis=1), lib.stack([x, x], axis=2), x.mean(axis=(0, 1)),
        lib.zeros(size=(2, 1)), x.new(2, 2).zero_(), x.clone()[:, :2].fill_diagonal_(7.0), x.byte(),
        lib.zeros(2, 2, 2).fill_diagonal_(7.0),
        pad(rows), pad(rows, batch_first=True, padding_value=-1.0),
        call(linear, {"weight": x, "bias": x[:, 0]}, (x,)),
        linear.get_parameter("weight") is linear.weight,
        lib.nn.functional.cosine_embedding_loss(x + 1, x * x, target, margin=0.2),
        lib.nn.functional.margin_ranking_loss(x[0, :2], x[1, :2], target, margin=3.5),
        lib.nn.init.eye_(lib.zeros(2, 3)), [type(part).__name__ for part in net],
        list(pd), [name for name, _ in pd.named_parameters()], pd["a"].requires_grad,
        lib.autograd.grad(x.requires_grad_().sum(), linear.weight, materialize_grads=True)[0],
    ]  # fmt: skip


def test_words_of_programs_mean_what_they_mean() -> None:
    for ours, theirs in zip(words(minitorch), words(torch), strict=True):
        if isinstance(theirs, torch.Tensor):
            assert f"torch.{ours.dtype}" == str(theirs.dtype)
            ours, theirs = ours.detach().numpy(), theirs.detach().numpy()
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        else:
            assert ours == theirs


def test_the_state_of_random_numbers_is_kept_in_a_file(tmp_path: Any) -> None:
    minitorch.manual_seed(3)
    minitorch.save(minitorch.get_rng_state(), tmp_path / "state")
    first = minitorch.randn(4).tolist()
    minitorch.set_rng_state(minitorch.load(tmp_path / "state"))
    assert minitorch.randn(4).tolist() == first
    assert minitorch.initial_seed() == 3
