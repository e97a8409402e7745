"""A course server, its graders and its learners; a prediction server and its clients: on hosts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import load_lab
from ddp_lab.launch.hosts import Hosts

SAMPLES = Path(__file__).parents[1] / "autograder" / "sample_labs"
AUTOGRADER = ("-m", "autograder")
WAIT_GRADED = """
    import sys, threading
    from autograder.service.client import Connection

    connection = Connection(sys.argv[1], sys.argv[2])
    pause = threading.Event()
    while (found := connection.submission(sys.argv[3]))["state"] != "graded":
        pause.wait(0.05)
    print("score", found["score"], "of", found["max_score"])
"""


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_submission_from_one_host_is_graded_on_another_for_a_server_on_a_third(
    hosts: Callable[..., Hosts], on: Any, script: Any, tmp_path: Path
) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: the extra `grade`")
    three, data, notebook = hosts(3), tmp_path / "data", tmp_path / "lab.ipynb"
    notebook.write_text(solution_notebook(load_lab(SAMPLES / "scale_and_sum")))
    at = ["--host", "10.9.0.1", "--port", "8786", "--no-dashboard"]
    on(three, 0, ["-m", "distributed.cli.dask_scheduler", *at]).wait_for("Scheduler at")
    cluster = "tcp://host1:8786"
    options = ["--nthreads", 1, "--no-nanny", "--no-dashboard", "--memory-limit", 0]
    place = ["--local-directory", tmp_path]
    worker = on(three, 1, ["-m", "distributed.cli.dask_worker", cluster, *options, *place])
    serve = ["--host", "10.9.0.1", "--port", 8000, "--data", data, "--labs", SAMPLES]
    server = on(three, 0, [*AUTOGRADER, "serve", *serve, "--scheduler", cluster])
    server.wait_for("Course server")
    worker.wait_for("Registered to")
    url = "http://host1:8000"

    def last_word(host: int, *words: object) -> str:
        program = on(three, host, [*AUTOGRADER, *words, "--server", url])
        assert program.end() == 0, program.text + server.text
        return str(program.text.split()[-1])

    staff = (data / "instructor.token").read_text().strip()
    ada = last_word(2, "enroll", "Ada", "--token", staff)
    number = last_word(2, "submit", SAMPLES / "scale_and_sum", notebook, "--token", ada)
    graded = on(three, 2, [script(WAIT_GRADED), url, ada, number])
    assert graded.end() == 0, graded.text
    assert graded.lines[0] == "score 8.0 of 10.0"  # two are for people to give


APP = """
    import os, socket

    def double(batch):
        return [2 * x for x in batch]

    async def setup(server):
        await server.deploy("double", double)
        await server.link("twice", ["double"], default=-1)

    options = {"slo_ms": 60_000.0}
"""
CLIENT = """
    import json, sys, urllib.request

    for x in range(5):
        body = json.dumps({"x": x}).encode()
        request = urllib.request.Request(
            "http://host1:8001/apps/twice/predict", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            print(json.load(answer)["value"])
"""


def test_clients_on_other_hosts_get_predictions(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    three, client = hosts(3), script(CLIENT)
    serve = ["-m", "minitorch.serve", script(APP), "--host", "10.9.0.1", "--port", 8001]
    server = on(three, 0, serve)
    server.wait_for("Serving at http://10.9.0.1:8001")
    clients = [on(three, host, [client]) for host in (1, 2)]
    for program in clients:
        assert program.end() == 0, program.text + server.text
        assert program.lines[:5] == ["0", "2", "4", "6", "8"]
