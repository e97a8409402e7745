"""Every widget in what VS Code shows a notebook's outputs in, by anywidget's own front end.

VS Code's Jupyter extension comes from a marketplace, so it is not part of this test. What it does
to widgets is: a page whose body says the theme (`vscode-dark`, `data-vscode-theme-kind`), colours
as `--vscode-*` variables, no JupyterLab around, require.js, and anywidget's front end as pip
installs it. The content policy here is stricter than VS Code's: no eval, nothing from outside.
With `wide`, the widget host is the extension's own, `@vscode/jupyter-ipywidgets8`, by npm.
"""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pages import expect

HERE = Path(__file__).parent / "vscode"
SAMPLE = Path(__file__).parents[1] / "autograder" / "sample_labs" / "scale_and_sum"
SHARE = Path(sys.prefix) / "share" / "jupyter"
FRONT_END = SHARE / "nbextensions" / "anywidget" / "index.js"
REQUIRE = SHARE / "voila" / "templates" / "base" / "static" / "require.min.js"

DARK = {"editor-background": "#1f1f1f", "editor-foreground": "#cccccc", "focusBorder": "#0078d4"}
LIGHT = {"editor-background": "#ffffff", "editor-foreground": "#3b3b3b", "focusBorder": "#005fb8"}
BLACK = {"editor-background": "#000000", "editor-foreground": "#ffffff", "focusBorder": "#f38518"}
WHITE = {"editor-background": "#ffffff", "editor-foreground": "#292929", "focusBorder": "#006bbd"}
FONT = {"font-size": "13px", "font-family": "system-ui, sans-serif"}
THEMES = {  # kind: its colours, and whether it is dark
    "vscode-light": (LIGHT, False),
    "vscode-dark": (DARK, True),
    "vscode-high-contrast": (BLACK, True),
    "vscode-high-contrast-light": (WHITE, False),
}
PAPER = {False: "rgb(255, 255, 255)", True: "rgb(20, 24, 29)"}
STRICT = (
    "default-src 'none'; script-src 'self' blob:; style-src 'self' 'unsafe-inline'; img-src data:"
)
ITS_OWN = "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
ITS_OWN += "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:"
WIDGETS = ".mt-player, .dl-chart, .ring-player"

pytestmark = pytest.mark.browser


def widgets() -> list[Any]:
    """Return one of each kind of widget that the labs show, the panel last."""
    import minitorch as mt
    from autograder.learner.notebook_ui import Notebook
    from autograder.learner.panel import Panel
    from autograder.learner.practice import Practice
    from ddp_lab.show import (
        CollectivesExplorer,
        DdpTimeline,
        Lineage,
        MatrixSplit,
        PipelineSchedules,
        PlanOnMesh,
        RingPlayer,
        Roofline,
        ServerTimeline,
        TrainingCurves,
        watch,
    )
    from ddp_lab.show.collectives_explorer import explore
    from minitorch.show import step_through

    x = mt.tensor([1.0, 2.0], requires_grad=True)
    run = watch(lambda comm, x: comm.all_reduce(x, algorithm="ring"), [np.arange(8.0) + 1] * 2)
    panel = Panel(Notebook(Practice(SAMPLE, {}, list)))
    panel.draw()
    return [
        step_through((x * x).sum(), names={"x": x}).player(),
        RingPlayer(run.story("Two ranks")),
        DdpTimeline(layers=4),
        CollectivesExplorer(explore([2, 3], {"all_reduce": ("ring", "tree")})),
        ServerTimeline(workers=3),
        TrainingCurves({"ring": [3, 2, 1], "tree": [3, 1, 0.5]}, log_y=True),
        PipelineSchedules(),
        MatrixSplit(),
        PlanOnMesh(),
        Lineage(),
        Roofline(),
        panel,
    ]


@pytest.fixture(scope="module")
def saved() -> list[dict[str, Any]]:
    """Return what a kernel would tell a page of each widget."""
    found = []
    for widget in widgets():
        found.append({"id": widget.model_id, "state": state_of(widget)})
        widget.close()
    return found


def state_of(widget: Any) -> dict[str, Any]:
    """Return what a widget tells its front end, without its layout, which is a widget too."""
    return {name: value for name, value in widget.get_state().items() if name != "layout"}


@pytest.fixture(scope="module")
def routes(saved: list[dict[str, Any]]) -> dict[str, bytes]:
    """Return the files of the page by their names, to be added to."""
    config = "requirejs.config({ paths: { anywidget: '/anywidget' } });"
    state = {
        widget["id"]: {
            "model_name": "AnyModel",
            "model_module": "anywidget",
            "model_module_version": widget["state"]["_model_module_version"],
            "state": widget["state"],
        }
        for widget in saved
    }
    own = {name: (HERE / name).read_bytes() for name in ("violations.js", "plain.js", "vscode.js")}
    return {
        **own,
        "require.js": REQUIRE.read_bytes(),
        "anywidget.js": FRONT_END.read_bytes(),
        "widgets.js": f"window.saved_widgets = {json.dumps(saved)};\n"
        f"window.saved_state = {json.dumps(state)};\n{config}".encode(),
    }


def webview(kind: str, host: str, more: str = "") -> bytes:
    """Return the page in a theme; `more` are further classes of its body."""
    text = (HERE / "webview.html").read_text(encoding="utf-8")
    styles = {**THEMES[kind][0], **FONT}
    classes = [kind, more, "vscode-high-contrast" if "contrast" in kind else ""]
    parts = {
        "STYLES": "; ".join(f"--vscode-{name}: {value}" for name, value in styles.items()),
        "CLASSES": " ".join(classes),
        "KIND": kind,
        "HOST": host,
        "TYPE": "text/javascript" if host == "plain" else "module",
    }
    return "".join(parts.get(part, part) for part in text.split("@")).encode()


@pytest.fixture(scope="module")
def server(routes: dict[str, bytes]) -> Iterator[str]:
    """Return the address of the page: /THEME/HOST and further classes of its body after `?`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, more = self.path.partition("?")
            name = path.strip("/")
            body = routes.get(name.rpartition("/")[2])
            kind = "text/javascript"
            if body is None and name.count("/") == 1:
                body, kind = webview(*name.split("/"), more), "text/html; charset=utf-8"
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", kind)
            policy = STRICT if "/plain" in path else ITS_OWN
            self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}/"
        running.shutdown()
        thread.join()


@pytest.fixture
def in_vscode(server: str, visit: Any) -> Callable[..., Any]:
    """Return a way to open all widgets in a theme of VS Code, on a machine of the other one."""

    def go(kind: str, host: str = "plain", more: str = "", **options: Any) -> Any:
        other = "light" if THEMES[kind][1] else "dark"
        browser = visit(color_scheme=other, **options)
        page = browser.open(f"{server}{kind}/{host}?{more}")
        page.wait_for_selector("body[data-ready=true]", state="attached")
        expect(page.locator(WIDGETS)).to_have_count(11)  # `widgets` but the panel
        expect(page.locator(".course-panel")).to_be_visible()
        assert browser.hosts <= {"127.0.0.1", ""}  # blobs have none
        return page

    return go


@pytest.mark.parametrize("kind", THEMES)
def test_every_widget_takes_the_theme_of_vscode_and_owes_nothing(
    in_vscode: Any, audit: Any, kind: str
) -> None:
    page = in_vscode(kind, reduced_motion="reduce")
    papers = page.locator(WIDGETS).evaluate_all(
        "(nodes) => nodes.map((node) => getComputedStyle(node).backgroundColor)"
    )
    assert set(papers) == {PAPER[THEMES[kind][1]]}
    assert page.locator(".course-panel").get_attribute("data-dark") == str(THEMES[kind][1]).lower()
    by_keys = "contrast" not in kind  # which changes no more than colours around the widgets
    assert audit(page, f"{WIDGETS}, .course-panel", keys=by_keys) == []
    assert page.evaluate("() => window.refused") == []


def test_keys_reach_the_widgets_and_what_they_change_goes_to_the_kernel(in_vscode: Any) -> None:
    page = in_vscode("vscode-dark", reduced_motion="reduce")
    forward = page.locator(".mt-player").get_by_role("button", name="One step forward")
    forward.press("ArrowRight")
    expect(page.locator(".mt-player [role=status]")).to_contain_text("Forward 1 of")
    page.locator(".ring-player").get_by_label("Round", exact=True).press("ArrowRight")
    expect(page.locator(".ring-player [role=status]")).to_have_text("Round 1 of 2.")
    page.get_by_role("slider", name="Layers").press("ArrowRight")
    saved = page.evaluate("() => window.models.map((model) => model.saved)")
    assert saved[:3] == [[{"at": 1}], [{"round": 1}], [{"layers": 5}]]


def test_nothing_moves_where_vscode_is_told_that_motion_is_unwanted(in_vscode: Any) -> None:
    page = in_vscode("vscode-light", more="vscode-reduce-motion")
    page.evaluate(
        "() => { window.frames_asked = 0; const ask = window.requestAnimationFrame;"
        " window.requestAnimationFrame = (f) => { window.frames_asked += 1; return ask(f); } }"
    )
    page.locator(".mt-player").get_by_role("button", name="Back to the start").click()
    page.locator(".mt-player").get_by_role("button", name="One step forward").click()
    expect(page.locator(".mt-player [role=status]")).to_contain_text("Forward 1 of")
    assert page.evaluate("() => document.getAnimations().length") == 0
    page.locator(".ring-player").get_by_role("button", name="Back to the start").click()
    page.locator(".ring-player").get_by_role("button", name="One round forward").click()
    expect(page.locator(".ring-player [role=status]")).to_have_text("Round 1 of 2.")
    assert page.evaluate("() => window.frames_asked") == 0


@pytest.mark.parametrize(
    ("module", "refused"),
    [
        ("fetch('https://example.invalid/font')", "connect-src"),
        ("try { new Function('return 1')() } catch {}", "script-src"),
        ("new Image().src = 'https://example.invalid/x.png'", "img-src"),
    ],
)
def test_a_widget_that_asks_for_more_is_refused_and_found(
    in_vscode: Any, routes: dict[str, bytes], module: str, refused: str
) -> None:
    page = in_vscode("vscode-light")
    page.evaluate(
        "(text) => { const url = URL.createObjectURL(new Blob([text],"
        " { type: 'text/javascript' })); return import(url).catch(() => 0) }",
        module,
    )
    page.wait_for_function("() => window.refused.length > 0")
    assert page.evaluate("() => window.refused[0]").startswith(refused)


@pytest.fixture(scope="module")
def extension(routes: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have the widget host of VS Code's Jupyter extension beside the page, by npm."""
    folder = tmp_path_factory.mktemp("npm")
    command = ["npm", "pack", "--silent", "@vscode/jupyter-ipywidgets8@1.0.9"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    shutil.unpack_archive(folder / said.stdout.split()[-1], folder)
    routes["ipywidgets.js"] = (folder / "package" / "dist" / "ipywidgets.js").read_bytes()


@pytest.mark.wide
@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("kind", ["vscode-light", "vscode-dark"])
def test_the_widget_host_of_vscode_itself_shows_every_widget(
    in_vscode: Any, audit: Any, kind: str
) -> None:
    page = in_vscode(kind, host="vscode", reduced_motion="reduce")
    assert audit(page, f"{WIDGETS}, .course-panel") == []
    forward = page.locator(".mt-player").get_by_role("button", name="One step forward")
    forward.press("ArrowRight")
    expect(page.locator(".mt-player [role=status]")).to_contain_text("Forward 1 of")
    assert page.evaluate("() => window.models.map((model) => model.get('at'))")[0] == 1
    assert page.evaluate("() => [window.refused, window.failed]") == [[], None]
