"""Run lab 18 beside the labs before, all with their solutions, and record the layers of its model.

python labs/demos/language_model/recorded.py      writes recorded.json beside this file

It takes the minutes that the lab takes. A layer is its name, what it is, whether it is a
learner's, how many lines it has, and the seconds of its own in three steps of training, a checkpoint and a reply of 20 tokens.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

KEPT = Path(__file__).with_name("recorded.json")
LABS = KEPT.parents[2]
LAST = """
import json
print(json.dumps(rows))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        release = [sys.executable, "-m", "autograder", "release", str(LABS), "-o", folder]
        subprocess.run([*release, "--solutions"], check=True)
        for solved in Path(folder).glob("*/solution.ipynb"):
            solved.replace(solved.with_name("lab.ipynb"))  # where lab 18 looks for earlier pieces
        path = Path(folder) / "18_language_model" / "lab.ipynb"
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        notebook.cells.append(nbformat.v4.new_code_cell(LAST))  # type: ignore[no-untyped-call]
        where = {"metadata": {"path": str(path.parent)}}
        NotebookClient(notebook, timeout=900, resources=where).execute()
    rows = json.loads(notebook.cells[-1].outputs[0].text)
    KEPT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for name, words, is_mine, lines, seconds in rows:
        whose = "own" if is_mine else "the course's"
        print(f"{name:16} {words:26} {lines:4} lines {seconds:8.3f} s, {whose}")


if __name__ == "__main__":
    main()
