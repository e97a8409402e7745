"""What a compiled function keeps, changes or is given: as if uncompiled, or refused."""

import copy
import itertools
import os
import pickle
import random
import sys
import weakref
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn
from minitorch.errors import GraphError
from minitorch.tensor.tensor import Tensor
from minitorch.tracing import jit

MANY = 300  # more than are compared one by one
Wrap = Callable[[Any], Any]
Program = Callable[[Wrap], list[Any]]


def counting(wrap: Wrap) -> list[Any]:
    calls = 0

    def f(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return x * calls

    fast = wrap(f)
    return [fast(mt.ones(2)) for _ in range(4)]


def counting_in_a_class(wrap: Wrap) -> list[Any]:
    class Count:
        calls = 0

    def f(x: Tensor) -> Tensor:
        Count.calls += 1
        return x * Count.calls

    fast = wrap(f)
    return [fast(mt.ones(2)) for _ in range(4)]


def counting_in_a_long_dict(wrap: Wrap) -> list[Any]:
    counts: dict[object, float] = dict.fromkeys(range(MANY), 0.0)

    def f(x: Tensor) -> Tensor:
        counts["calls"] = counts.get("calls", 0) + 1
        return x * counts["calls"]

    fast = wrap(f)
    return [fast(mt.ones(2)) for _ in range(4)]


class Decaying(nn.Module):
    rate = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.share, self.first = 1.0, True

    def forward(self, x: Tensor) -> Tensor:
        if self.first:
            self.first = False
            return x * 10
        self.share *= 0.5
        return x * self.share * self.rate


def decaying(wrap: Wrap) -> list[Any]:
    fast = wrap(Decaying())
    return [fast(mt.ones(1)) for _ in range(5)]


def lengths_of_a_list(wrap: Wrap) -> list[Any]:
    calls: list[int] = []

    def f(x: Tensor) -> Tensor:
        calls.append(1)
        return x * len(calls)

    fast = wrap(f)
    return [fast(mt.ones(2)) for _ in range(4)]


def signs_of_zero(wrap: Wrap) -> list[Any]:
    divisor = [0.0]
    given, outside = wrap(lambda x, by: x / by), wrap(lambda x: x / divisor[0])
    results = [given(mt.ones(1), 0.0), given(mt.ones(1), -0.0), outside(mt.ones(1))]
    divisor[0] = -0.0
    return [*results, outside(mt.ones(1))]


def dtypes_of_floats(wrap: Wrap) -> list[Any]:
    fast = wrap(lambda x: (x * mt.ones(1)).element_size() * mt.tensor([0.1]))
    results = [fast(mt.ones(1))]
    mt.set_default_dtype(mt.float64)
    try:
        return [*results, fast(mt.ones(1))]
    finally:
        mt.set_default_dtype(mt.float32)


def shares_of_a_mask(wrap: Wrap) -> list[Any]:
    x = mt.tensor([1.0, -1.0, 2.0], requires_grad=True)
    fast = wrap(lambda x: (x[x > 0].softmax(0), x[x > 0].log_softmax(0)))
    shares, logarithms = fast(x)
    (shares * logarithms).sum().backward()
    return [shares, logarithms, x.grad, *fast(mt.ones(3))]


def numbers_of_tensors_outside(wrap: Wrap) -> list[Any]:
    count, scale = mt.tensor([2]), mt.tensor(2.0, requires_grad=True)
    cut, scaled = wrap(lambda x: x[: int(count)]), wrap(lambda x: x * scale.item())
    listed = wrap(lambda x: x * sum(count.tolist()) * float(count.numpy()[0]))
    fast = (cut, scaled, listed)
    results = [f(mt.ones(5)) for f in fast]
    count.fill_(3)
    with mt.no_grad():
        scale.fill_(5)
    return [*results, *(f(mt.ones(5)) for f in fast)]


def an_array_that_counts(wrap: Wrap) -> list[Any]:
    count, scratch = np.zeros(1), np.zeros(1)

    def f(x: Tensor) -> Tensor:
        count[0] += 1
        return x * float(count[0])

    def g(x: Tensor) -> Tensor:
        scratch[:] = 3
        return x * float(scratch[0])

    fast, other = wrap(f), wrap(g)
    return [*(fast(mt.ones(1)) for _ in range(4)), *(other(mt.ones(1)) for _ in range(4))]


def another_forward(wrap: Wrap) -> list[Any]:
    module = nn.Sequential(nn.Identity())
    fast = wrap(module)
    results = [fast(mt.ones(1))]
    module[0].forward = lambda x: x * 7
    return [*results, fast(mt.ones(1))]


def modes_set_inside(wrap: Wrap) -> list[Any]:
    norm = nn.BatchNorm1d(1)
    train, evaluate = wrap(lambda x: norm.train()(x)), wrap(lambda x: norm.eval()(x))
    results, x = [], mt.tensor([[1.0], [3.0]])
    for _ in range(3):
        results += [train(x), norm(x), evaluate(x), norm(x)]
    return [*results, norm.running_mean]


SETTINGS = ModuleType("settings")
SETTINGS.__file__ = "settings.py"


def names_of_a_file(wrap: Wrap) -> list[Any]:
    exec("K = 2.0\nL = [1.0]\ndef scale(x): return x * K", vars(SETTINGS))
    named, called = (
        wrap(lambda x: x * SETTINGS.K * SETTINGS.L[0]),
        wrap(lambda x: SETTINGS.scale(x)),
    )
    results = [named(mt.ones(1)), called(mt.ones(1))]
    SETTINGS.K, SETTINGS.L[0] = 3.0, 7.0
    return [*results, named(mt.ones(1)), called(mt.ones(1))]


class Special:
    def __init__(self) -> None:
        self.rate = 2.0

    def __getitem__(self, key: str) -> float:
        return self.rate

    def __contains__(self, rate: float) -> bool:
        return rate == self.rate

    def __len__(self) -> int:
        return int(self.rate)


@dataclass(slots=True)
class Slotted:
    rate: float = 2.0


def objects_by_signs_and_slots(wrap: Wrap) -> list[Any]:
    special, slotted, empty = Special(), Slotted(), SimpleNamespace()
    functions = [
        wrap(lambda x: x * special["rate"]),
        wrap(lambda x: x if 2.0 in special else x * 3),
        wrap(lambda x: x * len(special)),
        wrap(lambda x: x * slotted.rate),
        wrap(lambda x: x * empty.rate if hasattr(empty, "rate") else x),
    ]
    results = [function(mt.ones(1)) for function in functions]
    special.rate = slotted.rate = empty.rate = 5.0
    return results + [function(mt.ones(1)) for function in functions]


def rates_of_an_optimizer(wrap: Wrap) -> list[Any]:
    optimizer = mt.optim.SGD([mt.ones(1, requires_grad=True)], lr=1.0)
    schedule = mt.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    by_group = wrap(lambda x: x * optimizer.param_groups[0]["lr"])
    by_schedule = wrap(lambda x: x * schedule.get_last_lr()[0])
    results = []
    for _ in range(3):
        results += [by_group(mt.ones(1)), by_schedule(mt.ones(1))]
        schedule.step()
    return results


class Scaling(nn.Module):
    unit = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.factor, self.norm = 2.0, nn.BatchNorm1d(1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor * self.unit


def class_attributes(wrap: Wrap) -> list[Any]:
    class Settings:
        scale = 2.0

    class Own(Scaling):
        unit = 3.0

    fast, other = wrap(lambda x: x * Settings.scale), wrap(Own())
    results = [fast(mt.ones(1)), other(mt.ones(1))]
    Settings.scale, Own.unit = 5.0, 7.0
    return [*results, fast(mt.ones(1)), other(mt.ones(1))]


def modules_given(wrap: Wrap) -> list[Any]:
    fast = wrap(lambda module, x: module(x))
    modules = [Scaling(), Scaling()]
    results = [fast(module, mt.ones(1)) for module in modules * 2]
    modules[1].factor = 9.0
    results += [fast(module, mt.ones(1)) for module in modules]
    many = [Scaling() for _ in range(10)]
    results += [fast(module, mt.ones(1)) for module in many]
    many[0].factor = 4.0
    return [*results, fast(many[0], mt.ones(1))]


def modules_in_a_list(wrap: Wrap) -> list[Any]:
    fast = wrap(lambda modules, x: sum(module(x) for module in modules))
    modules = [Scaling(), Scaling()]
    results = [fast(modules, mt.ones(1))]
    modules[0].factor = 9.0
    return [*results, fast(modules, mt.ones(1))]


def statistics_of_a_module_given(wrap: Wrap) -> list[Any]:
    fast, norm = wrap(lambda module, x: module(x)), nn.BatchNorm1d(2)
    results = [fast(norm, mt.tensor([[1.0, 2.0], [3.0, 8.0]]) * n) for n in range(1, 4)]
    return [*results, norm.running_mean]


def functions_given(wrap: Wrap) -> list[Any]:
    weights = [2.0]
    fast = wrap(lambda x, loss: loss(x))

    def loss(y: Tensor) -> Tensor:
        return y.sum() * weights[0]

    results = [fast(mt.ones(2), loss)]
    weights[0] = 3.0
    return [*results, fast(mt.ones(2), loss)]


def decorated_methods(wrap: Wrap) -> list[Any]:
    class Model(Scaling):
        @wrap
        def predict(self, x: Tensor) -> Tensor:
            return self.norm(x) * self.factor

    first, second = Model(), Model()
    x = mt.tensor([[1.0], [2.0]])
    results = [first.predict(x), second.predict(x)]
    first.factor = 7.0
    second.eval()
    return [*results, first.predict(x), second.predict(x), first.norm.running_mean]


def remembering_for_others(wrap: Wrap) -> list[Any]:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.last = x * 2
            return x * 3

    fast = wrap(Model())
    return [fast(mt.ones(n)) for n in (1, 2, 1)]


def copies(wrap: Wrap) -> list[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = mt.ones(1)
            self.fast = wrap(self.slow)

        def slow(self, x: Tensor) -> Tensor:
            return x * self.scale

    model = Model()
    model.fast(mt.ones(1))
    other = copy.deepcopy(model)
    other.scale.fill_(5)
    return [model.fast(mt.ones(1)), other.fast(mt.ones(1))]


@pytest.mark.parametrize(
    "program",
    [
        counting, counting_in_a_class, counting_in_a_long_dict, decaying, class_attributes,
        modules_given,
        modules_in_a_list, statistics_of_a_module_given, functions_given, decorated_methods,
        remembering_for_others, copies, lengths_of_a_list, signs_of_zero, dtypes_of_floats,
        shares_of_a_mask, numbers_of_tensors_outside, an_array_that_counts, another_forward,
        modes_set_inside, names_of_a_file, objects_by_signs_and_slots, rates_of_an_optimizer,
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:jit")
def test_a_compiled_function_gives_what_it_gives_uncompiled(program: Program) -> None:
    expected = [tensor.tolist() for tensor in program(lambda function: function)]
    assert [tensor.tolist() for tensor in program(jit)] == expected


SCALE = ContextVar("scale", default=1.0)
Reading = tuple[Callable[[Tensor], Tensor], Callable[[float], Any]]


def of_a(kind: Callable[[list[int]], Any], count: int = 3) -> Callable[[], Reading]:
    def program() -> Reading:
        numbers = kind([1] * count)
        return lambda x: x * numbers[-1], lambda n: numbers.__setitem__(len(numbers) - 1, int(n))

    return program


def of_a_mapping(kind: Callable[[dict[str, float]], Any]) -> Callable[[], Reading]:
    def program() -> Reading:
        values = {"scale": 1.0}
        mapping = kind(values)
        return lambda x: x * mapping["scale"], lambda n: (
            values if kind is MappingProxyType else mapping
        ).__setitem__("scale", n)

    return program


def of_the_environment(read: Callable[[], str | None]) -> Callable[[], Reading]:
    def program() -> Reading:
        os.environ["MINITORCH_SCALE"] = "1"
        return lambda x: x * float(read() or 1), lambda n: os.environ.__setitem__(
            "MINITORCH_SCALE", str(n)
        )

    return program


def of_a_long_dict() -> Reading:
    numbers = dict.fromkeys(map(str, range(MANY)), 1.0)
    return lambda x: x * numbers["7"], partial(numbers.__setitem__, "7")


def of_lists_in_a_long_list() -> Reading:
    rows = [[1.0] for _ in range(MANY)]
    return lambda x: x * rows[7][0], partial(rows[7].__setitem__, 0)


def of_how_many() -> Reading:
    numbers, names = [1.0] * MANY, {*range(MANY)}
    return (
        lambda x: x * len(numbers) * (2 if -1 in names else 1),
        lambda n: (numbers.append(n), names.add(-1)),
    )


def of_a_context() -> Reading:
    return lambda x: x * SCALE.get(), SCALE.set


def of_defaults_and_functions() -> Reading:
    def f(x: Tensor, *, scale: list[float] = [1.0]) -> Tensor:  # noqa: B006
        return x * scale[0] * cast(Any, f).scale * cast(Any, other).scale

    def other() -> None: ...

    def change(n: float) -> None:
        f.__kwdefaults__["scale"][0] = n
        cast(Any, f).scale, cast(Any, other).scale = n + 1, n + 2

    change(1)
    return f, change


class Given:
    def __get__(self, of: Any, kind: type) -> float:
        return float(of.number)


def of_methods() -> Reading:
    class Scale:
        def by(self) -> float:
            return 1.0

        def own(self) -> float:
            return 1.0

        @cached_property
        def once(self) -> float:
            return float(scale.number)

        given = Given()

    kind: Any = Scale
    scale = kind()

    def change(n: float) -> None:
        kind.by, scale.own, scale.number = lambda _: n, lambda: n + 1, n + 2
        vars(scale).pop("once", None)

    change(1)
    return lambda x: x * scale.by() * scale.own() * scale.once * scale.given, change


def of_a_name_in_quotes() -> Reading:
    scale: Any = SimpleNamespace(_name=1.0)
    return lambda x: x * getattr(scale, "_name"), lambda n: setattr(scale, "_name", n)  # noqa: B009


def of_what_lives_elsewhere() -> Reading:
    class Held:
        scale = 1.0

    module: Any = ModuleType("settings")
    module.scale, held = 1.0, Held()
    reference = weakref.ref(held)

    def change(n: float) -> None:
        module.scale, held.scale = n, n + 1

    def f(x: Tensor) -> Tensor:
        return x * module.scale * cast(Held, reference()).scale

    return f, change


def of_whether_a_gradient_is_wanted() -> Reading:
    layer = nn.Linear(1, 1)

    def f(x: Tensor) -> Tensor:
        return x * (2 if all(p.requires_grad for p in layer.parameters()) else 3)

    return f, lambda n: layer.requires_grad_(n > 2)


def of_an_import() -> Reading:
    module: Any = ModuleType("settings_of_a_test")
    module.scale = 1.0
    sys.modules["settings_of_a_test"] = module

    def f(x: Tensor) -> Tensor:
        import settings_of_a_test  # type: ignore[import-not-found]

        return cast(Tensor, x * settings_of_a_test.scale)

    return f, lambda n: setattr(module, "scale", n)


@pytest.mark.parametrize(
    "program",
    [
        of_whether_a_gradient_is_wanted, of_an_import,
        of_a(bytearray), of_a(partial(array, "d")), of_a(lambda n: memoryview(bytearray(n))),
        of_a(UserList), of_a(list, MANY), of_a_long_dict, of_lists_in_a_long_list, of_how_many,
        of_a_mapping(UserDict), of_a_mapping(ChainMap), of_a_mapping(MappingProxyType),
        of_the_environment(lambda: os.environ["MINITORCH_SCALE"]), of_a_context,
        of_the_environment(lambda: os.getenv("MINITORCH_SCALE")), of_defaults_and_functions,
        of_the_environment(lambda: os.environ.get("MINITORCH_SCALE")), of_methods,
        of_what_lives_elsewhere, of_a_name_in_quotes,
    ],
)  # fmt: skip
def test_what_is_changed_outside_is_read_anew(program: Callable[[], Reading]) -> None:
    f, change = program()
    fast, x = jit(f), mt.ones(2)
    for n in (2.0, 3.0, 3.0, 5.0):
        assert fast(x).tolist() == f(x).tolist()
        change(n)
    assert fast(x).tolist() == f(x).tolist() != x.tolist()


def test_what_a_hook_of_a_parameter_reads_is_read_anew() -> None:
    def trained(wrap: Wrap) -> list[Any]:
        weight, scale = nn.Parameter(mt.ones(2)), [1.0]
        optimizer = mt.optim.SGD([weight], lr=0.5)
        weight.register_hook(lambda grad: grad * scale[0])

        def step() -> None:
            optimizer.zero_grad()
            (weight * weight).sum().backward()
            optimizer.step()

        fast = wrap(step)
        for n in (0.5, 0.5, 0.5, 0.75, 0.25):
            scale[0] = n
            fast()
        return cast(list[Any], weight.tolist())

    assert trained(jit) == trained(lambda function: function)


def test_parameters_that_an_optimizer_gets_later_are_trained() -> None:
    def trained(wrap: Wrap) -> list[Any]:
        first, second = nn.Parameter(mt.ones(2)), nn.Parameter(mt.ones(2))
        optimizer = mt.optim.SGD([first], lr=0.5)

        def step() -> None:
            optimizer.zero_grad()
            (first * second).sum().backward()
            optimizer.step()

        fast = wrap(step)
        for _ in range(3):
            fast()
        optimizer.add_param_group({"params": [second], "lr": 0.25})
        fast()
        return [first.tolist(), second.tolist()]

    assert trained(jit) == trained(lambda function: function)


def test_a_rate_that_is_read_where_a_scheduler_steps_is_refused() -> None:
    weight = nn.Parameter(mt.ones(2))
    optimizer = mt.optim.SGD([weight], lr=0.5)
    scheduler = mt.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step() -> float:
        weight.sum().backward()
        optimizer.step()
        scheduler.step()
        return scheduler.get_last_lr()[0]

    with pytest.raises(GraphError, match="steps a scheduler and reads a rate"):
        jit(step)()


def test_a_number_that_matters_and_changes_at_each_call_is_named() -> None:
    with pytest.warns(UserWarning, match="changes 'share' and depends on it"):
        decaying(jit)


def test_a_compiled_module_may_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(jit(nn.Linear(2, 1))))
    assert again(mt.ones(1, 2)).shape == (1, 1)


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache: Any = None

    def forward(self, x: Tensor) -> Tensor:
        self.cache = x if self.cache is None else mt.cat([self.cache, x])
        return self.cache.sum()


class Lazy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "mask"):
            self.mask = x * 0 + 3
        return x * self.mask


def cached(x: Tensor) -> Tensor:
    if "mask" not in CACHE:
        CACHE["mask"] = x * 0 + 3
    return x * CACHE["mask"]


CACHE: dict[str, Tensor] = {}


@pytest.mark.parametrize("kind", [list, deque])
def test_a_list_that_keeps_traced_values_is_refused_and_left_as_it_was(kind: Any) -> None:
    kept = kind([mt.ones(1)])

    def f(x: Tensor) -> Tensor:
        kept.append((0, x * 2))
        return x * len(kept)

    with pytest.raises(GraphError, match="keeps a traced value in a list"):
        jit(f)(mt.ones(1))
    assert len(kept) == 1
    compiled = mt.compile(f)
    assert [compiled(mt.ones(1)).item() for _ in range(2)] == [2.0, 3.0]
    assert len(kept) == 3


@pytest.mark.parametrize("kept", [[0.0] * MANY, dict.fromkeys(range(MANY), 0.0)])
def test_a_long_list_or_dict_that_keeps_a_traced_value_is_left_as_it_was(kept: Any) -> None:
    before = copy.copy(kept)

    def f(x: Tensor) -> Tensor:
        kept[7] = x * 2
        return x * kept[7]

    with pytest.raises(GraphError, match="keeps a traced value in"):
        jit(f)(mt.ones(1))
    assert kept == before


@pytest.mark.parametrize(
    ("make", "name"), [(Remembering, "cache"), (Lazy, "mask"), (lambda: cached, "mask")]
)
def test_a_traced_value_that_is_kept_and_read_is_refused_and_not_left_there(
    make: Callable[[], Any], name: str
) -> None:
    function = make()
    for _ in range(2):
        with pytest.raises(GraphError, match=f"keeps a traced value in '{name}', which it reads"):
            jit(function)(mt.ones(2))
    compiled = mt.compile(function)  # goes on uncompiled
    assert [compiled(mt.ones(2)).tolist() for _ in range(2)] == [
        result.tolist() for result in map(make(), [mt.ones(2)] * 2)
    ]
    CACHE.clear()


def test_lists_and_dicts_among_the_arguments_may_not_be_changed() -> None:
    def grow(items: list[Tensor]) -> Tensor:
        items.append(items[0] * 2)
        return items[0]

    def put(items: dict[str, Tensor]) -> Tensor:
        items["x"] = items["x"] * 2
        return items["x"]

    for function, given in ((grow, [mt.ones(1)]), (put, {"x": mt.ones(1)})):
        with pytest.raises(GraphError, match="changes a list, dict or dataclass that it was given"):
            jit(function)(given)


STREAM = np.random.default_rng(0)
OTHERS = random.Random(0), np.random.RandomState(0)


@pytest.mark.parametrize(
    "draw",
    [
        random.random, np.random.random, lambda: float(STREAM.random()),
        lambda: mt.manual_seed(0).initial_seed(), lambda: OTHERS[0].random(), OTHERS[1].rand,
    ],
    ids=range(6),
)  # fmt: skip
def test_numbers_drawn_by_others_are_refused_and_not_used_up(draw: Callable[[], float]) -> None:
    states = random.getstate(), repr(np.random.get_state()), STREAM.bit_generator.state
    mt.manual_seed(0)
    with pytest.raises(GraphError, match="random numbers were drawn, or a seed was set, while"):
        jit(lambda x: x * draw())(mt.ones(1))
    assert (random.getstate(), repr(np.random.get_state()), STREAM.bit_generator.state) == states


def test_memory_that_is_shared_with_what_is_updated_is_refused() -> None:
    def update(a: Tensor, b: Tensor) -> Tensor:
        a.add_(1)
        return b * 2

    compiled, x = jit(update), mt.ones(4)
    assert compiled(mt.ones(3), x[1:]).tolist() == [2, 2, 2]
    for pair in ((x[:3], x[1:]), (x, x)):
        with pytest.raises(GraphError, match="shares memory with"):
            compiled(*pair)
    assert x.tolist() == [1, 1, 1, 1]
    whole = mt.ones(4)
    part = whole[:2]

    def read_whole(x: Tensor) -> Tensor:
        part.add_(x)
        return whole.sum()

    with pytest.raises(GraphError, match="shares memory with"):
        jit(read_whole)(mt.ones(2))


@pytest.mark.parametrize(
    "function",
    [
        mt.zeros_like, mt.rand_like, mt.randn_like, lambda y: y.roll(1), lambda y: y.diag(),
        lambda y: mt.einsum("i,i->", y, y), lambda y: y.split(1),
    ],
)  # fmt: skip
def test_a_size_that_only_a_run_can_tell_is_named_wherever_it_is_needed(
    function: Callable[[Tensor], Any],
) -> None:
    with pytest.raises(GraphError, match=r"jit: .*test_jit_state.py:\d+ .*a size .*Branch on the"):
        jit(lambda x: function(x[x > 0]))(mt.ones(3))
    with pytest.raises(TypeError, match="NoneType"):  # the caller's own
        jit(lambda x: [x[x > 0]] + None)(mt.ones(3))


def test_an_axis_that_may_have_size_1_is_not_kept_unseen() -> None:
    with pytest.raises(GraphError, match=r"squeeze: got \(None, 1\), expected known sizes"):
        jit(lambda x: x[x > 0].unsqueeze(1).squeeze())(mt.ones(1))
    assert jit(lambda x: x[x > 0].unsqueeze(1).squeeze(1))(mt.ones(1)).shape == (1,)


def test_what_may_be_another_each_time_unseen_is_refused() -> None:
    numbers, count = iter([1.0, 2.0]), itertools.count(1)
    for function, name in (
        (lambda x: x * next(numbers), "'numbers', an iterator"),
        (lambda x: x * next(count), "'count', an iterator"),
        (lambda x: x * 2 if mt.is_grad_enabled() else x, "is_grad_enabled"),
        (lambda x: x * mt.get_num_threads(), "get_num_threads"),
        (lambda x: x * len(globals()), "globals"),
    ):
        with pytest.raises(GraphError, match=f"reads {name}.* Pass what it gives as an argument"):
            jit(function)(mt.ones(1))
    assert [mt.compile(lambda x: x * next(numbers))(mt.ones(1)).item() for _ in range(2)] == [1, 2]


def test_a_number_of_what_was_updated_before_is_refused() -> None:
    total = mt.zeros(1)

    def f(x: Tensor) -> Tensor:
        total.add_(x)
        return x * total.item()

    with pytest.raises(GraphError, match=r"item\(\) asks for its number"):
        jit(f)(mt.ones(1))
    assert total.item() == 0


def test_hooks_on_traced_values_are_refused() -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        y.register_hook(lambda grad: grad * 10)
        return y.sum()

    with pytest.raises(GraphError, match=r"it gets a hook"):
        jit(f)(mt.ones(2, requires_grad=True))


def test_an_unknown_size_is_refused_where_no_line_is_the_programs_own() -> None:
    class Positive(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[x > 0]

    model = nn.Sequential(Positive(), nn.Unflatten(0, (1, -1)))
    with pytest.raises(GraphError, match="jit: a size that only a run can tell"):
        jit(model)(mt.tensor([1.0, -1.0, 2.0]))


def test_a_text_with_a_traced_number_is_refused_and_has_it_where_nothing_is_refused() -> None:
    def f(x: Tensor) -> tuple[Tensor, str]:
        loss = (x * x).sum()
        return loss, f"{loss:.2f}"

    with pytest.raises(GraphError, match=r"a text has its number"):
        jit(f)(mt.ones(3))
    assert [mt.compile(f)(mt.full((3,), x))[1] for x in (1.0, 2.0)] == ["3.00", "12.00"]


@dataclass
class Batch:
    x: Tensor
    y: Tensor
    scale: float = 1.0


@dataclass(frozen=True)
class Outcome:
    loss: Tensor
    parts: list[Tensor]


def test_dataclasses_are_taken_and_given_as_lists_are() -> None:
    weight = mt.ones(3, requires_grad=True)

    def step(batch: Batch) -> Outcome:
        y = batch.x * weight * batch.scale
        return Outcome((y - batch.y).square().sum(), [y])

    compiled = jit(step)
    for batch in (Batch(mt.ones(3), mt.zeros(3)), Batch(mt.ones(3) * 2, mt.ones(3))):
        got, expected = compiled(batch), step(batch)
        assert isinstance(got, Outcome) and got.loss.item() == expected.loss.item()
        assert got.parts[0].tolist() == expected.parts[0].tolist()
    assert len(compiled.traces) == 1
    assert compiled(Batch(mt.ones(3), mt.zeros(3), 2.0)).loss.item() == 12

    def renamed(batch: Batch) -> Tensor:
        batch.scale = 3.0
        return batch.x * batch.scale

    with pytest.raises(GraphError, match="changes a list, dict or dataclass"):
        jit(renamed)(batch)


def test_results_that_no_run_could_fill_are_refused() -> None:
    class Kept:
        def __init__(self, y: object) -> None:
            self.y = y

    def yields(x: Tensor) -> Any:
        yield x * 2

    async def waits(x: Tensor) -> Tensor:
        return x * 2

    functions: dict[str, Callable[[Tensor], Any]] = {
        "generator": yields,
        "coroutine": waits,
        "list_iterator": lambda x: iter([x * 2]),
        "map": lambda x: map(abs, [x * 2]),
        "function": lambda x: partial(lambda y: lambda: y, x * 2)(),
        "partial": lambda x: partial(mt.add, x * 2),
        "Kept": lambda x: {"out": Kept(x * 2)},
    }
    with pytest.warns(RuntimeWarning, match="never awaited"):
        for kind, function in functions.items():
            with pytest.raises(GraphError, match=f"no run would fill: got {kind}"):
                jit(function)(mt.ones(2))
    assert next(mt.compile(yields)(mt.ones(1))).item() == 2
    net = nn.BatchNorm1d(2)
    assert jit(lambda x: (net(x), net, Kept(0.1)))(mt.ones(3, 2))[1] is net


@pytest.mark.parametrize("inside", [False, True])
def test_numbers_of_a_copied_or_detached_tensor_are_read_anew(inside: bool) -> None:
    reads: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda w: w.detach().clone(),
        lambda w: w.detach().detach() * 1,
        lambda w: w.data * 1,
        lambda w: w.detach()[0].clone(),
        lambda w: mt.tensor(w),
        lambda w: copy.deepcopy(w) * 1,
        lambda w: copy.copy(w) * 1,
    )
    for read in reads:
        w = mt.ones(2, 2)

        def f(x: Tensor, read: Any = read, w: Tensor = w) -> Tensor:
            y = x * read(w)
            if inside:
                w.mul_(2)
            return y.sum() / y.numel()

        compiled, seen = jit(f), []
        for _ in range(3):
            seen.append(compiled(mt.ones(1)).item())
            if not inside:
                w.mul_(2)
        assert seen == [1, 2, 4]


def test_what_only_annotations_name_is_not_looked_at() -> None:
    limits, traced = [1.0], []

    class Model:
        scale = 2.0

        def __annotate_func__(self) -> Any:  # as Python 3.14 makes it of annotations
            return {"scale": limits[0]}

        def __call__(self, x: Tensor) -> Tensor:
            traced.append(x)
            return x * self.scale

    compiled = jit(Model())
    for _ in range(3):
        assert compiled(mt.ones(1)).item() == 2
        limits[0] += 1
    assert len(traced) == 1
