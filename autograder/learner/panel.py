"""The panel that `q` shows: progress, results, the next hint, submit. An anywidget.

The truth is one synced trait, `state`; the front end draws it and sends the learner's wishes.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from autograder.authoring.landing import audience
from autograder.errors import AutograderError
from autograder.records import Question

if TYPE_CHECKING:
    from autograder.learner.notebook_ui import Notebook

VIEW = "application/vnd.jupyter.widget-view+json"
_NEWS = ("id", "text", "starts", "by")
_STATIC = Path(__file__).parent / "static"


class Panel(anywidget.AnyWidget):
    """A view of one `Notebook`."""

    _esm = _STATIC / "panel.js"
    _css = _STATIC / "panel.css"

    state = traitlets.Dict().tag(sync=True)

    def __init__(self, notebook: "Notebook") -> None:
        super().__init__()
        self._notebook = notebook
        self._turn = 0
        self._acts: dict[str, Callable[[dict[str, Any]], None]] = {
            "check": self._check,
            "check all": self._check_all,
            "hint": self._give_hint,
            "submit": lambda _: notebook.hand_in(),
            "poll": lambda _: notebook.poll(),
            "dates": self._ask_dates,
            "read": self._mark_read,
        }
        self.on_msg(self._answer_click)

    def view(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the part of a mime bundle that shows this widget, and its metadata.

        Colab shows no widget whose metadata does not say which manager draws it.
        """
        reference = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        bundle = self._repr_mimebundle_()
        return {VIEW: reference}, {} if bundle is None else bundle[1]

    def draw(self) -> None:
        """Have the front end draw the present state."""
        notebook, practice = self._notebook, self._notebook.practice
        score, total = practice.score()
        handed_in = notebook.handed_in
        self._turn += 1
        self.state = {
            "turn": self._turn,
            "title": practice.lab.title,
            "audience": audience(practice.lab),
            "score": score,
            "total": total,
            "questions": [self._row(question) for question in practice.lab.questions],
            "said": notebook.said_last,
            "dates": notebook.dates,
            "news": [{name: news[name] for name in _NEWS} for news in notebook.news],
            "submission": handed_in and asdict(handed_in),
        }

    def _row(self, question: Question) -> dict[str, Any]:
        judgement = self._notebook.practice.judgements.get(question.name)
        shown = self._notebook.practice.hints_shown.get(question.name, 0)
        failures = judgement.failures() if judgement else ()
        here, more = self._counts(question)
        return {
            "name": question.name,
            "points": question.points,
            "checks_here": here,
            "checks_more": more,
            "manual": question.manual,
            "outcome": "unchecked" if judgement is None else str(judgement.outcome),
            "failures": [{"title": title, "output": output} for title, output in failures],
            "broken": judgement is not None and judgement.broken,
            "hints": list(question.hints[:shown]),
            "hints_left": len(question.hints) - shown,
        }

    def _counts(self, question: Question) -> tuple[int, int]:
        """Return how many checks run here and at submission; none where they do not load."""
        try:
            return self._notebook.practice.counts(question)
        except AutograderError:
            return 0, 0

    def _answer_click(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Do what the learner clicked; whatever comes of it is drawn."""
        act = self._acts.get(str(content.get("act"))) if isinstance(content, dict) else None
        if act is not None:
            try:
                act(content)
            except AutograderError as error:
                self._notebook.said_last = str(error)
            self.draw()

    def _question(self, content: dict[str, Any]) -> Question | None:
        return self._notebook.practice.lab.question(str(content.get("name")))

    def _check(self, content: dict[str, Any]) -> None:
        question = self._question(content)
        if question is not None and not question.manual:
            self._notebook.practice.check(question)

    def _check_all(self, _content: dict[str, Any]) -> None:
        for question in self._notebook.practice.questions:
            self._notebook.practice.check(question)

    def _give_hint(self, content: dict[str, Any]) -> None:
        question = self._question(content)
        if question is not None:
            self._notebook.practice.next_hint(question)

    def _ask_dates(self, _content: dict[str, Any]) -> None:
        self._notebook.ask_dates()
        self._notebook.ask_news()

    def _mark_read(self, content: dict[str, Any]) -> None:
        numbers = {str(news["id"]): news["id"] for news in self._notebook.news}
        self._notebook.ask_news(read=numbers.get(str(content.get("name"))))
