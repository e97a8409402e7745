"""A released lab as a learner on Colab has it: a notebook, one file to upload, an empty folder.

The kernel is that of an environment which has what Colab has (all that is installed here) and
nothing of this course. The set-up cell installs the real wheel, by pip, without an index. What
stands for Colab is its environment and its `google.colab`, whose upload copies a file, and whose
page hands over the notebook. The course server is one that stores.
"""

import base64
import json
import os
import re
import shutil
import threading
import venv
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import find_labs, load_lab
from autograder.cli import main
from autograder.formats.colab import CHECKOUT

SAMPLE = Path(__file__).parent / "sample_labs" / "scale_and_sum"
COURSE = ("__editable__", "mlsys_labs", "autograder", "ddp_lab", "lessons", "minitorch")
PICTURE = "<svg xmlns='http://www.w3.org/2000/svg'><circle r='5'/></svg>"
COLAB = {
    "__init__.py": "from google.colab import _message, files, output",
    "_message.py": """
import json, os
def blocking_request(request_type, request="", timeout_sec=5, parent=None):
    if request_type == "get_ipynb":
        with open(os.environ["SHOWN"]) as page:
            return {"ipynb": json.load(page)}
""",
    "files.py": """
import os, shutil
def upload():
    print("choose a file")
    shutil.copy(os.environ["CHOSEN"], os.getcwd())
""",
    "output.py": """
class _widgets:
    _installed_url = None
def enable_custom_widget_manager():
    _widgets._installed_url = "https://colab.example/manager.js"
    print("custom widgets are enabled")
""",
}  # what of google.colab the course and its widgets use

LAST = """
import os
import ddp_lab, lessons.timing, minitorch
from ddp_lab.show import DdpTimeline
print("works in", os.getcwd())
print("course from", ddp_lab.__file__)
print("ranks", ddp_lab.launch(lambda comm: int(comm.all_reduce(minitorch.ones(1).numpy())[0]), 2))
print("panel", q._repr_mimebundle_()[1])
q.submit()
print("style", len(DdpTimeline(layers=1)._css) > 0, os.path.exists("checks.py"))
q
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment that has all that is installed here but the course."""
    folder = tmp_path_factory.mktemp("bare") / "env"
    venv.EnvBuilder(symlinks=True).create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for path in Path(pytest.__file__).parents[1].iterdir():
        if path.suffix != ".pth" and not path.name.startswith(COURSE):
            (site / path.name).symlink_to(path)
    (site / "google" / "colab").mkdir(parents=True, exist_ok=True)
    for name, text in COLAB.items():
        (site / "google" / "colab" / name).write_text(text)
    return folder / "bin" / "python"


@pytest.fixture
def on_colab(bare: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Return a way to run a notebook there: what each of its code cells printed."""
    content = tmp_path / "content"
    content.mkdir()

    def run(notebook: dict[str, Any], chosen: Path, **more: str) -> list[str]:
        import nbformat
        from jupyter_client.kernelspec import KernelSpecManager
        from jupyter_client.manager import KernelManager
        from nbclient import NotebookClient

        launch = [str(bare), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = tmp_path / "kernels" / "colab" / "kernel.json"
        spec.parent.mkdir(parents=True)
        spec.write_text(json.dumps({"argv": launch, "display_name": "Colab", "language": "python"}))
        specs = KernelSpecManager(kernel_dirs=[str(tmp_path / "kernels")])
        manager = KernelManager(kernel_name="colab", kernel_spec_manager=specs)
        ran = nbformat.reads(json.dumps(notebook), as_version=4)
        resources = {"metadata": {"path": str(content)}}
        shown = tmp_path / "the page.json"
        shown.write_text(json.dumps(notebook))
        client = NotebookClient(ran, km=manager, timeout=240, resources=resources)
        try:
            client.execute(env=environment(tmp_path, bare, chosen) | {"SHOWN": str(shown), **more})
        finally:  # a kernel that is given to nbclient stays ours
            if client.kc is not None:
                client.kc.stop_channels()
            manager.shutdown_kernel(now=True)
        return [printed(cell) for cell in ran.cells if cell.cell_type == "code"]

    return run


def environment(home: Path, python: Path, chosen: Path) -> dict[str, str]:
    """Return Colab's environment: a tag of its release, and no word of this checkout."""
    kept = {name: os.environ[name] for name in ("LANG", "OMP_NUM_THREADS") if name in os.environ}
    return {
        **kept,
        "COLAB_RELEASE_TAG": "release-colab_20260101",
        "CHOSEN": str(chosen),
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_COMPILE": "1",  # all of the course, of which a lab imports little
        "PIP_NO_INDEX": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }


@pytest.fixture
def server() -> Iterator[tuple[str, list[bytes]]]:
    """Return the address of a course server that keeps what is handed in, and what it keeps."""
    kept: list[bytes] = []

    class Keeps(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = {"code": "once"}
            if self.path == "/api/submissions":
                kept.append(body)
                answer = {"id": 7, "state": "stored", "url": "unused"}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Keeps) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}", kept
        listening.shutdown()
        thread.join()


def printed(cell: Any) -> str:
    shown = (o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs)
    return "\n".join(shown)


def released(lab: Path, out: Path) -> tuple[Path, dict[str, Any]]:
    """Release a lab for Colab; return its folder and its notebook, the answers written in."""
    assert main(["release", str(lab), "-o", str(out), "--colab"]) == 0
    folder = out / lab.name
    content = json.loads((folder / "colab.ipynb").read_text())
    solved = json.loads(solution_notebook(load_lab(lab)))
    answers = {cell["id"]: cell["source"] for cell in solved["cells"]}
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = answers.get(cell["id"], cell["source"])
    last = {"cell_type": "code", "id": "last", "metadata": {}, "source": LAST}
    content["cells"].append({**last, "outputs": [], "execution_count": None})
    return folder, content


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return the released sample lab, with a picture in its text, and its solved notebook."""
    lab = tmp_path_factory.mktemp("labs") / "scale_and_sum"
    shutil.copytree(SAMPLE, lab, ignore=shutil.ignore_patterns("*.ipynb", "__pycache__"))
    (lab / "assets").mkdir()
    (lab / "assets" / "dot.svg").write_text(PICTURE)
    source = (lab / "lab.py").read_text()
    shown = source.replace("# ## Scaling\n", "# ## Scaling\n#\n# ![a dot](assets/dot.svg)\n")
    (lab / "lab.py").write_text(shown)
    return released(lab, tmp_path_factory.mktemp("out"))


def test_a_lab_runs_on_colab_from_one_cell_and_one_file(
    sample: Any, tmp_path: Path, on_colab: Any, bare: Path, server: Any
) -> None:
    folder, content = sample
    address, kept = server
    asks = {"AUTOGRADER_SERVER": address, "AUTOGRADER_TOKEN": "token"}
    shown = base64.b64encode(PICTURE.encode()).decode()
    text = "".join("".join(cell["source"]) for cell in content["cells"])
    assert f"![a dot](data:image/svg+xml;base64,{shown})" in text

    first, *_, last = said = on_colab(content, folder / "scale_and_sum_colab.zip", **asks)
    assert "choose a file" in first
    assert "✓ scale: correct." in "".join(said)
    assert "✗" not in "".join(said[:-1])
    assert f"works in {(tmp_path / 'content' / folder.name).resolve()}" in last
    assert f"course from {bare.parents[1]}" in last
    assert "ranks [2, 2]" in last
    assert "style True True" in last
    assert f"Submitted lab.ipynb. The grade will be at {address}/enter?" in last
    assert len(kept) == 1 and b"return x * factor" in kept[0]
    assert "custom widgets are enabled" in last
    assert "{'colab': {'custom_widget_manager': {'url': 'https://colab.example" in last


@pytest.mark.wide
@pytest.mark.parametrize("lab", find_labs(CHECKOUT / "labs"), ids=lambda lab: lab.name)
def test_every_lab_of_the_course_runs_on_colab(lab: Path, tmp_path: Path, on_colab: Any) -> None:
    folder, content = released(lab, tmp_path / "out")
    said = on_colab(content, folder / f"{lab.name}_colab.zip")
    marks = [
        line[0] for text in said for line in text.splitlines() if line[:2] in ("✓ ", "✗ ", "○ ")
    ]
    assert set(marks) == {"✓"}


def test_without_the_file_the_cell_says_what_to_upload(
    sample: Any, tmp_path: Path, on_colab: Any
) -> None:
    from nbclient.exceptions import CellExecutionError

    folder, content = sample
    missing = f"scale_and_sum_colab.zip is not in {(tmp_path / 'content').resolve()}"
    with pytest.raises(CellExecutionError, match=re.escape(missing)):
        on_colab(content, folder / "lab.json")
