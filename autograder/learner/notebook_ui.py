"""In the notebook: `q = lab("ring_all_reduce")`, then check, hint, status, submit, and a panel.

Everything is said in plain text, and where widgets render also in the panel that `q` shows.
Whatever goes wrong is said as well: nothing that a learner calls here raises, but `lab` where
there is no such lab.
"""

import contextlib
import difflib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from autograder.errors import AutograderError, UnknownLab
from autograder.learner.card import BROKEN, SIGNS, UNCHECKED, Card, card, count, count_checks
from autograder.learner.kernel import follow, follow_theme, one_thread, report_unwritten_answers
from autograder.printable import printable
from autograder.records import Outcome, Question

if TYPE_CHECKING:
    from autograder.learner.panel import Panel
    from autograder.learner.practice import Practice
    from autograder.learner.running_notebook import Ask
    from autograder.learner.submit import HandedIn
    from autograder.service.client import Connection


class _OneLine(AutograderError):
    """An error that a notebook shows as its message, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class NoSuchLab(_OneLine, UnknownLab):
    """There is no lab of that name here."""


class NotSubmitted(_OneLine):
    """Nothing was handed in; the message says why, and what to do."""


def lab(name: str, directory: str | Path | None = None) -> "Notebook":
    """Return the lab called `name`, with or without its number, for use in its notebook.

    Looks for its folder from `directory` (this notebook's folder) upward.

    Raises:
        UnknownLab: there is no such lab; says which are near.
    """
    from autograder.learner.practice import Practice, find_lab

    start = Path(directory or Path.cwd()).resolve()
    try:
        practice = Practice(find_lab(str(name), start), *_session())
    except UnknownLab as error:
        raise NoSuchLab(str(error)) from None
    one_thread()
    shell = _shell()
    if shell is not None:
        questions = practice.lab.questions
        report_unwritten_answers(shell, {name for q in questions for name in (q.name, *q.defines)})
        follow(shell, practice.lab.directory, practice.follow)
        follow_theme(shell)
    return Notebook(practice)


def _session() -> tuple[dict[str, Any], Callable[[], list[str]]]:
    """Return the names of this session and a way to its cells: IPython's, or `__main__`'s."""
    shell = _shell()
    if shell is None:
        return vars(sys.modules["__main__"]), list
    return shell.user_ns, lambda: list(shell.history_manager.input_hist_raw)


def _shell() -> Any:
    """Return IPython's shell, or None where this is another Python."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


class Notebook:
    """One lab in one notebook: what a learner calls `q`."""

    def __init__(
        self,
        practice: "Practice",
        connect: "Callable[[], Connection] | None" = None,
        ask: "Ask | None" = None,
    ) -> None:
        self.practice = practice
        self.handed_in: HandedIn | None = None
        self.said_last = ""
        self.news: list[dict[str, Any]] = []  # what staff announced and the learner has not read
        self.dates = ""  # until when and how often it may be handed in, if the server says so
        self._connect = connect or _connection
        self._ask = ask  # how Colab's page is asked; None: its own way, on Colab
        self._panel: Panel | None = None

    def check(self, name: Any = None) -> None:
        """Run the checks of one question, or of all, and say what they find."""
        for question in self._find_questions(name, "check"):
            show(self.check_question(question))
        self._draw()

    def hint(self, name: Any = None) -> None:
        """Say the next hint for a question; without a name, for the first that is not solved."""
        if name is None:
            counting = [q for q in self.practice.questions if q.points]  # the others are optional
            name = next((q.name for q in counting if not self._is_solved(q)), "")
        for question in self._find_questions(name, "hint") if name else []:
            print(self.next_hint(question))
        if not name:
            print("Every question is solved. Nothing is left to hint at.")
        self._draw()

    def edit(self, name: Any = None) -> None:
        """Put the answer to a question in a file, where an editor can open it, and say where."""
        for question in self._find_questions(name, "edit", every=False):
            try:
                show_file(self.move_to_file(question))
            except (AutograderError, OSError) as error:
                print(f"edit: {error}")

    def move_to_file(self, question: Question) -> Path:
        """Return the file that holds the answer to a question from now on.

        Raises:
            AutograderError, OSError: it is an answer in words, or the file cannot be made.
        """
        from autograder.learner.answer_files import AnswerFileError, answer_file

        if question.manual:
            raise AnswerFileError(f"{question.name} is answered in words, in the notebook.")
        path = answer_file(self.practice.lab.directory, question.name)
        text = ""  # of a file that was there before nothing is known: it runs before the next cell
        if not path.exists():
            text = self.practice.current_text(question).rstrip() + "\n"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.practice.followed.setdefault(question.name, text)
        return path

    def status(self) -> None:
        """Say how far each question is, and what became of the last submission."""
        self.poll()
        self.ask_news()
        print(self.overview())
        self._draw()

    def solution(self, name: Any = None) -> None:
        """Show the course's answer to a question, where staff give it out, which is after the end.

        It comes from the course server; a released lab has none.
        """
        for question in self._find_questions(name, "solution", every=False):
            try:
                print(self._connect().solution(self.practice.lab.name, question.name))
            except AutograderError as error:
                print(printable(str(error)))

    def submit(self, notebook: str | None = None, *, anyway: bool = False) -> None:
        """Hand in this notebook, as it is saved; on Colab as it is shown. Say where its grade is.

        Args:
            notebook: its file, where it cannot be found out.
            anyway: send it even if it lacks what was run last.

        Raises:
            NotSubmitted: nothing was handed in; a notebook shows one line.
        """
        before = self.handed_in
        self.hand_in(notebook, anyway=anyway)
        self._draw()
        if self.handed_in is before:
            raise NotSubmitted(self.said_last)
        print(self.said_last)

    def check_question(self, question: Question) -> Card:
        """Check a question and return what a learner reads."""
        from autograder.learner.answer_files import AnswerFileError, answer_file

        if question.manual:
            text = "a person reads this answer. Submit it when ready."
            return Card(UNCHECKED, question.name, text)
        try:
            judgement = self.practice.check(question)
            verdict = card(question, judgement, *self.practice.counts(question))
            path = answer_file(self.practice.lab.directory, question.name)
            read = f"Read from {path.parent.name}/{path.name}." if path.exists() else ""
            return replace(verdict, foot=" ".join(filter(None, [verdict.foot, read])))
        except AnswerFileError as error:
            return Card(SIGNS[Outcome.INCORRECT], question.name, str(error))
        except AutograderError as error:
            text = f"the checks are broken: ours to mend, not yours. {error}"
            return Card(BROKEN, question.name, text)

    def next_hint(self, question: Question) -> str:
        """Return the next hint for a question, in words."""
        hint = self.practice.next_hint(question)
        if hint is None:
            return f"There is no hint for {question.name}. Read its docstring once more."
        number, text = hint
        last = " (the last one)" if number == len(question.hints) > 1 else ""
        return f"Hint {number} of {len(question.hints)} for {question.name}{last}: {text}"

    def overview(self) -> str:
        """Return how far the learner is, a line a question."""
        practice = self.practice
        width = max((len(q.name) for q in practice.lab.questions), default=0)
        lines = [practice.lab.title]
        for question in practice.lab.questions:
            sign, state = self._state(question)
            points = count(question.points, "point") if question.points else "optional"
            lines.append(f"  {sign} {question.name:<{width}}  {state}, {points}")
        score, total = practice.score()
        lines.append(f"  {score:g} of {total:g} points by the checks here")
        lines += [f"  {line}" for line in [self._describe_checks()] if line]
        if self.handed_in is not None:
            lines.append(f"  {submission_line(self.handed_in)}")
        for news in self.news:
            text = printable(" ".join(news["text"].split()))
            lines.append(f"  announced {news['starts'][:10]} by {printable(news['by'])}: {text}")
        return "\n".join(lines)

    def poll(self) -> None:
        """Ask the server about the last submission, if there is one that is not finished."""
        from autograder.learner.submit import refresh

        if self.handed_in is not None and not self.handed_in.is_final:
            try:
                refresh(self._connect(), self.handed_in)
                self._note_sent(self.handed_in)
            except AutograderError as error:
                self.said_last = str(error)

    def hand_in(self, notebook: str | None = None, *, anyway: bool = False) -> None:
        """Send the notebook; `said_last` tells what became of it, `handed_in` which it is."""
        from autograder.learner.running_notebook import BY_HAND, page

        ask = self._ask or page(os.environ)
        try:
            self.said_last = self._send(notebook, anyway, ask)
        except AutograderError as error:
            self.said_last = f"Not submitted. {printable(str(error))}"
            if ask and BY_HAND not in self.said_last:
                self.said_last += f" {BY_HAND}"

    def _send(self, notebook: str | None, anyway: bool, ask: "Ask | None") -> str:
        from autograder.learner import submit
        from autograder.learner.answer_files import FOLDER, answer_file, with_files
        from autograder.learner.running_notebook import running_notebook

        practice = self.practice
        folder = practice.lab.directory
        running = running_notebook(notebook, folder, practice.namespace, os.environ, ask)
        running = replace(running, data=with_files(running.data, folder))
        lost = [] if anyway else submit.list_unsaved(practice, running.data)
        twice = [name for name in lost if answer_file(folder, name).exists()]
        if twice:
            text = f"a cell further down defines anew what {FOLDER}/{twice[0]}.py defines"
            return f"Not submitted. In {running.name}, {text}. Remove it there, save, submit again."
        if lost:
            return f"Not submitted. {running.lacks(lost)}"
        self.handed_in = submit.send(self._connect(), practice.lab.name, running)
        self._note_sent(self.handed_in)
        if self.dates:  # one attempt fewer
            self.ask_dates()
        text = f"Submitted {running.name}. The grade will be at {self.handed_in.url}"
        return " ".join(filter(None, [text, self._describe_checks()]))

    def _describe_checks(self) -> str:
        """Return how many checks run here and at submission; nothing if they are broken."""
        try:
            here, more = self.practice.counts(*self.practice.questions)
        except AutograderError:
            return ""
        return count_checks(here, more)

    def _note_sent(self, sent: "HandedIn") -> None:
        """Write the submission down, for the table over all labs."""
        from autograder.learner.journal import Sent

        journal = self.practice.journal
        journal.sent = Sent(sent.number, sent.state, sent.score, sent.max_score)
        journal.save()

    def ask_dates(self) -> None:
        """Ask the server until when and how often this lab may be handed in, if there is one."""
        from autograder.learner import submit

        with contextlib.suppress(AutograderError):
            self.dates = submit.dates(self._connect(), self.practice.lab.name)

    def ask_news(self, read: int | None = None) -> None:
        """Ask the server what staff announced; first tell it that one of these is `read`."""
        with contextlib.suppress(AutograderError):
            server = self._connect()
            if read is not None:
                server.mark_read(read)
            self.news = server.announcements(unread=True)

    def _find_questions(self, name: Any, verb: str, *, every: bool = True) -> list[Question]:
        """Return the questions that are meant; none, and a word about it, where none is.

        Without a name, `every` question is meant, or none.
        """
        if name is None and every:
            return list(self.practice.lab.questions)
        if name is None:
            print(f'{verb}: of which question? For example: q.{verb}("the_name")')
            return []
        name = str(getattr(name, "__name__", name))
        if (question := self.practice.lab.question(name)) is not None:
            return [question]
        names = [q.name for q in self.practice.lab.questions]
        near = difflib.get_close_matches(name, names, n=1)
        meant = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(names)}."
        print(f"{verb}: there is no question called {name!r}. {meant}")
        return []

    def _is_solved(self, question: Question) -> bool:
        judgement = self.practice.judgements.get(question.name)
        return judgement is not None and judgement.outcome is Outcome.CORRECT

    def _state(self, question: Question) -> tuple[str, str]:
        if question.manual:
            return UNCHECKED, "graded by a person"
        judgement = self.practice.judgements.get(question.name)
        if judgement is None:
            return UNCHECKED, "not checked"
        return SIGNS[judgement.outcome], str(judgement.outcome)

    def __repr__(self) -> str:
        score, total = self.practice.score()
        return f"<lab {self.practice.lab.name}: {score:g} of {total:g} points>"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Show the panel where widgets render, text elsewhere."""
        bundle: dict[str, Any] = {"text/plain": self.overview()}
        try:
            from autograder.learner.panel import Panel
        except ImportError:  # the extra `lab` is not installed: the text is all there is
            return bundle, {}
        if self._panel is None:
            self._panel = Panel(self)
        self._panel.draw()
        shown, metadata = self._panel.view()
        return bundle | shown, metadata

    def _draw(self) -> None:
        if self._panel is not None:
            self._panel.draw()


def show(card: Card) -> None:
    """Show a card in a page, where this is a notebook, or print it."""
    _display(card.text(), card.html())


def show_file(path: Path) -> None:
    """Say where an answer lies from now on; in a page, with a link that opens it."""
    name = f"{path.parent.name}/{path.name}"
    text = (
        f"{name} holds this answer from now on: edit it there. q.check and q.submit read it,\n"
        "and not the cell. To answer in the notebook again, delete the file."
    )
    link = f'<a href="{quote(os.path.relpath(path))}" target="_blank">{name}</a>'
    _display(f"{text}\n{path}", f"<p>{text.replace(name, link, 1)}</p>")


def _display(text: str, page: str) -> None:
    shell = _shell()
    if shell is None or not hasattr(shell, "kernel"):
        print(text)
        return
    from IPython.display import display

    display({"text/plain": text, "text/html": page}, raw=True)  # type: ignore[no-untyped-call]


def submission_line(handed_in: "HandedIn") -> str:
    """Return what is known of a submission, in one line."""
    line = f"submission {handed_in.number}: {handed_in.state}"
    if handed_in.score is not None and handed_in.max_score is not None:
        line += f", {handed_in.score:g} of {handed_in.max_score:g} points"
    elif handed_in.held_back:
        line += ", grades are held back"
    return line


def _connection() -> "Connection":
    from autograder.service.client import Connection

    return Connection.choose(None, None)
