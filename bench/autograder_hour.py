"""An hour before a deadline, under load, as a page with the pictures of the dashboard.

    python bench/autograder_hour.py run URL --record hour.json
    python bench/autograder_hour.py draw hour.json --out docs/results

Learners of the course that `autograder_course.py` filled at URL hand in, ever more of them until
the deadline; each asks what became of it. Staff and others look at pages. Every quarter of an hour
one of four servers behind nginx is killed and started again. The servers grade meanwhile, and
their `/metrics` are read as Prometheus would.
"""

import argparse
import contextlib
import http.client
import json
import math
import queue
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from autograder_course import LABS, lab_name, login, token
from autograder_fleet import Fleet, fleet
from autograder_kills import SAMPLE, Rush, check
from autograder_size import GOAL_S, LEARNER, STAFF, Course, memory_kib, timed
from prometheus_client.parser import text_string_to_metric_families

SERVERS, CLIENTS = 4, 32
LOOK_S = 10.0  # between two looks at the metrics
FIRST, LAST = 0.5, 8.0  # submissions a second: at the beginning, and at the deadline
OVER = 5 / 6  # of the time is before the deadline; then nobody hands in, and what waits is graded
KILLS = (1 / 4, 1 / 2, 3 / 4)  # of the time
MOST_S = 60.0  # so long a page is asked for again
GOALS_S = {"a submission": 1.0, "a page of staff": GOAL_S, "a page of a learner": GOAL_S}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help="take the hour")
    running.add_argument("url", help="of the database that autograder_course.py filled")
    running.add_argument("--record", type=Path, required=True)
    running.add_argument("--minutes", type=float, default=60.0)
    running.set_defaults(do=lambda asked: run(asked.url, asked.minutes * 60, asked.record))
    drawing = commands.add_parser("draw", help="make the page")
    drawing.add_argument("record", type=Path)
    drawing.add_argument("--out", type=Path, required=True)
    drawing.add_argument("--note", default="", help="what else used the machine meanwhile")
    drawing.set_defaults(do=lambda asked: draw(asked.record, asked.out, asked.note))
    asked = parser.parse_args()
    asked.do(asked)


def run(url: str, length_s: float, record: Path) -> None:
    """Take the hour, and write down what there was to see."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        for number in range(LABS):
            shutil.copytree(SAMPLE, folder / "labs" / lab_name(number))
        where = (folder, url, token("instructor"), folder / "labs")
        with fleet(*where, servers=SERVERS, nginx=True) as servers:
            hour = Hour(url, servers, length_s)
            hour.run()
    seen = {"length_s": length_s, "kills_s": hour.killed_s, "looks": hour.looks, "took": hour.took}
    seen["outcome"] = check(url, hour.rush)
    record.write_text(json.dumps(seen))
    print(seen["outcome"])


class Hour:
    """The load, and those who look; `took` has (when, what, how long) of answers, in seconds."""

    def __init__(self, url: str, servers: Fleet, length_s: float) -> None:
        self.looks: list[dict[str, Any]] = []
        self.took: list[tuple[float, str, float]] = []
        self.killed_s: list[float] = []
        self.rush = Rush(servers.addresses, lab_name(LABS - 1))
        self._servers, self._length_s = servers, length_s
        self._course = Course(url, random.Random(1))
        self._course.site = servers.addresses[0]
        self._rng = random.Random(2)
        self._due: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._failures: list[Exception] = []
        self._began = 0.0

    def run(self) -> None:
        """Do everything when it is due, and wait until all is graded."""
        clients = [threading.Thread(target=self._client) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        self._began = time.monotonic()
        for at_s, do in sorted(self._plan(), key=itemgetter(0)):
            threading.Event().wait(max(0.0, at_s - self._now_s()))
            self._due.put(do)
        for _ in clients:
            self._due.put(None)
        for client in clients:
            client.join()
        while self._look():
            threading.Event().wait(LOOK_S)
        if self._failures:
            raise self._failures[0]

    def _now_s(self) -> float:
        return time.monotonic() - self._began

    def _client(self) -> None:
        while (do := self._due.get()) is not None:
            try:
                do()
            except Exception as error:  # told at the end; the hour goes on
                self._failures.append(error)

    def _plan(self) -> Iterator[tuple[float, Callable[[], object]]]:
        """Yield what is to be done, and when."""
        for number, at_s in enumerate(self._times(LAST)):
            share = at_s / (OVER * self._length_s)
            if share < 1 and self._rng.random() < (FIRST / LAST) ** (1 - share):
                yield at_s, partial(self._hand_in, number)
        for who, rate, pages in (("staff", 1.0, STAFF), ("a learner", 2.0, LEARNER)):
            for at_s in self._times(rate):
                yield at_s, partial(self._see, who, self._rng.choice(list(pages.values())))
        for number, share in enumerate(KILLS):
            yield share * self._length_s, partial(self._kill, number)
        for number in range(int(self._length_s / LOOK_S)):
            yield number * LOOK_S, self._look

    def _times(self, rate: float) -> Iterator[float]:
        """Yield when something happens by chance, so many times a second."""
        at_s = 0.0
        while (at_s := at_s + self._rng.expovariate(rate)) < self._length_s:
            yield at_s

    def _hand_in(self, number: int) -> None:
        sent = self.rush.hand_in(number, token(login(1 + number % self._course.learners)))
        self._note("a submission", sent.took_s)

    def _see(self, who: str, page: Callable[[Course], str]) -> None:
        """Look at a page, again where a server was killed meanwhile, as a person would."""
        began_s = self._now_s()
        while True:
            try:
                timed(self._course, who, page)
                break
            except (OSError, http.client.HTTPException, AssertionError):
                if self._now_s() - began_s > MOST_S:
                    raise
        self._note(f"a page of {who}", self._now_s() - began_s)

    def _note(self, what: str, took_s: float) -> None:
        self.took.append((self._now_s(), what, took_s))

    def _kill(self, number: int) -> None:
        self.killed_s.append(self._now_s())
        self._servers.restart(number)

    def _look(self) -> bool:
        """Note what every server's metrics say; return whether anything waits to be graded."""
        busy = False
        for number, port in enumerate(self._servers.ports):
            with contextlib.suppress(OSError, http.client.HTTPException, KeyError):
                values = metrics(port)
                busy |= bool(values["waiting"] or values["grading"])
                values["memory_mib"] = memory_kib(self._servers.processes[number].pid) / 1024
                self.looks.append({"at_s": self._now_s(), "server": number, **values})
        return busy


def metrics(port: int) -> dict[str, float]:
    """Return what the page needs of a server's metrics; counters are since its start."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    values = {"waiting": 0.0, "grading": 0.0, "graded": 0.0, "answers": 0.0, "errors": 0.0}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in ("course_submissions_waiting", "course_submissions_grading"):
                values[sample.name.rpartition("_")[2]] = sample.value
            elif sample.name == "course_gradings_total" and sample.labels["outcome"] == "graded":
                values["graded"] = sample.value
            elif sample.name == "course_requests_total":
                kind = "errors" if sample.labels["status"][0] in "5n" else "answers"
                values[kind] += sample.value
    return values


def draw(record: Path, out: Path, note: str) -> None:
    """Write the page `an_hour.md` and its pictures."""
    from matplotlib import pyplot

    seen = json.loads(record.read_text())
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "hour", "font.size": 11})
    (out / "an_hour").mkdir(exist_ok=True)
    for name, (title, lines, scale) in pictures(seen).items():
        figure, axes = pyplot.subplots(figsize=(9, 3.2), layout="constrained")
        for (label, points), dash in zip(lines.items(), ("-", "--", ":", "-."), strict=False):
            axes.plot(*zip(*points, strict=True), dash, label=label)
        for at_s in seen["kills_s"]:
            axes.axvline(at_s / 60, color="0.6", linewidth=1)
        axes.axvline(OVER * seen["length_s"] / 60, color="0.2", linewidth=1.5)
        axes.set(title=title, xlabel="minutes", yscale=scale)
        if scale == "linear":
            axes.set_ylim(bottom=0)
        else:
            axes.axhline(1, color="0.2", linewidth=0.5)
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("")
        axes.legend(loc="upper left", fontsize=9)
        figure.savefig(out / f"an_hour/{name}.svg", metadata={"Date": None})
        pyplot.close(figure)
    (out / "an_hour.md").write_text(PAGE.format(**numbers(seen), note=note))


Points = list[tuple[float, float]]
Picture = tuple[str, dict[str, Points], str]


def pictures(seen: dict[str, Any]) -> dict[str, Picture]:
    """Return the title, the lines and the scale of each picture, by its file's name."""
    handed_in = _rate([at_s for at_s, what, _ in seen["took"] if what == "a submission"])
    answered = {
        f"{what}, p95": _quantiles(seen["took"], what, goal_s) for what, goal_s in GOALS_S.items()
    }
    memory = {
        f"server {number}": [
            (look["at_s"] / 60, look["memory_mib"])
            for look in seen["looks"]
            if look["server"] == number
        ]
        for number in range(SERVERS)
    }
    waiting = [(look["at_s"] / 60, look["waiting"]) for look in seen["looks"]]
    return {
        "submissions": (
            "Submissions a second",
            {"handed in": handed_in, "graded": _counted(seen["looks"], "graded")},
            "linear",
        ),
        "waiting": ("Submissions that wait for a grader", {"waiting": waiting}, "linear"),
        "answers": ("95 of 100 answers are faster: shares of the goals", answered, "log"),
        "requests": (
            "Requests a second",
            {
                "answered": _counted(seen["looks"], "answers"),
                "errors of the server": _counted(seen["looks"], "errors"),
            },
            "linear",
        ),
        "memory": ("Memory of the servers, MiB", memory, "linear"),
    }


def _rate(times_s: list[float]) -> Points:
    """Return how many a second there were in each minute."""
    minutes = [int(at_s // 60) for at_s in times_s]
    return [(m + 0.5, minutes.count(m) / 60) for m in range(max(minutes, default=0) + 1)]


def _quantiles(took: list[tuple[float, str, float]], what: str, goal_s: float) -> Points:
    """Return the p95 of each two minutes, as a share of the goal."""
    by_time: dict[int, list[float]] = {}
    for at_s, of_what, took_s in took:
        if of_what == what:
            by_time.setdefault(int(at_s // 120), []).append(took_s / goal_s)
    return [(2 * at + 1, _p95(shares)) for at, shares in sorted(by_time.items())]


def _counted(looks: list[dict[str, Any]], name: str) -> Points:
    """Return how fast a counter grew in each minute, over all servers; a restart begins at 0."""
    grown: dict[int, float] = {}
    before: dict[int, float] = {}
    for look in looks:
        server, value = look["server"], look[name]
        last = before.get(server, 0.0)
        minute = int(look["at_s"] // 60)
        grown[minute] = grown.get(minute, 0.0) + (value - last if value >= last else value)
        before[server] = value
    return [(minute + 0.5, count / 60) for minute, count in sorted(grown.items())]


def _p95(shares: list[float]) -> float:
    return sorted(shares)[math.ceil(0.95 * len(shares)) - 1]


def numbers(seen: dict[str, Any]) -> dict[str, Any]:
    """Return what the page says in words."""
    rows = []
    for what, goal_s in GOALS_S.items():
        shares = [took_s / goal_s for _, of_what, took_s in seen["took"] if of_what == what]
        cells = (statistics.median(shares), _p95(shares), max(shares))
        rows.append(f"| {what} | {len(shares):,} | {' | '.join(f'{c:.2f}' for c in cells)} |")
    errors = sum(rate * 60 for _, rate in _counted(seen["looks"], "errors"))
    return {
        "rows": "\n".join(rows),
        "outcome": seen["outcome"],
        "errors": round(errors),
        "waiting": round(max(look["waiting"] for look in seen["looks"])),
        "kills": len(seen["kills_s"]),
        "first": FIRST,
        "last": LAST,
    }


PAGE = """# An hour before a deadline

`bench/autograder_hour.py run` over the course of 50,000 learners: four servers behind nginx, with
a grader each, on one machine of two cores with their database and with this load. Learners hand in
the last lab, {first} a second at first and {last} at the deadline (the dark line), by chance; after
it what waits is graded. Meanwhile staff look at one page a second, any of them, and learners at
two. {kills} servers are killed with SIGKILL and started again (the grey lines); whoever gets no
answer asks again.
The pictures are those of the dashboard (`deploy/dashboard.json`): what the servers' `/metrics`
said, read every 10 s, and what clients saw. {note}

At the end every receipt was held against the database: {outcome}. At most {waiting} waited at once.
The servers answered {errors} requests with an error of theirs.

| answers, as clients saw them | how many | median, share of the goal | p95 | longest |
|---|---|---|---|---|
{rows}

The goals are the project's: a receipt after 1 s (p99), a page after 300 ms (p95).

![Submissions a second, handed in and graded](an_hour/submissions.svg)

![Submissions that wait for a grader](an_hour/waiting.svg)

![How long answers took, as shares of the goals](an_hour/answers.svg)

![Requests a second, and errors](an_hour/requests.svg)

![Memory of the servers](an_hour/memory.svg)
"""


if __name__ == "__main__":
    main()
