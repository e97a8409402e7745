"""Reverse mode as a whole: order, depth, memory, retained graphs, hooks, higher derivatives."""

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch.errors import GradientError, GraphFreed, ModifiedInPlace, UnusedInput


def leaf(*numbers: float) -> minitorch.Tensor:
    return minitorch.tensor(list(numbers), dtype=minitorch.float64, requires_grad=True)


def test_a_chain_of_100_000_operators_runs_backward_and_is_released() -> None:
    x = minitorch.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y * 1.0
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 1.0
    del y


def test_a_value_used_many_times_gets_the_sum_of_its_gradients() -> None:
    x = leaf(3.0)
    y = x * x + x * x * x + x
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.item() == 2 * 3 + 3 * 9 + 1


def test_a_ladder_with_exponentially_many_paths_takes_linear_time() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(60):
        y = y + y
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.item() == 2.0**60


def test_a_dropped_graph_is_freed_without_the_cycle_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0, 2.0)
        middle = (x * 2).exp()
        seen = weakref.ref(middle)
        loss = (middle * x).sum()
        loss.backward()
        del middle, loss
        assert seen() is None
    finally:
        gc.enable()


def test_ten_thousand_steps_do_not_grow_memory() -> None:
    w = leaf(0.5, -0.5)
    x = minitorch.tensor([1.0, 2.0], dtype=minitorch.float64)

    def step() -> None:
        w.grad = None
        ((w * x).tanh() ** 2).sum().backward()
        with minitorch.no_grad():
            w.add_(w.grad, alpha=-0.01)

    for _ in range(5_000):  # the interpreter's own tables are full by then
        step()
    before = sys.getallocatedblocks()
    for _ in range(10_000):
        step()
    assert sys.getallocatedblocks() - before < 1_000  # other threads may have some


class TestRetainedGraphs:
    def test_a_second_backward_through_a_used_graph_is_an_error(self) -> None:
        y = (leaf(2.0) ** 2).sum()
        y.backward()
        with pytest.raises(GraphFreed, match="retain_graph=True"):
            y.backward()

    def test_a_second_backward_through_a_retained_graph_adds_the_same_again(self) -> None:
        x = leaf(2.0)
        y = (x * x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad is not None
        assert x.grad.item() == 24.0

    def test_create_graph_retains(self) -> None:
        x = leaf(2.0)
        y = (x * x).sum()
        y.backward(create_graph=True)
        x.grad = None
        y.backward()
        assert x.grad is not None
        assert x.grad.item() == 4.0

    def test_an_operator_that_saves_nothing_can_go_back_twice_as_in_torch(self) -> None:
        x = leaf(2.0)
        y = (x + 1).sum()
        y.backward()
        y.backward()
        assert x.grad is not None
        assert x.grad.item() == 2.0


class TestGrad:
    def test_grads_come_in_the_order_of_the_inputs(self) -> None:
        a, b = leaf(2.0), leaf(3.0)
        by_b, by_a = minitorch.grad((a * a * b).sum(), [b, a])
        assert (by_b.item(), by_a.item()) == (4.0, 12.0)
        assert a.grad is None

    def test_an_unused_input_is_an_error_that_says_which(self) -> None:
        a, b = leaf(2.0), leaf(3.0)
        with pytest.raises(UnusedInput, match="input 1"):
            minitorch.grad(a.sum(), [a, b])

    def test_an_unused_input_gives_none_when_allowed(self) -> None:
        a, b = leaf(2.0), leaf(3.0)
        assert minitorch.grad(a.sum(), [a, b], allow_unused=True)[1] is None

    def test_the_gradient_of_a_result_in_the_middle_is_found(self) -> None:
        x = leaf(2.0)
        middle = x * 3
        (by_middle,) = minitorch.grad((middle * middle).sum(), middle)
        assert by_middle.item() == 12.0

    def test_only_the_path_to_the_inputs_is_walked(self) -> None:
        class NoRule(minitorch.Op):
            def compute(self, xp: Any, x: Any) -> Any:
                return x * 1

        a, b = leaf(2.0), leaf(3.0)
        (by_a,) = minitorch.grad((a * NoRule()(b)).sum(), a)
        assert by_a.item() == 3.0

    def test_an_output_of_several_elements_needs_weights(self) -> None:
        x = leaf(1.0, 2.0)
        with pytest.raises(GradientError, match="one element"):
            (x * 2).backward()
        (by_x,) = minitorch.grad(x * x, x, minitorch.tensor([1.0, 10.0], dtype=minitorch.float64))
        assert by_x.tolist() == [2.0, 40.0]

    def test_something_that_requires_no_gradient_cannot_go_back(self) -> None:
        with pytest.raises(GradientError, match="requires_grad=True"):
            minitorch.ones(1).sum().backward()


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_two_leaves_never_share_memory(create_graph: bool) -> None:
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (a + b).backward(minitorch.ones(2, dtype=minitorch.float64), create_graph=create_graph)
    assert a.grad is not None
    assert b.grad is not None
    assert not np.shares_memory(a.grad.array, b.grad.array)


def test_a_gradient_is_accumulated_in_place() -> None:
    x = leaf(1.0, 2.0)
    x.grad = minitorch.zeros(2, dtype=minitorch.float64)
    bucket = x.grad.numpy()
    (x * 2).sum().backward()
    assert bucket.tolist() == [2.0, 2.0]


def test_fourth_derivatives() -> None:
    x = leaf(0.7)
    y = x.sin().sum()
    for _ in range(4):
        (y,) = minitorch.grad(y, x, create_graph=True)
        y = y.sum()
    assert y.item() == pytest.approx(np.sin(0.7), rel=1e-12)


def _mlp(lib: Any, x: Any, w: Any) -> Any:
    return (lib.tanh(x @ w) ** 3).sum(0)


def test_jacobian_and_hessian_are_torchs() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((3, 2)), rng.standard_normal((2, 4))
    ours = minitorch.jacobian(
        lambda a, b: _mlp(minitorch, a, b), (minitorch.tensor(x), minitorch.tensor(w))
    )
    theirs = torch.autograd.functional.jacobian(
        lambda a, b: _mlp(torch, a, b), (torch.tensor(x), torch.tensor(w))
    )
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-12)
    hessian = minitorch.hessian(
        lambda a: _mlp(minitorch, a, minitorch.tensor(w)).sum(), minitorch.tensor(x)
    )
    other = torch.autograd.functional.hessian(
        lambda a: _mlp(torch, a, torch.tensor(w)).sum(), torch.tensor(x)
    )
    np.testing.assert_allclose(hessian.numpy(), other.numpy(), rtol=1e-10, atol=1e-14)


class TestInPlace:
    def test_overwriting_a_value_that_backward_needs_is_an_error_naming_the_operator(self) -> None:
        a, b = leaf(1.0), leaf(2.0)
        y = (a * b).sum()
        with minitorch.no_grad():
            b += 1
        with pytest.raises(ModifiedInPlace, match="mul"):
            y.backward()

    def test_overwriting_a_view_counts_too(self) -> None:
        a = leaf(1.0, 2.0)
        y = (a * a).sum()
        with minitorch.no_grad():
            a[0:1].fill_(5.0)
        with pytest.raises(ModifiedInPlace):
            y.backward()

    def test_overwriting_what_backward_does_not_read_is_fine(self) -> None:
        a, b = leaf(1.0), leaf(2.0)
        y = (a + b).sum()
        with minitorch.no_grad():
            b += 1
        y.backward()
        assert a.grad is not None

    def test_overwriting_before_the_use_is_fine(self) -> None:
        a = leaf(1.0)
        with minitorch.no_grad():
            a *= 3
        (a * a).sum().backward()
        assert a.grad is not None
        assert a.grad.item() == 6.0

    def test_a_leaf_cannot_be_overwritten_while_recording(self) -> None:
        a = leaf(1.0)
        for update in (lambda: a.add_(1), lambda: a.__iadd__(1), lambda: a.__setitem__(0, 1.0)):
            with pytest.raises(GradientError, match="no_grad"):
                update()


class TestHooks:
    def test_a_hook_may_replace_the_gradient(self) -> None:
        x = leaf(1.0)
        y = x * 2
        handle = y.register_hook(lambda grad: grad * 10)
        y.sum().backward(retain_graph=True)
        assert x.grad is not None
        assert x.grad.item() == 20.0
        handle.remove()
        x.grad = None
        y.sum().backward()
        assert x.grad.item() == 2.0

    def test_a_post_accumulate_hook_gets_the_parameter_when_its_gradient_is_complete(self) -> None:
        x = leaf(1.0)
        seen: list[float] = []
        x.register_post_accumulate_grad_hook(lambda param: seen.append(param.grad.item()))
        (x * 2 + x * 3).sum().backward()
        assert seen == [5.0]

    def test_a_leaf_near_the_loss_is_ready_before_the_sweep_ends(self) -> None:
        first, last = leaf(1.0), leaf(2.0)
        order: list[str] = []
        first.register_post_accumulate_grad_hook(lambda _: order.append("first"))
        last.register_post_accumulate_grad_hook(lambda _: order.append("last"))
        y = first
        for _ in range(5):
            y = y * 2
        (y * last).sum().backward()
        assert order == ["last", "first"]

    def test_retain_grad_keeps_the_gradient_of_a_result(self) -> None:
        x = leaf(1.0)
        y = x * 2
        y.retain_grad()
        (y * y).sum().backward()
        assert y.grad is not None
        assert y.grad.item() == 4.0

    def test_the_gradient_of_a_result_is_not_kept_and_that_is_said(self) -> None:
        y = leaf(1.0) * 2
        y.sum().backward()
        with pytest.warns(UserWarning, match="retain_grad"):
            assert y.grad is None


class TestRecording:
    def test_no_grad_records_nothing_also_as_a_decorator(self) -> None:
        x = leaf(1.0)

        @minitorch.no_grad()
        def double() -> Any:
            return x * 2

        assert not double().requires_grad
        assert (x * 2).requires_grad

    def test_set_grad_enabled_as_a_decorator_changes_its_function_alone(self) -> None:
        x = leaf(1.0)

        @minitorch.set_grad_enabled(False)
        def double() -> Any:
            return x * 2

        assert (x * 2).requires_grad
        assert not double().requires_grad
        assert (x * 2).requires_grad

    def test_no_grad_ends_when_code_raises(self) -> None:
        with pytest.raises(ZeroDivisionError), minitorch.no_grad():
            raise ZeroDivisionError
        assert minitorch.is_grad_enabled()

    def test_enable_grad_and_set_grad_enabled_nest(self) -> None:
        with minitorch.no_grad():
            with minitorch.enable_grad():
                assert minitorch.is_grad_enabled()
            with minitorch.set_grad_enabled(True):
                assert minitorch.is_grad_enabled()
            assert not minitorch.is_grad_enabled()
        assert minitorch.is_grad_enabled()

    def test_each_thread_records_for_itself(self) -> None:
        seen: list[bool] = []
        with minitorch.no_grad():
            thread = threading.Thread(target=lambda: seen.append(minitorch.is_grad_enabled()))
            thread.start()
            thread.join()
        assert seen == [True]

    def test_detach_cuts_the_graph_and_shares_memory(self) -> None:
        x = leaf(1.0)
        y = x.detach()
        assert not y.requires_grad
        assert np.shares_memory(x.array, y.array)


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
@pytest.mark.parametrize("step", [1, 2])
def test_a_large_relu_is_torchs_in_any_order_in_memory(axes: tuple[int, ...], step: int) -> None:
    drawn = np.random.default_rng(0).standard_normal((40, 50, 60)).astype(np.float32)
    drawn[0, 0, :3], drawn[0, 1, :3] = (np.nan, np.inf, -np.inf), (0.0, -0.0, 1.0)
    given = drawn.transpose(axes)[:, ::step]
    y = minitorch.relu(minitorch.as_tensor(given))
    assert y.array.strides == np.maximum(given, 0).strides
    np.testing.assert_array_equal(y.numpy(), torch.relu(torch.tensor(given)).numpy())
    to = np.where(given > 2, np.inf, np.nan_to_num(given, nan=7.0))
    mine, theirs = (lib.tensor(given, requires_grad=True) for lib in (minitorch, torch))
    minitorch.relu(mine).backward(minitorch.as_tensor(to))
    torch.relu(theirs).backward(torch.tensor(to))
    np.testing.assert_array_equal(mine.grad.numpy(), theirs.grad.numpy())


def test_infinite_gradients_do_not_pass_a_closed_relu_and_all_pass_one_of_nan() -> None:
    slopes = []
    for lib in (minitorch, torch):
        x = lib.tensor([-1.0, 4.0, np.nan], requires_grad=True)
        (1 / lib.relu(x[:2])).sum().backward()
        (3 * lib.relu(x[2:])).sum().backward()
        slopes.append(x.grad.tolist())
    assert slopes == [[0.0, -1 / 16, 3.0]] * 2


def test_gradients_of_parts_are_added_up_where_the_gradient_lies() -> None:
    table = minitorch.tensor(np.ones((50, 4), np.float32), requires_grad=True)
    theirs = torch.ones(50, 4, requires_grad=True)
    numbers = [[3, 3, -1], [49, 0, 3]]
    memory = None
    for _ in range(2):
        for leaf, lib in ((table, minitorch), (theirs, torch)):
            picked = leaf[lib.tensor(numbers)]
            (picked.sum() + (leaf[2:5] * leaf[4]).sum() + leaf.T[1].sum()).backward()
        assert table.grad is not None
        memory = table.grad.array if memory is None else memory
        assert table.grad.array is memory
        np.testing.assert_allclose(table.grad.numpy(), theirs.grad.numpy())


CUTS: dict[str, Any] = {
    "unbind": lambda x: x.unbind(1),
    "chunks": lambda x: x.chunk(2, -1),
    "pieces": lambda x: x.split([3, 1, 2], 2),
    "from both ends": lambda x: (x[:, -1], x[:, 1:3], x[:, 0]),
    "with a gap": lambda x: (x[:, :1], x[:, 2:]),
    "overlapping": lambda x: (x[:, :2], x[:, 1:3]),
    "overlapping by much": lambda x: (x[:, :3], x[:, 1:]),
    "twice": lambda x: (x[:, 0], x[:, 0], x[:, 1:]),
    "along two axes": lambda x: (x[:1], x[:, 1:]),
    "in steps": lambda x: (x[:, ::2], x[:, 1::2]),
    "with a new last axis": lambda x: (x[:, :, :, None],),
    "twice with a new last axis": lambda x: (x[:, :, :, None], x[:, :, :, None].exp()),
    "by indices": lambda x: (x[[0, 1, 1]], x[:, 0]),
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_gradients_of_slices_of_one_value_are_torchs(cut: Any) -> None:
    numbers = np.random.default_rng(0).standard_normal((2, 4, 6))
    grads = []
    for library in (minitorch, torch):
        x = library.tensor(numbers, requires_grad=True)
        parts = cut((x * 1).permute(0, 2, 1).transpose(1, 2))
        sum((k + 1) * (part * part).sum() for k, part in enumerate(parts)).backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-12)


def test_a_mode_that_decorates_a_generator_is_on_inside_its_steps_alone() -> None:
    outcomes = []
    for lib in (torch, minitorch):
        x: Any = lib.ones(1, requires_grad=True)

        @lib.no_grad()  # type: ignore[untyped-decorator]
        def steps(x: Any = x) -> Any:
            try:
                sent = yield (x * 2).requires_grad
                yield sent, (x * 2).requires_grad
            except ValueError:
                yield (x * 2).requires_grad
            return "end"

        generator = steps()
        seen = [next(generator), (x * 2).requires_grad, generator.send(3), (x * 2).requires_grad]
        seen += [generator.throw(ValueError()), (x * 2).requires_grad]
        with pytest.raises(StopIteration, match="end"):
            next(generator)
        steps().close()
        outcomes.append(seen)
    assert outcomes[0] == outcomes[1] == [False, True, (3, False), True, False, True]
