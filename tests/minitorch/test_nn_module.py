"""Modules: names, state, hooks, modes, printing, as PyTorch has them."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch import nn, optim
from minitorch.arrays.generator import manual_seed
from minitorch.errors import ArgumentError, DTypeError, GradientError, MinitorchError
from minitorch.nn.state_dicts import StateDictMismatch
from minitorch.serialize import load, save
from minitorch.tensor.tensor import Tensor, tensor


def network(lib: Any = nn) -> Any:
    return lib.Sequential(
        lib.Conv2d(1, 4, 3, padding=1, bias=False),
        lib.BatchNorm2d(4),
        lib.ReLU(),
        lib.Sequential(lib.Flatten(), lib.Dropout(0.2), lib.Linear(64, 10)),
    )


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = self.a
        self.scale = nn.Parameter(tensor([2.0]))
        self.register_buffer("seen", tensor([0.0]))
        self.register_buffer("scratch", tensor([1.0]), persistent=False)
        self.note = "plain"

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x)) * self.scale  # type: ignore[no-any-return]


# ── names and walks ─────────────────────────────────────────────────────────────────────────────


def test_names_equal_pytorchs() -> None:
    ours, theirs = network(), network(torch.nn)
    for walk in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert [n for n, _ in getattr(ours, walk)()] == [n for n, _ in getattr(theirs, walk)()]
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_a_shared_module_is_walked_once_and_saved_under_both_names() -> None:
    model = Tied()
    assert [n for n, _ in model.named_parameters()] == ["scale", "a.weight", "a.bias"]
    assert len(list(model.modules())) == 2
    assert list(model.state_dict()) == [
        "scale",
        "seen",
        "a.weight",
        "a.bias",
        "b.weight",
        "b.bias",
    ]


def test_parts_are_found_by_dotted_name() -> None:
    model = network()
    assert model.get_submodule("3.2") is model[3][2]
    assert model.get_submodule("") is model
    with pytest.raises(AttributeError, match="nobody"):
        model.get_submodule("3.nobody")


def test_attributes_move_between_kinds_and_go_away() -> None:
    model = Tied()
    model.note = nn.Parameter(tensor([1.0]))
    assert "note" in dict(model.named_parameters())
    del model.note
    assert "note" not in dict(model.named_parameters())
    with pytest.raises(AttributeError, match="note"):
        _ = model.note
    with pytest.raises(TypeError, match="expected Parameter"):
        model.scale = tensor([1.0])
    model.scale = None
    assert "scale" not in model.state_dict()
    assert "seen" in dir(model)


def test_what_is_registered_of_another_library_is_named_with_it() -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(TypeError, match="got torch's Tensor, expected minitorch's Tensor or None"):
        model.register_buffer("rows", torch.zeros(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got torch's Linear, expected minitorch's Module or None"):
        model.add_module("part", torch.nn.Linear(1, 1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got int, expected Tensor or None"):
        model.register_buffer("rows", 1)  # type: ignore[arg-type]


def test_a_module_that_forgot_its_init_says_so() -> None:
    class Forgot(nn.Module):
        def __init__(self) -> None:
            self.w = nn.Parameter(tensor([1.0]))

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Forgot()


@pytest.mark.parametrize("name", ["", "a.b", "forward", 3])
def test_names_that_cannot_be_are_refused(name: Any) -> None:
    with pytest.raises((KeyError, TypeError)):
        nn.Module().register_parameter(name, nn.Parameter(tensor([1.0])))


@pytest.mark.parametrize("lib", [torch, minitorch])
def test_a_name_is_registered_as_one_kind_alone(lib: Any) -> None:
    module = lib.nn.Sequential(lib.nn.Linear(1, 1))
    module.register_buffer("rows", lib.zeros(1))
    module.register_buffer("rows", lib.ones(1))
    for register, name, value in [
        (module.register_buffer, "0", lib.ones(1)),
        (module.register_parameter, "rows", lib.nn.Parameter(lib.ones(1))),
        (module.add_module, "rows", lib.nn.ReLU()),
    ]:
        with pytest.raises(KeyError, match="exists"):
            register(name, value)
    assert list(module.state_dict()) == ["rows", "0.weight", "0.bias"]


def test_a_misspelt_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="weigth"):
        _ = nn.Linear(2, 2).weigth


# ── state ───────────────────────────────────────────────────────────────────────────────────────


def test_a_loaded_state_gives_the_same_outputs(tmp_path: Path) -> None:
    model, other = network().eval(), network().eval()
    x = tensor(np.random.default_rng(0).normal(size=(2, 1, 4, 4)).astype(np.float32))
    assert model(x).tolist() != other(x).tolist()
    save(model.state_dict(), tmp_path / "model")
    assert other.load_state_dict(load(tmp_path / "model")) == ([], [])
    assert model(x).tolist() == other(x).tolist()


def test_pytorchs_state_loads_and_ours_loads_there() -> None:
    ours, theirs = network().eval(), network(torch.nn).eval()
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).normal(size=(2, 1, 4, 4)).astype(np.float32)
    want = theirs(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours(tensor(x)).detach().numpy(), want, rtol=1e-4, atol=1e-5)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})


def test_a_state_that_does_not_fit_lists_everything_and_changes_nothing() -> None:
    model = nn.Linear(2, 3)
    before = model.weight.tolist()
    wrong = {"weight": tensor(np.zeros((3, 4), np.float32)), "extra": tensor([1.0])}
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(wrong)
    assert isinstance(caught.value, StateDictMismatch | MinitorchError)
    for part in (
        "Error(s) in loading state_dict for Linear",
        'Missing key(s) in state_dict: "bias"',
        'Unexpected key(s) in state_dict: "extra"',
        "size mismatch for weight: got shape (3, 4), expected (3, 2)",
    ):
        assert part in str(caught.value)
    assert model.weight.tolist() == before


def test_without_strictness_keys_are_returned_but_shapes_still_matter() -> None:
    model = nn.Linear(2, 3)
    found = model.load_state_dict({"bias": tensor([1.0, 2.0, 3.0]), "extra": 1}, strict=False)
    assert (found.missing_keys, found.unexpected_keys) == (["weight"], ["extra"])
    assert model.bias is not None
    assert model.bias.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict({"bias": tensor([1.0])}, strict=False)
    with pytest.raises(TypeError, match="list"):
        model.load_state_dict([1])  # type: ignore[arg-type]


def test_loading_keeps_the_parameters_that_an_optimizer_holds() -> None:
    model = nn.Linear(2, 2)
    held = model.weight
    model.load_state_dict({"weight": np.ones((2, 2)), "bias": np.ones(2)})
    assert model.weight is held
    assert held.tolist() == [[1.0, 1.0], [1.0, 1.0]]


# ── calling, modes, moving ──────────────────────────────────────────────────────────────────────


def test_hooks_see_and_may_replace_arguments_and_output() -> None:
    model, seen = nn.Identity(), []
    first = model.register_forward_pre_hook(lambda m, args: (args[0] * 2.0,))
    second = model.register_forward_hook(lambda m, args, out: seen.append(out.item()) or out + 1.0)
    assert model(tensor([3.0])).item() == 7.0
    assert seen == [6.0]
    first.remove()
    with second:
        assert model(tensor([3.0])).item() == 4.0
    assert model(tensor([3.0])).item() == 3.0


def test_training_and_evaluation_reach_every_module() -> None:
    model = network()
    x = tensor(np.ones((4, 1, 4, 4), np.float32))
    manual_seed(0)
    assert model(x).tolist() != model(x).tolist()
    model.eval()
    assert not any(m.training for m in model.modules())
    assert model(x).tolist() == model(x).tolist()
    with pytest.raises(ArgumentError, match="mode"):
        model.train("yes")


@pytest.mark.parametrize("axes", [1, 2])
def test_whole_channels_are_dropped(axes: int) -> None:
    minitorch.manual_seed(0)
    layer = getattr(nn, f"Dropout{axes}d")(0.25)
    x = minitorch.ones(50, 40, *(3,) * axes)
    channels = layer(x).reshape(2000, -1)
    assert set(channels.sum(1).tolist()) == {0.0, 4.0 * 3 ** (axes - 1)}
    assert abs((channels[:, 0] > 0).float().mean().item() - 0.75) < 5 * (0.1875 / 2000) ** 0.5
    assert (layer.eval()(x) == x).all()


def test_apply_visits_children_first() -> None:
    names: list[str] = []
    network().apply(lambda m: names.append(type(m).__name__))
    theirs: list[str] = []
    network(torch.nn).apply(lambda m: theirs.append(type(m).__name__))
    assert names == theirs


def test_converting_keeps_the_parameters_and_spares_integers() -> None:
    model = network()
    held = list(model.parameters())
    model.double()
    assert all(a is b for a, b in zip(held, model.parameters(), strict=True))
    assert {str(p.dtype) for p in model.parameters()} == {"float64"}
    assert str(model[1].num_batches_tracked.dtype) == "int64"
    with pytest.raises(DTypeError, match="int32"):
        model.to("int32")


def test_a_deep_copy_and_a_pickle_are_independent_modules() -> None:
    model = Tied()
    for twin in (copy.deepcopy(model.a), pickle.loads(pickle.dumps(model.a))):
        assert isinstance(twin.weight, nn.Parameter)
        assert twin.weight.tolist() == model.a.weight.tolist()
        optim.SGD(twin.parameters(), lr=1.0)
        twin.weight.data.fill_(0.0)
        assert model.a.weight.tolist() != twin.weight.tolist()
    assert copy.deepcopy(model).a is not model.a


def alike(library: Any) -> list[Any]:
    """Return neighbours that print alike, of which two hold others."""
    layers = [library.Sequential(library.Linear(2, 2), library.Tanh()) for _ in range(2)]
    return [library.ReLU(), *layers, *(library.ReLU() for _ in range(3))]


def test_loading_says_that_all_keys_matched_or_which_did_not() -> None:
    ours, theirs = nn.Linear(2, 3), torch.nn.Linear(2, 3)
    for change in ({}, {"more": "x"}):
        said = [
            repr(module.load_state_dict({**module.state_dict(), **change}, strict=False))
            for module in (ours, theirs)
        ]
        assert said[0] == said[1]


def test_norms_print_whether_they_have_a_shift() -> None:
    """As in torch 2.13; before it, the line had no bias."""
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"
    assert repr(nn.GroupNorm(2, 4, bias=False)).endswith("affine=True, bias=False)")
    assert "affine=True, bias=True, track_running_stats=True" in repr(nn.BatchNorm1d(3))
    assert "affine=False, bias=False, track_running_stats=False" in repr(nn.InstanceNorm2d(3))
    assert repr(nn.RMSNorm(3)) == "RMSNorm((3,), eps=None, elementwise_affine=True)"


def test_printing_equals_pytorchs() -> None:
    ours, theirs = network(), network(torch.nn)
    ours[1], theirs[1] = nn.ReLU(), torch.nn.ReLU()  # batch norm's line differs among versions
    assert repr(ours) == repr(theirs)
    for ours, theirs in (
        (nn.LeakyReLU(0.2), torch.nn.LeakyReLU(0.2)),
        (nn.Softmax(dim=1), torch.nn.Softmax(dim=1)),
        (nn.Embedding(3, 4, padding_idx=0), torch.nn.Embedding(3, 4, padding_idx=0)),
        (nn.Conv1d(2, 4, 3, groups=2, dilation=2), torch.nn.Conv1d(2, 4, 3, groups=2, dilation=2)),
        (nn.AdaptiveAvgPool2d(1), torch.nn.AdaptiveAvgPool2d(1)),
        (nn.MSELoss(), torch.nn.MSELoss()),
        (nn.ModuleList([nn.ReLU()]), torch.nn.ModuleList([torch.nn.ReLU()])),
        (nn.ModuleList(), torch.nn.ModuleList()),
        (nn.ModuleList(alike(nn)), torch.nn.ModuleList(alike(torch.nn))),
    ):
        assert repr(ours) == repr(theirs)


def test_containers_behave_as_lists_and_dicts() -> None:
    row = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Identity())
    assert [type(m).__name__ for m in row[1:]] == ["Tanh", "Identity"]
    assert isinstance(row[-1], nn.Identity)
    row.append(nn.Linear(1, 1))
    assert len(row) == 4
    with pytest.raises(IndexError, match="below 4"):
        row[7]
    listed = nn.ModuleList([nn.Linear(1, 2), nn.Linear(2, 3)])
    listed.insert(0, nn.ReLU())
    listed += [nn.Tanh()]
    assert [n for n, _ in listed.named_parameters()] == [
        "1.weight",
        "1.bias",
        "2.weight",
        "2.bias",
    ]
    named = nn.ModuleDict({"a": nn.ReLU()})
    named["b"] = nn.Tanh()
    assert list(named) == list(named.keys()) == ["a", "b"]
    assert "a" in named
    params = nn.ParameterList([nn.Parameter(tensor([1.0]))])
    assert len(list(params.parameters())) == len(params) == 1
    with pytest.raises(NotImplementedError, match="forward"):
        listed(1)
    with pytest.raises(TypeError, match="expected a list"):
        nn.ModuleList(nn.ReLU())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got int, expected Module"):
        row[0] = 3


@pytest.mark.parametrize("lib", [minitorch, torch])
def test_containers_have_the_methods_that_pytorchs_have(lib: Any) -> None:
    row = lib.nn.Sequential(lib.nn.ReLU(), lib.nn.Tanh()) + lib.nn.Sequential(lib.nn.Identity())
    assert [type(m).__name__ for m in row] == ["ReLU", "Tanh", "Identity"]
    assert isinstance(row.pop(1), lib.nn.Tanh)
    assert list(row._modules) == ["0", "1"]
    assert len(lib.nn.ModuleList(None)) == 0
    named = lib.nn.ModuleDict([("a", lib.nn.ReLU())])
    named.update([("b", lib.nn.Tanh())])
    assert isinstance(named.pop("b"), lib.nn.Tanh)
    assert list(named) == ["a"]
    named.clear()
    assert not len(named)
    assert len({named, lib.nn.ModuleDict()}) == 2
    listed = lib.nn.ParameterList([lib.zeros(2), lib.nn.Parameter(lib.ones(3))])
    listed += [lib.ones(4)]
    listed[0] = lib.nn.Parameter(lib.ones(5))
    assert [p.numel() for p in listed] == [5, 3, 4]
    assert [p.numel() for p in listed[1:]] == [3, 4]
    assert [name for name, _ in listed.named_parameters()] == ["0", "1", "2"]
    params = lib.nn.ParameterDict([("a", lib.ones(1))])
    assert params.get("b") is None
    assert params.setdefault("b", lib.ones(2)).requires_grad
    assert params.pop("a").numel() == 1
    assert list(params.keys()) == ["b"]


# ── parameters as a whole ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("max_norm", [0.1, 1e6])
def test_clipping_by_norm_equals_pytorchs(norm_type: float, max_norm: float) -> None:
    rng = np.random.default_rng(0)
    grads = [rng.normal(size=s) for s in ((3, 4), (5,))]
    ours = [tensor(np.zeros_like(g)).requires_grad_() for g in grads]
    theirs = [torch.zeros(g.shape, dtype=torch.float64, requires_grad=True) for g in grads]
    for p, q, g in zip(ours, theirs, grads, strict=True):
        p.grad, q.grad = tensor(g), torch.tensor(g)
    got = nn.utils.clip_grad_norm_(ours, max_norm, norm_type)
    want = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    assert got.item() == pytest.approx(want.item(), rel=1e-12)
    for p, q in zip(ours, theirs, strict=True):
        assert p.grad is not None
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-12)


def test_a_norm_that_is_not_finite_can_be_an_error() -> None:
    p = tensor([1.0]).requires_grad_()
    p.grad = tensor([float("nan")])
    with pytest.raises(GradientError, match="nan"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    nn.utils.clip_grad_value_([p], 1.0)


INITS: list[tuple[str, dict[str, Any]]] = [
    ("uniform_", {"a": -2.0, "b": 3.0}),
    ("normal_", {"mean": 1.0, "std": 2.0}),
    ("trunc_normal_", {"std": 2.0}),
    ("xavier_uniform_", {"gain": 2.0}),
    ("xavier_normal_", {}),
    ("kaiming_uniform_", {"a": 0.3}),
    ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}),
    ("orthogonal_", {"gain": 1.5}),
]


@pytest.mark.parametrize(("name", "options"), INITS)
def test_starts_have_pytorchs_mean_spread_and_range(name: str, options: dict[str, Any]) -> None:
    manual_seed(0)
    torch.manual_seed(0)
    ours = (
        getattr(nn.init, name)(nn.Parameter(np.zeros((60, 40, 3, 3))), **options).detach().numpy()
    )
    theirs = getattr(torch.nn.init, name)(torch.zeros(60, 40, 3, 3), **options).numpy()
    spread = theirs.std()
    assert abs(ours.mean() - theirs.mean()) < 12 * spread / ours.size**0.5
    assert abs(ours.std() / spread - 1) < 0.03
    if "normal" not in name:
        assert ours.max() == pytest.approx(theirs.max(), rel=0.15)


def test_an_orthogonal_start_is_orthogonal_and_gains_equal_pytorchs() -> None:
    w = nn.init.orthogonal_(nn.Parameter(np.zeros((4, 7)))).detach().numpy()
    np.testing.assert_allclose(w @ w.T, np.eye(4), atol=1e-10)
    for kind in ("linear", "relu", "tanh", "leaky_relu", "selu", "sigmoid"):
        assert nn.init.calculate_gain(kind) == pytest.approx(torch.nn.init.calculate_gain(kind))
    with pytest.raises(ArgumentError, match="expected one of"):
        nn.init.calculate_gain("nobody")


def test_the_seed_decides_how_a_layer_starts() -> None:
    def start(seed: int) -> Any:
        manual_seed(seed)
        return nn.Linear(5, 5).weight.tolist()

    assert start(1) == start(1) != start(2)


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Conv2d(3, 4, 3, groups=2),
        lambda: nn.Conv2d(2, 2, 3, padding_mode="mirror"),
        lambda: nn.GroupNorm(3, 4),
        lambda: nn.Dropout(1.5),
        lambda: nn.Embedding(3, 2, padding_idx=3),
        lambda: nn.Conv2d(3, 4, 0),
        lambda: nn.Conv2d(3, 4, 3, padding="some"),
        lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"),
        lambda: nn.GroupNorm(0, 4),
        lambda: nn.init.normal_(nn.Parameter(np.zeros(2)), std=-1.0),
        lambda: nn.init.uniform_(nn.Parameter(np.zeros(2)), 1.0, 0.0),
    ],
)
def test_layers_that_cannot_be_are_refused(build: Any) -> None:
    with pytest.raises(ArgumentError):
        build()


ROW: Any = [1.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Linear(1, 1)(ROW), "linear: got input of type list"),
        (lambda: nn.Embedding(3, 2)(ROW), "embedding: got list indices"),
        (lambda: nn.CrossEntropyLoss()(minitorch.ones(1, 2), ROW), "got target of type list"),
        (lambda: nn.Embedding.from_pretrained(minitorch.ones(3)), "expected .count, size."),
        (lambda: nn.BatchNorm1d(3)(minitorch.ones(2, 3).long()), "batch_norm: got int64"),
        (
            lambda: nn.LSTMCell(3, 2)(minitorch.ones(4, 3), (minitorch.ones(1, 2),) * 2),
            r"LSTMCell: got a state of shapes \[\(1, 2\), \(1, 2\)\]",
        ),
        (lambda: nn.GRUCell(3, 2)(minitorch.ones(4, 3), minitorch.ones(2)), "GRUCell: got a state"),
        (lambda: nn.MultiheadAttention(2, 1)(*[minitorch.ones(2)] * 3), "expected 3 axes each"),
        (
            lambda: nn.MultiheadAttention(2, 1)(
                *[minitorch.ones(3, 4, 2)] * 3,
                key_padding_mask=minitorch.ones(3, 4, dtype=minitorch.bool),
            ),
            r"got key_padding_mask \(3, 4\), expected \(4, 3\)",
        ),
    ],
)
def test_inputs_that_do_not_fit_a_layer_are_refused_by_it(call: Any, message: str) -> None:
    with pytest.raises(MinitorchError, match=message):
        call()


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
@pytest.mark.parametrize("sizes", [(3, 0), (0, 3), (0, 0)])
def test_a_linear_layer_may_have_no_features(sizes: tuple[int, int]) -> None:
    for lib in (minitorch, torch):
        layer, x = lib.nn.Linear(*sizes), lib.ones(2, 4, sizes[0], requires_grad=True)
        y = layer(x)
        y.sum().backward()
        assert tuple(y.shape) == (2, 4, sizes[1])
        assert tuple(x.grad.shape) == (2, 4, sizes[0])
        assert tuple(layer.weight.grad.shape) == sizes[::-1]


def test_unknown_options_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="negative_slop"):
        nn.LeakyReLU(negative_slop=0.1)
    with pytest.raises(TypeError, match="reductoin"):
        nn.MSELoss(reductoin="sum")
    with pytest.raises(TypeError, match="got no kernel_size"):
        nn.MaxPool2d(stride=2)


def test_pixels_come_from_channels_as_pytorchs() -> None:
    x = np.random.default_rng(0).normal(size=(2, 12, 3, 4))
    want = torch.nn.PixelShuffle(2)(torch.tensor(x))
    assert nn.PixelShuffle(2)(tensor(x)).tolist() == want.tolist()
    assert repr(nn.PixelShuffle(2)) == repr(torch.nn.PixelShuffle(2))


@pytest.mark.parametrize(
    ("name", "sizes", "options"),
    [
        ("BatchNorm1d", (6,), {}),
        ("InstanceNorm1d", (6,), {"affine": True, "track_running_stats": True}),
        ("GroupNorm", (2, 6), {}),
    ],
)
def test_norms_may_have_a_scale_alone(name: str, sizes: Any, options: Any) -> None:
    """PyTorch's have `bias` since 2.13; here it is taken off one of any version."""
    ours = getattr(nn, name)(*sizes, bias=False, **options)
    theirs = getattr(torch.nn, name)(*sizes, **options)
    theirs.register_parameter("bias", None)
    x = np.random.default_rng(0).standard_normal((4, 6, 5)).astype(np.float32)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for _ in range(2):
        result, expected = ours(tensor(x)), theirs(torch.tensor(x))
        np.testing.assert_allclose(result.detach(), expected.detach(), rtol=1e-5, atol=1e-5)
        ours.eval(), theirs.eval()
    assert ours.bias is None
    ours.weight.data.fill_(3.0)
    ours.reset_parameters()
    assert ours.weight.tolist() == [1.0] * 6


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("LayerNorm", (3,)),
        ("RMSNorm", (3,)),
        ("BatchNorm1d", (3,)),
        ("PReLU", (2, 0.5)),
        ("LSTMCell", (2, 3)),
        ("GRU", (2, 3)),
        ("Conv1d", (1, 2, 2)),
    ],
)
def test_parameters_are_reset_as_pytorchs(name: str, sizes: Any) -> None:
    for lib in (minitorch, torch):
        layer = getattr(lib.nn, name)(*sizes)
        first = {key: value.clone() for key, value in layer.state_dict().items()}
        for value in layer.state_dict().values():
            value.fill_(9)
        layer.reset_parameters()
        for key, value in layer.state_dict().items():
            assert value.max().item() <= 1.0
            if first[key].min() == first[key].max():  # a constant
                assert value.tolist() == first[key].tolist()
    norm = nn.BatchNorm1d(3)
    norm(minitorch.ones(2, 3))
    norm.reset_running_stats()
    assert norm.num_batches_tracked.item() == 0
    assert norm.running_mean.tolist() == [0.0] * 3
