"""Small systems and clocks that labs take; oracles are NumPy, PyTorch, closed forms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import minitorch as mt
import minitorch.graph as graph
from lessons import deployed, run_deployed, timing
from lessons.convolution_by_hand import StepByHand, gradients_by_hand
from lessons.graphs import program_examples, program_memory, sentences, token_stacks, trees
from lessons.graphs.program_device import count_bytes, move_to_device, run_on_device
from lessons.graphs.program_orders import from_the_left, products_of_products, reordered
from lessons.graphs.programs import (
    ELEMENTWISE,
    Program,
    flops,
    fused_kernel,
    random_feeds,
    ready,
    run,
    traffic,
    tree_of,
)
from lessons.graphs.tokens import (
    DEAD,
    Enter,
    Exit,
    Merge,
    NextIteration,
    Switch,
    TokenRun,
    fetch_tokens,
    placeholder,
    record,
)
from lessons.torch_reference import TorchTraining


def lives_of(program: Program) -> dict[int, tuple[int, int]]:
    """Return the first and the last step of each value; every step has memory of its own."""
    own = [i for i, step in enumerate(program.steps) if step.op not in ("input", "const")]
    reads = {i: [k for k, step in enumerate(program.steps) if i in step.inputs] for i in own}
    end = len(program.steps)
    return {i: (i, end if i in program.outputs else max([i, *reads[i]])) for i in own}


def one_after_another(lives: Any, sizes: dict[int, int]) -> dict[int, int]:
    starts = np.cumsum([0, *sizes.values()])
    return dict(zip(sizes, map(int, starts), strict=False))


def all_in_one_place(lives: Any, sizes: dict[int, int]) -> dict[int, int]:
    return dict.fromkeys(sizes, 0)


def test_the_gradients_of_a_program_are_those_of_torch() -> None:
    program = program_examples.two_layers(between=True, width=6, batch=5)
    feeds = random_feeds(program)
    loss, *grads = run(program, feeds)
    w1, w2, x, y = (
        torch.tensor(feeds[n], requires_grad=n[0] == "w") for n in ("w1", "w2", "x", "y")
    )
    right = ((w2 @ torch.relu(w1 @ x) - y) ** 2).sum()
    right.backward()
    assert np.allclose(loss, right.detach(), rtol=1e-4)
    for got, leaf in zip(grads, (w1, w2), strict=True):
        assert leaf.grad is not None and np.allclose(got, leaf.grad, rtol=1e-3, atol=1e-5)


def test_a_training_step_lowers_its_own_loss() -> None:
    program = program_examples.training_step(batch=8)
    feeds = random_feeds(program)
    loss, *new = run(program, feeds)
    after, *_ = run(program, feeds | dict(zip(program_examples.LAYERS, new, strict=True)))
    assert float(after[0, 0]) < float(loss[0, 0])


def test_a_fused_step_is_its_parts_one_by_one_in_blocks_too() -> None:
    program = program_examples.five_elementwise(rows=70, columns=1024)  # two blocks, one not full
    feeds = random_feeds(program)
    (expected,) = run(program, feeds)
    last = program.outputs[0]
    joins = [i for i, s in enumerate(program.steps) if s.op in ELEMENTWISE and i != last]
    parts, leaves = tree_of(program, last, joins)
    names = [program.steps[j].attr[0] for j in leaves]
    got = fused_kernel(parts, np.empty_like(expected), *(feeds[name] for name in names))
    assert len(parts) == 5 and np.array_equal(got, expected)
    assert traffic(program) == 11


def test_a_chain_is_reordered_only_where_a_tenth_of_the_work_is_saved() -> None:
    chain = program_examples.chain(50, 40, 30, 1, tree=from_the_left((50, 40, 30, 1)))
    best = reordered(chain, lambda sizes: (40 * 30 + 50 * 40, (0, (1, 2))))
    kept = reordered(chain, lambda sizes: (flops(chain) * 95 // 100, (0, (1, 2))))
    feeds = random_feeds(chain)
    assert np.allclose(run(best, feeds)[0], run(chain, feeds)[0], atol=1e-5)
    assert (str(kept), flops(chain)) == (str(chain), 50 * 40 * 30 + 50 * 30)
    assert products_of_products(chain) == 1


@pytest.mark.parametrize(("place", "right"), [(one_after_another, True), (all_in_one_place, False)])
def test_a_plan_whose_values_overlap_gives_wrong_results(
    place: Callable[..., dict[int, int]], right: bool
) -> None:
    program = program_examples.two_layers(between=True, width=6, batch=5)
    feeds, plan = random_feeds(program), program_memory.memory_plan(program, lives_of, place)
    found = program_memory.in_arena(program, plan)(feeds)
    same = map(np.array_equal, found, ready(program, feeds)())
    assert all(same) is right


@pytest.mark.parametrize("late", [0, 1])
def test_poison_finds_a_value_that_is_read_after_its_end(late: int) -> None:
    program = program_examples.deep_network(2, backward=False, size=8, batch=4)

    def lifetimes(program: Program) -> dict[int, tuple[int, int]]:
        return {i: (first, last - late) for i, (first, last) in lives_of(program).items()}

    feeds, plan = (
        random_feeds(program),
        program_memory.memory_plan(program, lifetimes, one_after_another),
    )
    found = program_memory.poisoned(program, plan, feeds)
    assert np.array_equal(found[0], run(program, feeds)[0]) is (late == 0)


def test_programs_over_tensors_give_what_they_give_over_arrays() -> None:
    program = program_examples.two_layers(between=True, width=6, batch=5)
    feeds = random_feeds(program)
    given = move_to_device(program, feeds)
    for tensor, array in zip(run_on_device(program, given), run(program, feeds), strict=True):
        assert np.allclose(tensor.to("cpu").numpy(), array, rtol=1e-3, atol=1e-5)


def test_the_allocator_counts_what_a_plan_of_lives_says() -> None:
    program = program_examples.deep_network(2, backward=False, size=512, batch=2048)
    plan = program_memory.memory_plan(program, lives_of, one_after_another)
    alive, _ = count_bytes(program, move_to_device(program, random_feeds(program)))
    assert alive == program_memory.alive_bytes(program, plan)
    assert max(alive) == 2 * 4 * 512 * 2048


class Bump:
    """An allocator that never gives anything back a second time."""

    def __init__(self, reserve: Callable[[int], int]) -> None:
        self.reserve, self.freed = reserve, 0

    def malloc(self, n: int) -> int:
        return self.reserve(n)

    def free(self, address: int) -> None:
        self.freed += 1


def test_a_run_in_a_heap_frees_each_value_and_gives_the_same() -> None:
    program = program_examples.deep_network(2, backward=False, size=8, batch=4)
    feeds, lives = random_feeds(program), lives_of(program)
    heap = program_memory.Heap(1 << 16, Bump)
    found = program_memory.run_in_heap(program, feeds, heap, lives)
    assert np.array_equal(found[0], run(program, feeds)[0])
    assert heap.system.calls == len(lives) == getattr(heap.allocator, "freed", 0)


def network_weights() -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = [(8, 1, 3, 3), (8,), (16, 8, 3, 3), (16,), (10, 256), (10,)]
    return [(rng.normal(size=shape) / 8).astype(np.float32) for shape in shapes]


def test_training_by_hand_is_pytorchs() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(6, 1, 8, 8)).astype(np.float32)
    y = rng.integers(0, 10, size=6)
    theirs, mine = TorchTraining(network_weights()), StepByHand(network_weights())
    there = theirs.to_device(x, y)
    for _ in range(3):
        assert mine(x, y) == pytest.approx(theirs(*there), rel=1e-4)
    _, grads = gradients_by_hand(network_weights(), x, y)
    assert [g.shape for g in grads] == [w.shape for w in network_weights()]


class Rules(TokenRun):
    """The rules of the dataflow machine, as lab 05 asks for them."""

    def fire(self, op: Any, tokens: list[Any]) -> Any:
        alive = [token for token in tokens if token is not DEAD]
        if isinstance(op, Merge):
            return alive[0] if alive else DEAD
        if len(alive) < len(tokens):
            return DEAD
        if isinstance(op, Switch):
            return tokens[0] if bool(tokens[1]) == op.side else DEAD
        return op.compute(np, *tokens)

    def tag_after(self, op: Any, tag: Any) -> Any:
        if isinstance(op, Enter):
            return (*tag, (op.loop, 0))
        if isinstance(op, NextIteration):
            return (*tag[:-1], (tag[-1][0], tag[-1][1] + 1))
        return tag[:-1] if isinstance(op, Exit) else tag

    def is_over(self, frame: Any) -> bool:
        return frame.live == 0 and frame.entered == frame.enters


def test_a_loop_of_tokens_counts_and_a_dead_one_comes_out_dead() -> None:
    start = placeholder("start")
    sent = record(Switch(True), [start, start > -1.0])
    top = record(Merge(), [record(Enter("l"), [sent])])
    again = top < 3.0
    inside = record(Switch(True), [top, again])
    top.inputs += (record(NextIteration("l"), [inside + 1.0]),)
    end = record(Exit("l"), [record(Switch(False), [top, again])])
    assert fetch_tokens(Rules, [end], {start: 0.5}) == [3.5]
    assert fetch_tokens(Rules, [end], {start: -2.0}) == [DEAD]


def test_what_was_pushed_last_is_popped_first() -> None:
    x = placeholder("x")
    stack = token_stacks.push(token_stacks.push(token_stacks.EMPTY, x), x * 2.0)
    (top,), below = token_stacks.pop(stack, [x])
    (first,), empty = token_stacks.pop(below, [x])
    asked = [top, first, token_stacks.filled(below), token_stacks.filled(empty)]
    assert [float(v) for v in fetch_tokens(Rules, asked, {x: 3.0})] == [6.0, 3.0, 1.0, 0.0]


def test_stacks_pass_through_rules_that_make_arrays_of_what_is_computed() -> None:
    class Arrays(Rules):
        def fire(self, op: Any, tokens: list[Any]) -> Any:
            token = super().fire(op, tokens)
            return token if token is DEAD else np.asarray(token)

    x, y = placeholder("x"), placeholder("y", (2,))
    stack = token_stacks.push(token_stacks.push(token_stacks.EMPTY, x, y), x, y)
    (_, top), below = token_stacks.pop(stack, [x, y])
    asked = [top, token_stacks.filled(below)]
    assert fetch_tokens(Arrays, asked, {x: 3.0, y: [4.0, 5.0]})[0].tolist() == [4.0, 5.0]


def by_height(left: list[int], right: list[int]) -> list[list[int]]:
    heights: list[int] = []
    for a, b in zip(left, right, strict=True):
        heights.append(0 if a < 0 else 1 + max(heights[a], heights[b]))
    return [[i for i, h in enumerate(heights) if h == k] for k in range(max(heights) + 1)]


def test_a_batch_of_trees_has_the_states_of_each_tree_alone() -> None:
    rng = np.random.default_rng(0)
    forest = [trees.random_tree(4, rng) for _ in range(6)]
    embed, left, right, bias, _ = trees.tree_weights("cpu", d=3)
    plain = embed, lambda a, b: mt.tanh(a @ left + b @ right + bias)
    for first, vertex in (plain, trees.tree_lstm("cpu", d=3)):
        together = trees.by_batching(forest, by_height, vertex, first)
        for tree, state in zip(forest, together.detach().numpy(), strict=True):
            alone = trees.by_batching([tree], by_height, vertex, first).detach().numpy()
            assert np.allclose(alone[0], state, atol=1e-6)
    assert trees.truth((True, True)) is False and trees.truth((True, (True, True))) is True


def test_a_tree_lstm_computes_what_its_formulas_say() -> None:
    embed, vertex = trees.tree_lstm("cpu", d=2)
    (a,), (b,) = rows = embed[[0]].detach().numpy(), embed[[1]].detach().numpy()
    r = np.random.default_rng(8)
    _, left, right, bias = (r.normal(size=s) / 2 for s in [(2, 4), (2, 10), (2, 10), (10,)])
    z = a[:2] @ left + b[:2] @ right + bias
    i, f_a, f_b, o = (1 / (1 + np.exp(-z[k : k + 2])) for k in (0, 2, 4, 6))
    c = i * np.tanh(z[8:]) + f_a * a[2:] + f_b * b[2:]
    found = vertex(*map(mt.tensor, rows)).detach().numpy()[0]
    np.testing.assert_allclose(found, [*o * np.tanh(c), *c], rtol=1e-5)


def test_sentences_are_filled_up_behind_their_end() -> None:
    rng = np.random.default_rng(0)
    group = [sentences.some_sentence(n, rng) for n in (2, 4)]
    table, counts = sentences.fill_up(group, 5, rng)
    assert table.shape == (5, 2, 1) and counts.tolist() == [[2.0], [4.0]]
    assert all(np.array_equal(table[: len(s), b], s[:, 0]) for b, s in enumerate(group))


def test_functions_are_timed_in_turns() -> None:
    calls: list[str] = []
    functions = {name: lambda name=name: calls.append(name) for name in "ab"}
    assert list(timing.in_turns(functions, repeats=2)) == ["a", "b"]
    assert "".join(calls) == "ab" * 3
    calls.clear()
    assert len(timing.milliseconds(*functions.values(), repeats=3)) == 2
    assert "".join(calls) == "ab" * 4


def test_a_deployed_module_runs_without_the_compiler(tmp_path: Path) -> None:
    mt.manual_seed(0)
    net = mt.nn.Sequential(mt.nn.Linear(7, 12), mt.nn.ReLU(), mt.nn.Linear(12, 5))
    batch = np.random.default_rng(0).normal(size=(9, 7)).astype(np.float32)
    layers = deployed.products(graph.trace(net)(mt.tensor(batch)))
    assert [layer.epilogue for layer in layers] == ["bias_relu", "bias"]
    points = [{"rows": 2, "lanes": 4, "pack_a": True, "pack_b": True}, {}]
    deployed.save(tmp_path / "module.npz", layers, points)
    found, said = deployed.run_elsewhere(run_deployed, tmp_path / "module.npz", batch)
    assert said == "minitorch was imported: False"
    np.testing.assert_allclose(found, net(mt.tensor(batch)).detach().numpy(), atol=1e-5)
    here = run_deployed.run(str(tmp_path / "module.npz"), batch)
    np.testing.assert_array_equal(here, found)
