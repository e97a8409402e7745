"""What lab 18 takes: digits with a score, the course's modules, ranks that share, a page."""

from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lessons.language.data as data
import lessons.language.modules as course
import minitorch as mt
from ddp_lab import launch
from lessons.language.ranks import share_products, stage_step, train_in_turns
from lessons.language.stack import Watch, lines_of, see_stack


def test_the_text_is_that_of_the_library_and_every_character_has_a_token() -> None:
    text = data.docstrings(5_000)
    assert len(text) == 5_000
    assert "Command-line parsing library" in text
    tokens = data.tokens_of(text)
    assert "".join(data.CHARACTERS[token] for token in tokens) == text


def test_batches_are_the_same_for_a_step_and_their_problems_are_right() -> None:
    batch = data.Batches(list(range(90)), context=30, digits=4, rows=6)
    x, y = batch(3)
    np.testing.assert_array_equal(x, batch(3)[0])
    np.testing.assert_array_equal(x[:, 1:], y[:, :-1])
    first = "".join(data.CHARACTERS[token] for token in x[-1][:9])
    asked, answer = first.split(data.SORTED)
    assert "".join(sorted(asked)) == answer


def sorting(rows: data.Ints) -> np.ndarray[Any, Any]:
    """Return logits by which the next digit of an answer is sure."""
    logits = np.zeros((*rows.shape, 96), np.float32)
    for row, scores in zip(rows, logits, strict=True):
        for at in range(4, min(8, len(row))):
            scores[at, np.sort(row[:4])[at - 4]] = 50.0
    return logits


def test_who_sorts_has_all_exact_and_no_loss_and_who_guesses_has_neither() -> None:
    assert data.exact_share(lambda rows: sorting(rows)[:, -1], 4, 50) == 1.0
    assert data.answer_loss(sorting, 4, 50) == pytest.approx(0.0, abs=1e-6)
    assert data.exact_share(lambda rows: np.zeros((len(rows), 96), np.float32), 4, 50) == 0.0


def test_a_table_that_sees_more_has_less_loss_and_no_table_of_three_can_sort() -> None:
    losses = [data.least_table_loss(4, seen, n=3_000) for seen in (1, 2, 3)]
    assert all(more > less > 0.5 for more, less in pairwise(losses))
    sure = data.pair_table_loss([1, 2] * 500, np.array([1, 2] * 50), 3)
    assert sure < 0.02


def test_shared_memory_counts_once() -> None:
    array = np.zeros(100, np.float32)
    assert data.distinct_bytes([array, array[10:20], array[50:], np.zeros(5)]) == 440


class Attention(course.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.qkv = course.Linear(8, 8, rng)

    def forward(self, x: Any) -> Any:
        return mt.relu(self.qkv(x))


class Block(course.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.attention, self.up = Attention(rng), course.Linear(8, 8, rng)

    def forward(self, x: Any) -> Any:
        return x + self.up(self.attention(x))


class Model(course.Module):
    """What ranks need of a model, in small."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.table = course.Parameter(rng.normal(size=(9, 8)))
        self.blocks = [Block(rng), Block(rng)]
        self.head = course.Linear(8, 9, rng)

    def embed(self, tokens: Any) -> Any:
        return mt.nn.functional.embedding(tokens, self.table)

    def top(self, h: Any) -> Any:
        return self.head(h)

    def forward(self, tokens: Any) -> Any:
        h = self.embed(tokens)
        for block in self.blocks:
            h = block(h)
        return self.top(h)


X, Y = np.random.default_rng(1).integers(9, size=(2, 4, 5))


def loss_of(logits: Any, y: Any) -> Any:
    return mt.nn.functional.cross_entropy(logits.reshape(-1, 9), y.reshape(-1))


def alone() -> tuple[float, list[Any]]:
    model = Model()
    loss = loss_of(model(mt.tensor(X)), mt.tensor(Y))
    return loss.item(), [g.numpy() for g in mt.grad(loss, list(model.parameters()))]


def test_two_stages_have_the_loss_and_the_gradients_of_one_process() -> None:
    def run(comm: Any) -> Any:
        loss, grads = stage_step(comm, Model(), X, Y, loss_of, microbatches=2)
        return loss, [None if g is None else g.numpy() for g in grads]

    (loss, first), (_, second) = launch(run, 2, transport="threads")
    whole_loss, whole = alone()
    assert loss == pytest.approx(whole_loss, rel=1e-5)
    for a, b, expected in zip(first, second, whole, strict=True):
        assert (a is None) is not (b is None)  # each parameter is one stage's
        np.testing.assert_allclose(b if a is None else a, expected, rtol=1e-4, atol=1e-6)


def test_products_that_are_shared_give_the_same_and_each_rank_has_half() -> None:
    def run(comm: Any) -> Any:
        model = Model()
        share_products(comm, model, course.Parameter)
        loss = loss_of(model(mt.tensor(X)), mt.tensor(Y))
        shapes = [p.shape for p in model.blocks[0].parameters()]
        return loss.item(), [g.numpy() for g in mt.grad(loss, list(model.parameters()))], shapes

    whole_loss, whole = alone()
    for rank, (loss, grads, shapes) in enumerate(launch(run, 2, transport="threads")):
        assert loss == pytest.approx(whole_loss, rel=1e-5)
        assert shapes == [(4, 8), (4,), (4, 8), (4,)]
        for grad, expected in zip(grads, whole, strict=True):
            part = expected if grad.shape == expected.shape else np.split(expected, 2)[rank]
            np.testing.assert_allclose(grad, part, rtol=1e-4, atol=1e-6)


def test_plans_take_their_steps_in_turns_and_each_keeps_its_losses() -> None:
    def run(comm: Any) -> Any:
        taken: list[str] = []

        def plan(name: str, factor: float) -> Any:
            def take(step: int) -> float:
                taken.append(name)
                return factor * step + comm.rank

            return lambda _: take

        losses, seconds = train_in_turns(comm, [plan("a", 1.0), plan("b", 10.0)], steps=3)
        return losses.tolist(), seconds.shape, "".join(taken)

    for rank, result in enumerate(launch(run, 2, transport="threads")):
        losses = [[rank, 1 + rank, 2 + rank], [rank, 10 + rank, 20 + rank]]
        assert result == (losses, (2,), "ababab")


class Momentum:
    """An optimizer as a learner may write it."""

    def __init__(self, parameters: Any) -> None:
        self.parameters, self.t = list(parameters), 3
        self.means = [mt.ones(2)]


def test_what_an_optimizer_carries_is_copied_and_put_back_whoever_wrote_it() -> None:
    theirs = Momentum([mt.zeros(2)])
    state = course.state_of(theirs)
    theirs.means[0] += 1.0
    theirs.t = 9
    course.set_state(theirs, state)
    assert (theirs.t, theirs.means[0].numpy().tolist()) == (3, [1.0, 1.0])
    weights = [course.Parameter([1.0]), course.Parameter([1.0])]
    runs = [course.Adam([weight], lr=0.1) for weight in weights]
    for _ in range(2):
        weights[0].grad = mt.ones(1)
        runs[0].step()
    with mt.no_grad():
        weights[1][...] = weights[0].detach()
    course.set_state(runs[1], course.state_of(runs[0]))
    for weight, adam in zip(weights, runs, strict=True):
        weight.grad = mt.ones(1)
        adam.step()
    assert weights[0].item() == weights[1].item()


def test_spans_are_noted_and_everything_is_put_back() -> None:
    class Layer:
        def run(self) -> int:
            return 7

    def alone_too() -> int:
        return Layer().run()

    names = {"alone_too": alone_too}
    before, watch = Layer.run, Watch()
    with watch.methods(names, {"alone_too": (alone_too,), "layer": (Layer,)}):
        assert names["alone_too"]() == 7
    assert [layer for layer, *_ in watch.spans] == ["layer", "alone_too"]
    assert (Layer.run, names["alone_too"]) == (before, alone_too)
    assert (lines_of(Layer), lines_of(alone_too)) == (2, 2)


def test_the_stack_says_whose_the_layers_are_and_its_page_asks_for_nothing(tmp_path: Path) -> None:
    rows = [("f", "a <layer>", True, 12, 0.25), ("g", "another", False, 3, 0.75)]
    stack = see_stack(rows, title="sorts & more")
    assert repr(stack) == "1 of 2 layers are one's own: 12 lines, 25% of the time."
    assert [step.text for step in stack.steps[1:3]] == [
        "A <layer>: 25.0% of the time is its own.",
        "Another: 75.0% of the time is its own.",
    ]
    assert [step.rows for step in stack.steps[1:3]] == [("f, 12 lines",), ("g, the course's",)]
    page = stack.save(tmp_path / "page.html").read_text("utf-8")
    HTMLParser().feed(page)
    assert "a &lt;layer&gt;" in page and "<title>sorts &amp; more" in page


@pytest.mark.parametrize(
    ("file", "name", "label"),
    [
        ("~", "<method 'reduce' of 'numpy.ufunc' objects>", "numpy.ufunc.reduce"),
        ("~", "<built-in method __new__ of type object at 0x7efc88a5ea00>", "__new__"),
        ("/tmp/ipykernel_7/271267181.py", "compute", "a cell: compute"),
        ("<cell 56, line 1>", "gradients", "a cell: gradients"),
        ("/x/minitorch/arrays/allocator.py", "empty", "allocator: empty"),
    ],
)
def test_a_profile_names_functions_for_people(file: str, name: str, label: str) -> None:
    from lessons.language.figures import name_for_people  # and matplotlib

    assert name_for_people(file, name) == label
