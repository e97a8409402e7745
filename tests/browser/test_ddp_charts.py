"""The charts of ddp_lab in a real browser: from a file with the network blocked, Voila, Lab."""

import math
import random
import re
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from ddp_lab.collectives.closed_forms import all_reduce_time
from ddp_lab.data_parallel.measurement.backward_profile import BackwardProfile
from ddp_lab.data_parallel.measurement.step_times import StepTimes
from ddp_lab.show import (
    DdpTimeline,
    PipelineSchedules,
    ScalingCurves,
    ServerTimeline,
    TrainingCurves,
)
from ddp_lab.show.chart import module
from ddp_lab.show.lineage import list_recomputed, list_restarted
from ddp_lab.show.matrix_split import WAYS, plan, ring_bytes
from ddp_lab.show.options import rows
from ddp_lab.show.roofline import DEVICES, attainable
from ddp_lab.simulate import ddp, published
from tests.pages import expect

DEMOS = Path(__file__).parents[2] / "labs" / "demos"
NAMES = ("collectives_explorer", "ddp_timeline", "parameter_servers", "training_curves")
CLASSES = (".dl-explorer", ".dl-timeline", ".dl-servers", ".dl-curves")
ROOTS = dict(zip(NAMES, CLASSES, strict=True))

pytestmark = pytest.mark.browser


def demo(name: str) -> str:
    return (DEMOS / name / f"{name}.html").as_uri()


@pytest.fixture
def open_demo(visit: Any) -> Any:
    """`open_demo(name)`: its page from a file, the network cut off; any error of it fails."""
    errors: list[str] = []
    asked: list[str] = []

    def go(name: str, **options: Any) -> Any:
        browser = visit(**options)
        browser.context.set_offline(True)
        browser.context.on("weberror", lambda error: errors.append(str(error.error)))
        browser.context.on("request", lambda request: asked.append(request.url))
        return browser.open(demo(name))

    yield go
    assert errors == []
    assert all(url.startswith("file:") for url in asked)


def status(page: Any) -> Any:
    return page.locator(".dl-chart [role=status]")


# The pages


def test_the_timeline_follows_its_sliders_by_keyboard(open_demo: Any) -> None:
    page = open_demo("ddp_timeline")
    expect(status(page)).to_have_text(re.compile(r"with \d+ buckets"))
    page.keyboard.press("Tab")
    bucket = page.get_by_role("slider", name="Bucket size")
    expect(bucket).to_be_focused()
    page.keyboard.press("End")
    expect(status(page)).to_have_text(re.compile("with 1 bucket;"))
    expect(bucket).to_have_attribute("aria-valuetext", "1 GiB")
    page.get_by_role("slider", name="Layers").focus()
    recorded = page.locator("rect.dl-a[data-lane='recorded compute']").count()
    expect(page.locator("[role=img] rect.dl-a")).to_have_count(16 + recorded)  # as profiled
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[role=img] rect.dl-a")).to_have_count(2 + recorded)
    page.get_by_role("slider", name="Compute lost beside the link").focus()
    page.keyboard.press("End")
    page.get_by_role("button", name="Best bucket size").press("Enter")
    # nothing is hidden, one bucket at the end; what is left is what the recorded step hid
    hidden = page.locator("rect.dl-c[data-lane='recorded link']").count()
    assert hidden > 0
    expect(page.locator("[role=img] rect.dl-c")).to_have_count(hidden)


def test_the_explorer_names_the_fastest_as_sizes_change(open_demo: Any) -> None:
    page = open_demo("collectives_explorer")
    size = page.get_by_role("slider", name="Size of the array")
    size.press("Home")
    expect(status(page)).to_have_text(re.compile("recursive_doubling is fastest"))
    size.press("End")
    expect(status(page)).to_have_text(re.compile("halving_doubling is fastest"))
    expect(page.locator("tr.dl-best")).to_contain_text("1.75 GiB")
    page.get_by_role("slider", name="Ranks").press("Home")
    expect(status(page)).to_have_text(re.compile("on 2 ranks"))
    page.get_by_role("combobox", name="Collective").select_option("broadcast")
    expect(page.locator("path[data-algorithm]")).to_have_count(2)
    rows = page.get_by_role("table", name="Algorithms at this size").get_by_role("row")
    expect(rows).to_have_count(3)


def test_the_curves_hide_smooth_and_change_their_axis(open_demo: Any) -> None:
    page = open_demo("training_curves")
    curve = page.locator("path[data-run='all-reduce']")
    expect(page.locator("path[data-run]")).to_have_count(4)
    before = curve.get_attribute("d")
    page.get_by_role("checkbox", name="Logarithmic").press("Space")
    expect(curve).not_to_have_attribute("d", before)
    page.get_by_role("slider", name="Smoothing").press("End")
    expect(page.locator("path.dl-faint")).to_have_count(4)
    page.get_by_role("checkbox", name="half precision").press("Space")
    expect(page.locator("path[data-run]")).to_have_count(3)


@pytest.mark.parametrize("name", NAMES)
def test_pages_take_the_readers_colours_nothing_moves_and_every_control_has_a_name(
    open_demo: Any, name: str
) -> None:
    page = open_demo(name, reduced_motion="reduce")
    for scheme, paper in {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}.items():
        page.emulate_media(color_scheme=scheme)
        root = page.locator(ROOTS[name])
        assert root.evaluate("(node) => getComputedStyle(node).backgroundColor") == paper
    moving = "() => document.getAnimations().length"
    assert page.evaluate(moving) == 0
    controls = page.locator(".dl-chart :is(input, select, button)")
    for k in range(controls.count()):
        expect(controls.nth(k)).to_have_accessible_name(re.compile(r"\w"))
    expect(page.locator(".dl-chart .dl-wide > svg")).to_have_attribute(
        "aria-label", re.compile(r"\d")
    )


@pytest.mark.parametrize("name", NAMES)
def test_without_scripts_pages_show_a_picture(open_demo: Any, name: str) -> None:
    page = open_demo(name, java_script_enabled=False)
    expect(page.locator("noscript svg, main > noscript").first).to_be_attached()
    expect(page.get_by_role("img")).to_be_visible()


# The simulator in the browser and the one in Python


def cases(count: int) -> list[dict[str, Any]]:
    rng = random.Random(7)
    made = []
    for _ in range(count):
        layers = rng.randrange(0, 12)
        made.append(
            {
                "forward": rng.uniform(0, 3),
                "backward": [rng.choice([0.0, rng.uniform(0, 2)]) for _ in range(layers)],
                "n_bytes": [rng.choice([0, rng.randrange(1, 100)]) for _ in range(layers)],
                "bucket_bytes": rng.choice([0, rng.randrange(1, 300)]),
                "contention": rng.choice([0.0, rng.random(), 1.0]),
                "overlap": rng.random() < 0.7,
                "ranks": rng.randrange(1, 9),
                "alpha": rng.choice([0.0, rng.uniform(0, 0.3)]),
                "bytes_per_s": rng.uniform(10, 300),
            }
        )
    return made


def in_python(case: dict[str, Any]) -> dict[str, Any]:
    alpha, beta, ranks = case["alpha"], 1 / case["bytes_per_s"], case["ranks"]
    step = ddp(
        case["forward"],
        case["backward"],
        case["n_bytes"],
        case["bucket_bytes"],
        lambda n: all_reduce_time("ring", n, ranks, alpha, beta),
        case["overlap"],
        case["contention"],
    )
    return {
        "step_time": step.step_time,
        "compute_time": step.compute_time,
        "exposed": step.exposed_communication,
        "hidden": step.hidden_communication,
        "ready_at": list(step.ready_at),
        "spans": [[list(b.layers), b.ready_at, b.began_at, b.ended_at] for b in step.buckets],
    }


def test_the_browser_computes_what_python_does(sheet: Any) -> None:
    page = sheet("about:blank")
    text = module("ddp_timeline.js").replace("export default { render };", "")
    text = text.replace("export { simulate, bestBucket };", "window.simulate = simulate;")
    page.add_script_tag(content=text)
    given = cases(300)
    got = page.evaluate(
        "(cases) => cases.map((c) => { const s = simulate(c); return { ...s, "
        "spans: s.buckets.map((b) => [b.layers, b.ready_at, b.began_at, b.ended_at]) }; })",
        given,
    )
    for case, ours in zip(given, got, strict=True):
        for name, want in in_python(case).items():
            assert flat(ours[name]) == pytest.approx(flat(want), rel=1e-9, abs=1e-9), (case, name)


def runs() -> list[ServerTimeline]:
    choices = product(("sync", "async", "ssp"), (1, 5, 12), (0, 1, 4), (0, 1, 4), (0.0, 0.1, 0.5))
    return [
        ServerTimeline(seed=w, consistency=c, workers=w, staleness=s, backups=b, share=share)
        for c, w, s, b, share in choices
        if (c == "ssp" or s == 0) and (c == "sync" or b == 0)
    ]


def test_the_browser_runs_parameter_servers_as_python_does(sheet: Any) -> None:
    page = sheet("about:blank")
    text = module("server_timeline.js").replace("export default { render };", "")
    ours = "window.simulate = simulate; window.timesOf = timesOf;"
    page.add_script_tag(content=text.replace("export { simulate, timesOf };", ours))
    charts = runs()
    names = ("draws", "workers", "backups", "share", "late", "consistency", "staleness")
    given = [{name: getattr(chart, name) for name in names} for chart in charts]
    got = page.evaluate(
        "(cases) => cases.map((c) => { const r = simulate({ ...c, times: timesOf(c) }); return ["
        "[r.makespan, r.max_staleness, r.dropped, r.waited], r.applied.map((a) => a.at), "
        "r.spans.map((s) => [s.worker, s.step, s.began_at, s.ended_at])]; })",
        given,
    )
    for chart, browsers in zip(charts, got, strict=True):
        run = chart.run()
        facts = [run.makespan, run.max_staleness, run.dropped, run.waited]
        spans = [[s.worker, s.step, s.began_at, s.ended_at] for s in run.spans]
        assert flat(browsers) == pytest.approx(flat([facts, run.applied_at, spans]), rel=1e-9)
        chart.close()


def test_the_browser_computes_roofs_lineage_and_ways_as_python_does(sheet: Any) -> None:
    page = sheet("about:blank")
    for name, exported in (
        ("roofline", "{ attainable }"),
        ("lineage", "{ madeAgain, begunAgain }"),
        ("options", "{ rows }"),
    ):
        text = module(f"{name}.js").replace("export default { render };", "")
        text = text.replace(f"export {exported};", f"Object.assign(window, {exported});")
        page.add_script_tag(content="{" + text + "}")
    points = [[i, *rates] for i in (0.1, 8.0, 500.0) for rates in DEVICES.values()]
    got = page.evaluate("(all) => all.map(([i, f, b]) => attainable(i, f, b))", points)
    assert got == [attainable(*point) for point in points]
    runs = [
        {"partitions": n, "steps": s, "shuffle": w, "cached": c, "stored": d}
        for n, s in ((2, 1), (3, 5), (8, 8))
        for w, c, d in product((0, 1, 3), repeat=3)
    ]
    cells = "(set) => [...set].map((cell) => cell.split(' ').map(Number))"
    sets = f"(all) => all.map((g) => [madeAgain(g), begunAgain(g)].map({cells}))"
    for run, (made, begun) in zip(runs, page.evaluate(sets, runs), strict=True):
        assert {tuple(cell) for cell in made} == list_recomputed(**run)
        kept = run["partitions"], run["steps"], run["stored"]
        assert {tuple(cell) for cell in begun} == list_restarted(*kept)
    for workers, seconds, size, speed in product(
        (1, 2, 8), (1e-3, 2.0), (2**20, 2**33), (1e8, 4e10)
    ):
        given = {"workers": workers, "batch": seconds, "model": size, "bandwidth": speed}
        want = rows(workers, seconds, size, speed)
        for way, found in page.evaluate("(given) => rows(given)", given).items():
            assert found == pytest.approx(list(want[way]), rel=1e-12)


def test_the_roofline_is_dragged_and_measures_the_browser(open_demo: Any) -> None:
    page = open_demo("roofline")
    expect(status(page)).to_contain_text("Memory bounds it")
    box = page.locator(".dl-wide > svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.95 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.up()
    expect(status(page)).to_contain_text("Computing bounds it")
    page.get_by_role("button", name="Measure this device").click()
    expect(page.get_by_role("combobox", name="Device")).to_have_value("this browser")
    names = page.locator("text[style]").evaluate_all(
        "(all) => all.map((text) => text.getBoundingClientRect().toJSON())"
    )
    for one, other in combinations(names, 2):  # on a roof that may be flat all along
        apart = (one["right"] <= other["left"], other["right"] <= one["left"])
        assert any(apart) or abs(one["y"] - other["y"]) > 8
    page.get_by_role("slider", name="Operations a byte").press("ArrowLeft")
    expect(status(page)).to_contain_text("bounds it")


def test_the_servers_follow_their_controls_by_keyboard(open_demo: Any) -> None:
    page = open_demo("parameter_servers")
    expect(status(page)).to_contain_text("synchronous: 14 updates")
    expect(page.get_by_role("slider", name="Staleness")).to_be_disabled()
    page.get_by_role("slider", name="Backup workers").press("ArrowRight")
    expect(page.locator("[role=img] rect.dl-b").first).to_be_visible()
    page.get_by_role("combobox", name="Consistency").select_option("async")
    expect(status(page)).to_contain_text("asynchronous: 84 updates")
    expect(page.locator("[role=img] rect.dl-ghost")).to_have_count(0)
    page.get_by_role("slider", name="Workers", exact=True).press("ArrowLeft")
    expect(status(page)).to_contain_text("asynchronous: 70 updates")


def test_the_browser_goes_through_pipelines_and_splits_as_python_does(sheet: Any) -> None:
    page = sheet("about:blank")
    for name, exported in (
        ("pipeline_schedules", "{ simulate }"),
        ("matrix_split", "{ plan, ringBytes }"),
    ):
        text = module(f"{name}.js").replace("export default { render };", "")
        text = text.replace(f"export {exported};", f"Object.assign(window, {exported});")
        page.add_script_tag(content="{" + text + "}")
    steps = [
        {"schedule": s, "ranks": r, "microbatches": m, "chunks": c, "ratio": q}
        for s in ("naive", "gpipe", "1f1b", "interleaved_1f1b", "zero_bubble")
        for r in (1, 2, 3, 8)
        for m, c, q in ((1, 1, 2.0), (7, 2, 0.5), (13, 3, 2.0), (32, 2, 3.0))
    ]
    got = page.evaluate(
        "(cases) => cases.map((c) => { const s = simulate(c); return [s.makespan, s.idle, "
        "s.spans.map((row) => row.map((a) => `${a.stage}${a.kind}${a.m}`))]; })",
        steps,
    )
    for case, (makespan, idle, actions) in zip(steps, got, strict=True):
        chart = PipelineSchedules(**case)
        step = chart.step()
        chart.close()
        assert actions == step.actions, case
        assert [makespan, idle] == pytest.approx([step.makespan, step.bubble_fraction]), case
    for way in WAYS:
        ours = page.evaluate(
            "(way) => { const p = plan({ way, rows: 6, width: 8, hidden: 24 }); "
            "return [p.cuts, p.sent, ringBytes(p.sent, 3)]; }",
            way,
        )
        cuts, sent = plan(way, 6, 8, 24)
        assert ours[:2] == [cuts, [list(row) for row in sent]]
        assert ours[2] == pytest.approx(ring_bytes(sent, 3))


def test_the_browser_predicts_the_efficiency_that_python_does(sheet: Any) -> None:
    page = sheet("about:blank")
    text = module("scaling_curves.js").replace("export default { render };", "")
    text = text.replace("export { efficiency };", "Object.assign(window, { inputs, efficiency });")
    page.add_script_tag(content=text)
    rng, asked, want = random.Random(5), [], []
    for name in published.cited_runs():
        for strategy in ("all_reduce", "parameter_server", "zero3"):
            at = {
                "gbit": rng.choice([5, 25, 400]),
                "latency_us": rng.choice([0.5, 30]),
                "bucket_mib": rng.choice([1 / 16, 4, 64]),
                "servers": rng.choice([0, 1, 8]),
            }
            chart = ScalingCurves(model=name, strategy=strategy, **at)
            ranks, overlap = rng.choice([1, 2, 8, 512]), rng.random() < 0.7
            asked.append([{n: getattr(chart, n) for n in chart.state_names}, ranks, overlap])
            want.append(chart.efficiency(ranks, overlap))
            chart.close()
    got = page.evaluate(
        "(asked) => asked.map(([s, p, o]) => efficiency(inputs((name) => s[name]), p, o))", asked
    )
    assert got == pytest.approx(want, rel=1e-9)


def test_the_scaling_curves_follow_model_and_sliders(open_demo: Any) -> None:
    page = open_demo("scaling_curves")
    expect(status(page)).to_contain_text("VGG-16, P100s on 512 devices: 79.5 % with overlap")
    expect(page.locator("circle[data-point]")).to_have_count(1)
    page.get_by_role("slider", name="Devices").press("ArrowRight")
    expect(status(page)).to_contain_text("on 1024 devices")
    page.get_by_role("combobox", name="Model").select_option("BERT-Large, K80s")
    expect(page.locator("circle[data-point]")).to_have_count(3)
    expect(status(page)).to_contain_text("BERT-Large, K80s on 8 devices")
    servers = page.get_by_role("slider", name="Servers")
    expect(servers).to_be_hidden()
    page.get_by_role("combobox", name="Strategy").select_option("parameter_server")
    expect(servers).to_be_visible()


def test_the_comparison_finds_a_difference() -> None:
    assert flat([[0, 1], 2.0]) != pytest.approx(flat([[0, 1], 2.001]), rel=1e-9)
    assert flat([[[0], 1.0]]) != pytest.approx(flat([[[0, 1], 1.0]]))


def flat(value: Any) -> list[float]:
    """Return the numbers of nested lists in order, each list's length before its own."""
    if not isinstance(value, list):
        return [value]
    return [float(len(value)), *(number for part in value for number in flat(part))]


# Voila


def in_voila(address: str, visit: Any, name: str) -> tuple[Any, list[str]]:
    browser = visit()
    requests: list[str] = []
    browser.context.on("request", lambda request: requests.append(request.url))
    return browser.open(f"{address}voila/render/{name}/{name}.ipynb"), requests


def foreign(requests: list[str], address: str) -> list[str]:
    return [url for url in requests if not url.startswith((address, "blob:", "data:"))]


def test_a_bucket_dragged_wider_has_a_slower_link(open_demo: Any) -> None:
    page = open_demo("ddp_timeline")
    bandwidth = page.get_by_role("slider", name="Bandwidth")
    before = float(bandwidth.input_value())
    bucket = page.locator("[data-lane=link]").first
    box = bucket.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 1.5 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.up()
    expect(bandwidth).not_to_have_value(str(before))
    assert float(bandwidth.input_value()) == pytest.approx(before - 1, abs=0.26)  # half as fast


def test_the_timeline_says_why_the_recording_differs_part_by_part(open_demo: Any) -> None:
    page = open_demo("ddp_timeline")
    page.get_by_role("button", name="As recorded").click()
    text = page.locator(".dl-why").inner_text()
    unit = {"µs": 1e-3, "ms": 1.0, "s": 1e3}
    found = re.findall(r"(−|\+|: )([\d.]+) (µs|ms|s)\b", text)
    times = [float(n) * unit[u] * (-1 if sign == "−" else 1) for sign, n, u in found]
    recorded, predicted, *parts = times[:6]
    assert sum(parts) == pytest.approx(recorded - predicted, abs=0.01 * recorded)  # 3 digits


def test_in_voila_the_timeline_lies_over_a_recorded_step(
    voila: str, visit: Any, audit: Any
) -> None:
    page, requests = in_voila(voila, visit, "ddp_timeline")
    expect(page.locator(".dl-timeline")).to_have_count(2)
    measured = page.locator(".dl-timeline").nth(1)
    expect(measured.locator("[data-lane='recorded compute']").first).to_be_visible()
    expect(measured.locator("[data-lane='recorded link']").first).to_be_visible()
    expect(measured.get_by_text("as given")).to_be_visible()
    expect(page.locator(".dl-numbers dt").first).to_be_visible()
    assert audit(page, ".dl-chart") == []
    assert foreign(requests, voila) == []


def test_in_voila_the_curves_grow_while_runs_train(voila: str, visit: Any, audit: Any) -> None:
    page, requests = in_voila(voila, visit, "training_curves")
    expect(page.locator("path[data-run]")).to_have_count(4)
    expect(status(page)).to_have_text(re.compile(r"PowerSGD, rank 1 \S+ at 199"))
    assert audit(page, ".dl-chart") == []
    assert foreign(requests, voila) == []


def test_in_voila_the_explorer_explores(voila: str, visit: Any, audit: Any) -> None:
    page, requests = in_voila(voila, visit, "collectives_explorer")
    page.get_by_role("slider", name="Ranks").press("End")
    expect(status(page)).to_have_text(re.compile("on 8 ranks"))
    assert audit(page, ".dl-chart") == []
    assert foreign(requests, voila) == []


# What nobody had in mind


def odd(name: str) -> Any:
    """Return a chart of a case at the edge."""
    nothing = StepTimes(0, 0, 0, 0, (), ())
    return {
        "no step": lambda: DdpTimeline.of(BackwardProfile(0.0, [0.0], [0], ["w"]), 1, nothing),
        "no loss": lambda: TrainingCurves(),
        "no finite loss": lambda: TrainingCurves({"a": [math.nan, math.inf]}, log_y=True),
        "a long name": lambda: TrainingCurves({"b" * 200: [1e-300, 1e300]}, log_y=True),
        "a long title": lambda: DdpTimeline(title="T" * 300),
    }[name]()


ODD = {
    "no step": "with 1 bucket;",
    "no loss": "Nothing yet.",
    "no finite loss": "Nothing yet.",
    "a long name": "1e300 at 1.",
    "a long title": "A step takes",
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_shown_within_the_page(visit: Any, tmp_path: Path, name: str) -> None:
    chart = odd(name)
    browser = visit()
    errors: list[str] = []
    browser.context.on("weberror", lambda error: errors.append(str(error.error)))
    page = browser.open(chart.save(tmp_path / "odd.html").as_uri())
    chart.close()
    expect(status(page)).to_contain_text(ODD[name])
    assert "NaN" not in page.locator(".dl-chart").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".dl-chart svg text").count() < 60
    assert errors == []


# JupyterLab

CELL = """import ipywidgets as widgets
from ddp_lab.show import CollectivesExplorer, DdpTimeline, TrainingCurves, explore
timeline = DdpTimeline(layers=2)
explorer = CollectivesExplorer(explore([2, 3], {"all_reduce": ("ring", "tree")}))
curves = TrainingCurves({"a": [3, 2, 1]})
heard = widgets.Label("nothing heard")
def hear(change):
    heard.value = f"heard {change.name} {change.new:g}"
    curves.add("b", change.new)
timeline.observe(hear, "contention")
explorer.observe(hear, "ranks")
widgets.VBox([timeline, explorer, curves, heard])"""


def test_in_jupyterlab_sliders_reach_the_kernel_and_the_kernel_the_curves(in_lab: Any) -> None:
    browser, page = in_lab([CELL])
    lost = page.get_by_role("slider", name="Compute lost beside the link")
    lost.focus()
    page.keyboard.press("End")
    expect(page.get_by_text("heard contention 1", exact=True)).to_be_visible()
    expect(page.locator("path[data-run='b']")).to_have_count(1)
    ranks = page.get_by_role("slider", name="Ranks")
    ranks.scroll_into_view_if_needed()
    ranks.press("ArrowRight")
    expect(page.get_by_text("heard ranks 3", exact=True)).to_be_visible()
    expect(page.locator(".dl-curves [role=status]")).to_have_text(re.compile("b 3 at 1"))
    assert browser.hosts <= {"127.0.0.1", ""}


def test_the_explorer_shows_what_was_timed_over_a_link_where_it_was(open_demo: Any) -> None:
    page = open_demo("collectives_explorer")
    points = page.locator("circle[data-measured]")
    expect(points).to_have_count(0)
    page.get_by_role("button", name="As recorded").click()
    expect(points).to_have_count(5 * 4)  # algorithms by sizes
    expect(status(page)).to_have_text(re.compile("on 4 ranks"))
    page.get_by_role("slider", name="Latency of a message").press("Home")
    expect(points).to_have_count(0)


def test_every_gpu_of_the_mesh_demos_dgx_has_six_links(sheet: Any) -> None:
    page = sheet((DEMOS / "plan_on_mesh" / "plan_on_mesh.html").as_uri())
    titles = page.locator("path[data-links] title").all_text_contents()
    links = [[int(n) for n in re.findall(r"\d+", title)][:3] for title in titles]
    ends = [gpu for one, other, count in links for gpu in (one, other) for _ in range(count)]
    assert [ends.count(gpu) for gpu in range(8)] == [6] * 8
