"""Scenes: what is stepped through is what happened, and every scene is fit to be played."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import minitorch as mt
import minitorch.graph as tf
from minitorch import Op, nn
from minitorch.compile import Schedule
from minitorch.errors import ArgumentError, GraphError
from minitorch.ops.methods import Methods
from minitorch.serve import simulate_generation
from minitorch.show import (
    Scene,
    both_ways,
    compare_passes,
    follow_tokens,
    map_memory,
    page,
    poster,
    race_searches,
    schedule_scene,
    see_attention,
    see_generation,
    show,
    step_through,
    walk_schedule,
)
from minitorch.show.numbers import brief, in_bytes, in_seconds, listing
from minitorch.show.record import record
from minitorch.show.scene import Canvas
from minitorch.show.time_axis import draw_time_axis
from tests.pages import contrast

IMPERATIVE = """
x = mt.tensor([1.0, 2.0])
w = mt.tensor([3.0, -1.0], requires_grad=True)
loss = (x * w).relu().sum()
loss.backward()
print(w.grad)
"""
SYMBOLIC = """
x = tf.placeholder("float32", (2,), name="x")
w = tf.Variable([3.0, -1.0], name="w")
loss = tf.reduce_sum(tf.nn.relu(x * w))
[dw] = tf.gradients(loss, [w])
session = tf.Session()
session.run(tf.initialize_all_variables())
session.run([loss, dw], {x: [1.0, 2.0]})
"""


def layer() -> tuple[Any, dict[str, Any]]:
    x = mt.tensor([[1.0, 2.0], [3.0, 4.0]])
    w = mt.tensor([[0.5, -1.0], [0.25, 1.0]], requires_grad=True)
    y = x @ w
    return (y * y).sum(), {"x": x, "w": w}


def autodiff() -> Scene:
    loss, names = layer()
    return step_through(loss, names=names)


def power(x: Any) -> Any:
    start = [tf.constant(0, name="i"), tf.constant(1.0, name="y")]
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * x], start)[1]


def tokens() -> Scene:
    x = tf.placeholder("float32", (), name="x")
    return follow_tokens(power(x), {x: 2.0})


def chain() -> Any:
    a, b = (tf.placeholder("float32", (64, 64), name=name) for name in "ab")
    v = tf.placeholder("float32", (64, 1), name="v")
    product = tf.matmul(tf.matmul(a, b), v)
    return tf.exp(product) + tf.exp(product) * 1.0 + (tf.constant(2.0) + 3.0)


def passes() -> Scene:
    return compare_passes(chain(), passes=["fold", "algebra", "cse", "matmul_chain"])


def memory() -> Scene:
    return map_memory(chain())


def both() -> Scene:
    return both_ways(IMPERATIVE, SYMBOLIC)


def schedule() -> Scene:
    point = {"rows": 4, "lanes": 4, "tile_k": 3, "order": "knm", "pack_b": True}
    return walk_schedule(Schedule(("matmul", 7, 9, 8), point))


def race() -> Scene:
    return race_searches({"random": [9.0, 4.0, 1.5], "learned": [2.0, 1.05, 1.0]})


def attention() -> Scene:
    rows = [[1.0 / (i + 1)] * (i + 1) for i in range(8)]
    return see_attention([*"abcdefghi"], rows, prompt=5)


SCENES = {
    "attention": attention,
    "autodiff": autodiff,
    "tokens": tokens,
    "passes": passes,
    "memory": memory,
    "both": both,
    "schedule": schedule,
    "race": race,
}


class Parts(HTMLParser):
    """The text of a page's scripts, and the addresses that it names."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts, self.addresses, self.open = [], [], ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open = tag
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open == "script":
            self.scripts.append(data)


# ── every scene ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_plain_data_with_marks_inside_its_bounds(name: str) -> None:
    scene = SCENES[name]()
    data = json.loads(json.dumps(scene.as_dict()))
    assert len(data["steps"]) == len(scene.steps) > 3
    assert 0 <= scene.still < len(scene.steps)
    styles = (Path(page.__code__.co_filename).parent / "scene.css").read_text()
    known = set(re.findall(r"\.([a-z]+)", styles)) | {"wire", "small", "rule"}
    for mark in data["marks"]:
        for start, end, classes in mark["when"]:
            assert 0 <= start < end
            assert set(classes.split()) <= known
        for key, limit in (("x", data["width"]), ("y", data["height"])):
            assert -5 <= float(mark["attrs"].get(key, 0)) <= limit
        intervals = sorted((a, b) for a, b, _ in mark["when"])
        assert all(b <= c for (_, b), (c, _) in pairwise(intervals))
    assert any(mark["when"] for mark in data["marks"])


@pytest.mark.parametrize("name", SCENES)
def test_the_poster_is_well_formed_described_and_asks_for_nothing(name: str) -> None:
    scene = SCENES[name]()
    svg = poster(scene)
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == scene.summary
    assert "href" not in svg
    assert set(re.findall(r"url\(([^)]*)\)", svg)) <= {"#mt-tip"}
    assert "prefers-color-scheme:dark" in svg


@pytest.mark.parametrize("name", SCENES)
def test_the_page_stands_alone(name: str, tmp_path: Path) -> None:
    scene = SCENES[name]()
    parts = Parts()
    text = scene.save(tmp_path / "scene.html").read_text()
    parts.feed(text)
    assert parts.addresses == []
    assert "default-src 'none'" in text
    assert not re.search(r"^\s*import\b|fetch\(|https?://(?!www\.w3\.org)", parts.scripts[0], re.M)


def test_a_page_takes_a_scene_or_a_picture_and_refuses_what_has_none() -> None:
    picture = show(mt.tensor([1.0, 2.0]).requires_grad_() * 2.0)
    assert page(picture) == page(picture.scenes)
    assert page(picture.scenes[0]) == page(picture.scenes[:1])
    for wrong in ([], 3, "scene", [3], None):
        with pytest.raises(ArgumentError, match=r"page: got .* without scenes"):
            page(wrong)


def test_text_that_looks_like_markup_stays_text() -> None:
    x = mt.tensor([1.0], requires_grad=True)
    scene = step_through(x * 2.0, names={"</script><b>@CSS@": x}, title="<i>@MODULE@")
    text = page([scene])
    parts = Parts()
    parts.feed(text)
    assert len(parts.scripts) == 1
    assert "</script><b>" not in text.replace("&lt;/script&gt;&lt;b&gt;", "")
    ElementTree.fromstring(poster(scene))


def test_a_notebook_without_widgets_gets_a_picture_and_a_sentence() -> None:
    scene = autodiff()
    bundle = scene._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert bundle["text/plain"] == scene.summary == repr(scene)


def test_the_widget_carries_scene_poster_and_position() -> None:
    player = autodiff().player()
    data, _ = player._repr_mimebundle_()
    assert {"application/vnd.jupyter.widget-view+json", "image/svg+xml", "text/plain"} <= set(data)
    assert player.scenes[0]["steps"][0]["text"].startswith("Before the first step")
    assert (player.tab, player.at) == (0, 0)  # the poster shows the most, the player begins
    player.close()


def test_every_colour_of_text_stands_out_from_what_it_is_written_on() -> None:
    css = (Path(page.__code__.co_filename).parent / "player.css").read_text()
    colours = re.findall(r"--mt-([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", css)
    assert len(colours) == css.count("  --mt-")
    for k in (1, 2):
        of = {colour[0]: colour[k] for colour in colours}
        grounds = ["paper", "faint", *(name for name in of if name.endswith("-tint"))]
        for ground in grounds:
            for ink in ("ink", "muted", "value"):
                assert contrast(of[ink], of[ground]) >= 4.5, (ink, ground)
        for ink in ("grad", "good", "bad", "control", "now"):
            assert contrast(of[ink], of["paper"]) >= 4.5, ink
        assert contrast(of["grad"], of["grad-tint"]) >= 4.5
        assert contrast(of["grad"], of["value-tint"]) >= 4.5
        assert contrast(of["paper"], of["value"]) >= 4.5  # text over a full bar
        assert contrast(of["line"], of["paper"]) >= 3


# ── the autodiff stepper ────────────────────────────────────────────────────────────────────────


def test_forward_steps_run_in_order_and_backward_steps_give_torchs_gradients() -> None:
    loss, names = layer()
    scene = step_through(loss, names=names)
    texts = [step.text for step in scene.steps]
    forward = [text for text in texts if text.startswith("Forward")]
    assert [text.split(": ")[1].split()[0] for text in forward] == ["matmul", "mul", "Sum"]
    loss.backward()
    last = next(text for text in reversed(texts) if "gradient of w" in text)
    assert brief(names["w"].grad.numpy()) in last


def test_a_value_that_is_used_twice_waits_for_both_shares() -> None:
    loss, names = layer()
    scene = step_through(loss, names=names)
    rows = [row for step in scene.steps for row in step.rows if row.startswith("matmul gets")]
    assert "has 1 share: the sum waits" in rows[0]
    assert "has 2 shares: all are here" in rows[1]


def test_stepping_leaves_gradients_hooks_and_graph_alone() -> None:
    loss, names = layer()
    heard = []
    names["w"].register_hook(heard.append)
    step_through(loss, names=names)
    assert heard == []
    assert names["w"].grad is None
    loss.backward()
    assert len(heard) == 1


def test_a_node_is_run_with_its_feeds_and_variables_stay_as_they_are() -> None:
    tf.reset_default_graph()
    x = tf.placeholder("float32", (3,), name="x")
    w = tf.Variable(np.full(3, 2.0, np.float32), name="w")
    loss = tf.reduce_sum(w * w * x)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        feed = {x: np.ones(3, np.float32)}
        scene = step_through(loss, feed_dict=feed, session=session)
        assert any("gradient of w is complete, [4, 4, 4]" in s.text for s in scene.steps)
        follow_tokens(step, feed, session)
        show(step, feed_dict=feed, session=session).scenes  # noqa: B018
        assert session.run(w).tolist() == [2, 2, 2]
    without = step_through(loss)
    assert not any(s.text.startswith("Backward") for s in without.steps)


def test_a_learners_own_kind_of_node_is_shown_though_nobody_here_can_run_it() -> None:
    class Own(Methods):
        def __init__(self, op: Any, inputs: Any, name: str, value: Any = None) -> None:
            self.op, self.inputs, self.name, self.value = op, tuple(inputs), name, value
            self.shape, self.dtype = (None, 2), np.dtype("float32")

        def _apply(self, op: Any, inputs: Any) -> Any:
            return Own(op, inputs, op.name)

    x, two = Own(None, (), "x"), Own(None, (), "two", 2.0)
    (scene,) = show(x * two).scenes
    assert [step.text for step in scene.steps] == [
        "Before the first step: x and two given, nothing computed.",
        "Forward 1 of 1: mul from x and two.",
    ]
    assert scene.steps[1].rows == ("two = 2",)


def test_a_rule_that_fails_ends_the_steps_with_its_message() -> None:
    class Broken(Op):
        def compute(self, xp: Any, x: Any) -> Any:
            return x * 2

        def gradient(self, out_grad: Any, node: Any) -> Any:
            raise ZeroDivisionError("mine")

    x = mt.tensor([1.0], requires_grad=True)
    scene = step_through((Broken()(x) * 3.0).sum())
    assert scene.steps[-1].text == "Backward stops here."
    assert "ZeroDivisionError: mine" in scene.steps[-1].rows[0]


def test_a_deep_chain_is_cut_and_says_so() -> None:
    x = mt.tensor([1.0], requires_grad=True)
    for _ in range(3000):
        x = x * 1.0
    scene = step_through(x)
    assert "farther away not shown" in scene.summary
    assert show(x, limit=20).scenes == ()


def test_what_cannot_be_stepped_through_is_refused() -> None:
    with pytest.raises(ArgumentError, match="step_through: got int"):
        step_through(3)


@pytest.mark.parametrize("view", [follow_tokens, compare_passes, map_memory])
@pytest.mark.parametrize("wrong", [[], {}, "x", None, mt.ones(2), [tf.constant(1.0), 3]])
def test_what_is_no_graph_is_refused_by_the_name_of_the_view(view: Any, wrong: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{view.__name__}: got .*expected a node"):
        view(wrong)


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────


def test_tokens_tell_the_rounds_of_a_loop_and_what_is_dead() -> None:
    scene = tokens()
    assert "in 1 loop of 4 iterations begun" in scene.summary
    texts = [step.text for step in scene.steps]
    rounds = [text for text in texts if "LoopCond sends" in text]
    assert [text.rsplit("sends ")[1].split(".")[0] for text in rounds] == ["True"] * 3 + ["False"]
    assert any("y/Exit sends 8" in text for text in texts)
    assert sum("Nothing leaves the loop yet" in text for text in texts) == 3 * 2
    dead = [t for step in scene.steps for t in step.travels if t.kind == "dead"]
    assert dead


def test_of_a_branch_only_one_side_is_alive() -> None:
    x = tf.placeholder("float32", (), name="x")
    value = tf.cond(x > 1.0, lambda: tf.exp(x), lambda: tf.negative(x))
    for number, living, other in ((2.0, "exp", "neg"), (0.0, "neg", "exp")):
        texts = [step.text for step in follow_tokens(value, {x: number}).steps]
        assert any(f": {living} sends" in t and "dead token" not in t for t in texts)
        assert any(f": {other} sends a dead token" in t for t in texts)


def test_too_many_operators_are_refused() -> None:
    x = tf.placeholder("float32", (), name="x")
    y = x
    for _ in range(100):
        y = tf.exp(-y)
    with pytest.raises(ArgumentError, match="201 operators, expected at most 80"):
        follow_tokens(y, {x: 0.0})


# ── passes and memory ───────────────────────────────────────────────────────────────────────────


def test_each_pass_names_what_is_gone_and_what_is_new() -> None:
    scene = passes()
    by_pass = {step.text.split(", ")[1].split(":")[0]: step for step in scene.steps[1:]}
    assert "the constant 5" in " ".join(by_pass["fold"].rows)
    assert by_pass["algebra"].rows[0].startswith("gone: the constant 1")
    assert "exp" in by_pass["cse"].rows[0]
    assert "changed by fold, algebra, cse and matmul_chain" in scene.summary
    last = int(re.findall(r"nodes become (\d+),", scene.steps[-1].text)[0])
    assert last == tf.count_nodes(
        tf.optimize(chain(), passes=["fold", "algebra", "cse", "matmul_chain"])
    )


def test_of_all_passes_those_are_shown_that_find_something_to_do() -> None:
    scene = compare_passes(chain())
    assert not any("nothing to do here" in step.text for step in scene.steps)
    assert "the others find nothing to do" in scene.summary
    idle = compare_passes(tf.exp(tf.placeholder("float32", (2,))))
    assert all("nothing to do here" in step.text for step in idle.steps[1:])
    assert "None changes anything" in idle.summary


def test_a_pass_that_finds_nothing_says_so_and_an_unknown_one_is_refused() -> None:
    scene = compare_passes(tf.exp(tf.placeholder("float32", (2,))), passes=["cse"])
    assert "nothing to do here" in scene.steps[1].text
    with pytest.raises(GraphError, match="unrolling"):
        compare_passes(chain(), passes=["unrolling"])


def test_the_memory_map_has_the_plans_numbers_and_a_step_for_each_node() -> None:
    target = chain()
    plan, scene = tf.memory_plan(target), map_memory(target)
    assert in_bytes(plan.peak_bytes) in scene.summary
    assert in_bytes(plan.total_bytes) in scene.summary
    computing = [node for node in plan.order if node.op is not None]
    assert len(scene.steps) == len(computing) + 1
    most = max(int(re.findall(r"(\d+) buffers? alive", s.text)[0]) for s in scene.steps[1:])
    lives = [(b.first, b.last) for b in plan.buffers]
    times = [i for i, node in enumerate(plan.order) if node.op is not None]
    assert most == max(sum(a <= t <= b for a, b in lives) for t in times)


def test_a_plan_needs_sizes_and_something_to_compute() -> None:
    with pytest.raises(GraphError, match="size"):
        map_memory(tf.exp(tf.placeholder("float32", (None, 2))))
    with pytest.raises(GraphError, match="computes nothing"):
        map_memory(tf.constant(1.0))


# ── both ways ───────────────────────────────────────────────────────────────────────────────────


def test_one_side_computes_at_once_and_the_other_when_the_session_runs() -> None:
    scene = both()
    texts = [step.text for step in scene.steps]
    assert texts[1] == "Imperative: [1, 2]. Symbolic: 1 node built, nothing computed."
    first_run = next(i for i, text in enumerate(texts) if text.startswith("The session runs"))
    assert all("nothing computed" in t or "Imperative" in t for t in texts[1:first_run])
    assert any("gives  3, [1, 0]" in row for row in scene.steps[-1].rows)
    printed = [row for step in scene.steps for row in step.rows if "print(w.grad)" in row]
    assert "prints tensor([1., 0.])" in printed[0]


# ── show ────────────────────────────────────────────────────────────────────────────────────────


def test_show_offers_every_view_that_a_value_has() -> None:
    tf.reset_default_graph()
    loss, _ = layer()
    assert [scene.tab for scene in show(loss).scenes] == ["Forward and backward"]
    x = tf.placeholder("float32", (2,), name="x")
    views = show(tf.reduce_sum(tf.exp(x)), feed_dict={x: [0.0, 1.0]}).scenes
    assert [s.tab for s in views] == ["Forward and backward", "Tokens", "Memory", "Passes"]
    unfed = show(tf.exp(tf.placeholder("float32", (None,)))).scenes
    assert [s.tab for s in unfed] == ["Forward and backward", "Passes"]


def test_a_module_names_the_leaves_of_a_record() -> None:
    net = nn.Linear(2, 1)
    scene = step_through(net(mt.ones(1, 2)).sum(), names=net)
    assert "bias" in scene.steps[0].text
    assert "weight" in scene.steps[0].text


def test_numbers_are_brief() -> None:
    assert brief(np.float32(0.1)) == "0.1"
    assert brief(np.array([[1, 2], [3, 4]])) == "[[1, 2], [3, 4]]"
    assert brief(np.zeros((0, 3))) == "empty (0, 3)"
    assert brief(np.arange(100.0)).startswith("mean 49.5")
    assert in_bytes(512) == "512 B"
    assert in_bytes(1536) == "1.5 KiB"
    assert [in_seconds(s) for s in (2.0, 2e-3, 2e-6)] == ["2 s", "2 ms", "2 µs"]
    assert listing(["a", "b", "c"]) == "a, b and c"


def test_a_record_of_a_tensor_without_gradient_has_no_way_back() -> None:
    found = record(mt.ones(2) * 2.0, {}, 5)
    assert (found.visits, found.ops) == ([], [""])  # nothing is recorded of it


def test_a_very_long_name_is_cut_in_its_box_and_whole_in_words() -> None:
    loss, names = layer()
    long = "a_name_that_does_not_end_" * 8
    scene = step_through(loss, names={long: names["w"]})
    assert scene.width < step_through(loss, names={"w": names["w"]}).width + 400
    drawn = poster(scene)
    assert "a_name_that_does_not" in drawn and "…" in drawn
    assert any(long in step.text for step in scene.steps)


# ── schedules and searches ──────────────────────────────────────────────────────────────────────


def test_the_blocks_of_a_schedule_cover_every_product_of_two_elements_once() -> None:
    point = {"rows": 4, "lanes": 4, "tile_m": 4, "tile_n": 8, "tile_k": 3, "order": "knm"}
    seen = np.zeros((7, 9, 8), int)
    for one in schedule_scene.rounds_of(Schedule(("matmul", 7, 9, 8), point)):
        seen[tuple(slice(*one.block[axis]) for axis in "mnk")] += 1
        for axis in "mnk":
            assert one.tile[axis][0] <= one.block[axis][0] < one.block[axis][1] <= one.tile[axis][1]
    assert (seen == 1).all()


def test_a_race_says_who_is_in_front_and_when_a_search_arrives() -> None:
    scene = race()
    assert [step.text for step in scene.steps][2] == "After 2 trials learned is in front."
    assert "random is within 1.10 of the best never" in scene.summary
    assert "learned is within 1.10 of the best after 2 trials" in scene.summary


def test_searches_whose_numbers_read_the_same_are_level() -> None:
    scene = race_searches({"random": [1.041], "genetic": [1.039]})
    assert scene.steps[1].text == "After 1 trial random and genetic are level in front."


@pytest.mark.parametrize(
    ("span_ms", "last"), [(1246.0, "1200 ms"), (192.0, "150 ms"), (0.9, "0.8 ms"), (3.0, "3 ms")]
)
def test_an_axis_of_time_has_round_numbers(span_ms: float, last: str) -> None:
    canvas = Canvas()
    draw_time_axis(canvas, 100.0, span_ms)
    words = [mark.text for mark in canvas.marks if mark.text]
    assert words[0] == "0 ms"
    assert words[-1] == last
    assert 4 <= len(words) <= 8


def test_what_is_no_schedule_and_no_race_is_refused() -> None:
    for bad in ({"x": [0.5]}, {}, {"x": [1.0], "y": []}):
        with pytest.raises(ArgumentError, match="race_searches"):
            race_searches(bad)
    for given in (3, Schedule(("conv2d", 1, 1, 4, 4, 1, 3, 3))):
        with pytest.raises(ArgumentError, match="walk_schedule"):
            walk_schedule(given)  # type: ignore[arg-type]


REQUESTS = [(0.0, 4, 3), (1.0, 4, 1), (2.0, 4, 2)]
PRICES = {"step_ms": 2.0, "per_slot_ms": 0.0, "prompt_ms_per_token": 0.25}


def test_a_run_of_a_generator_is_gone_through_iteration_by_iteration() -> None:
    run = simulate_generation(REQUESTS, slots=1, **PRICES)
    scene = see_generation(REQUESTS, run, until_ms=50.0)
    assert len(scene.steps) == 1 + len(run.iterations)
    assert scene.steps[1].text == "Iteration 1: the prompt and first token of request 0."
    by_text = {step.text: step.rows for step in scene.steps}
    assert by_text["Iteration 3: one token more of request 0."] == (
        "waiting for a slot: 2",
        "at its end: request 0",
    )
    assert scene.summary.startswith(f"3 requests in {len(run.iterations)} iterations")
    assert any(mark.text == "50 ms" for mark in scene.marks)


def test_a_run_of_other_requests_is_refused() -> None:
    run = simulate_generation(REQUESTS, **PRICES)
    for requests in ([], REQUESTS[:2], REQUESTS * 9):
        with pytest.raises(ArgumentError, match="expected as many, 1 to 24"):
            see_generation(requests, run)


def test_a_head_reads_the_prompt_at_once_and_then_brings_a_query_a_step() -> None:
    scene = attention()
    assert len(scene.steps) == 1 + 1 + 3
    assert scene.steps[1].text.startswith("The prompt at once, 5 queries: the last takes 20% of a")
    ran = "8 words have run through the model; without a cache, 26."
    assert scene.steps[-1].rows == (ran,)
    keys = [mark for mark in scene.marks if mark.tip.startswith("key of")]
    assert [mark.when[0][0] for mark in keys] == [1] * 5 + [2, 3, 4]


@pytest.mark.parametrize(
    ("words", "rows", "prompt"),
    [
        ("", [], 1),
        ("a", [], 1),
        ("ab", [[1.0]], 0),
        ("ab", [[1.0]], 2),
        ("abc", [[1.0], [1.0]], 1),  # a word that does not see itself
        ("abc", [[1.0], [0.5, 0.2]], 1),
        ("abc", [[1.0], [1.5, -0.5]], 1),
        ("abc", [[1.0], [float("nan"), 0.5]], 1),
        ("a" * 18, [[1.0] + [0.0] * i for i in range(17)], 1),
    ],
)
def test_what_is_no_attention_is_refused(words: str, rows: list[list[float]], prompt: int) -> None:
    with pytest.raises(ArgumentError, match="expected at most 16 words"):
        see_attention([*words], rows, prompt=prompt)
