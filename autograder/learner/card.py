"""What a check found, as a card: a sign for each property, what failed, where a hint is.

One card has two forms: lines of text for a terminal, and HTML in the page's own colours.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from autograder.learner.practice import Judgement
from autograder.records import Outcome, Question

SIGNS = {Outcome.CORRECT: "✓", Outcome.INCORRECT: "✗", Outcome.NOT_ATTEMPTED: "○"}
UNCHECKED = "·"
BROKEN = "?"

_CSS = Path(__file__).parent / "static" / "card.css"
_KINDS = {"✓": "good", "✗": "bad", "○": "wait", BROKEN: "wait", UNCHECKED: "wait"}


@dataclass(frozen=True)
class Row:
    """One property: its sign, its title, and what is to be said about it, if anything."""

    sign: str
    title: str
    said: str = ""


@dataclass(frozen=True)
class Card:
    """What a learner reads of one question."""

    sign: str
    name: str
    head: str
    rows: tuple[Row, ...] = ()
    foot: str = ""

    def text(self) -> str:
        """Return it for a terminal: a headline, and what belongs to it set in."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.sign} {self.name}: {self.head}"
        for row in self.rows:
            yield f"  {row.sign} {row.title}"
            yield from (f"    {line}" for line in row.said.splitlines())
        if self.foot:
            yield f"  {self.foot}"

    def html(self) -> str:
        """Return it for a page; the colours are the page's, light or dark."""
        rows = "".join(_row(row) for row in self.rows)
        foot = f'<p class="foot">{escape(self.foot)}</p>' if self.foot else ""
        return (
            f"<style>{_CSS.read_text(encoding='utf-8')}</style>"
            f'<div class="course-card" data-is="{_KINDS[self.sign]}">'
            f'<p class="head">{_sign(self.sign)} <code>{escape(self.name)}</code>: '
            f"{escape(self.head)}</p><ul>{rows}</ul>{foot}</div>"
        )


def card(question: Question, judgement: Judgement, here: int, more: int) -> Card:
    """Return what a check found; `here` checks run in the notebook, `more` at submission."""
    name = question.name
    if judgement.outcome is Outcome.NOT_ATTEMPTED:
        headline = "not attempted yet. Write it, run its cell, and check again."
        return Card(SIGNS[judgement.outcome], name, headline)
    if judgement.outcome is Outcome.CORRECT and judgement.broken:
        headline = "this check itself is broken. That is our mistake and costs you nothing."
        return Card(BROKEN, name, headline)
    rows = tuple(_rows(judgement))
    if judgement.outcome is Outcome.CORRECT:
        verb = "passes" if here == 1 else "pass"
        head = f"correct. {count(here, 'check')} {verb} here{more_checks(more)}."
        return Card(SIGNS[judgement.outcome], name, head, rows)
    passed = sum(result.outcome is Outcome.CORRECT for result in judgement.results)
    head = f"incorrect. {passed} of {count(here, 'check')} pass here{more_checks(more)}."
    hint = f'A hint: q.hint("{name}")' if question.hints else ""
    return Card(SIGNS[judgement.outcome], name, head, rows, hint)


def count(number: float, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:g} {noun}{'s' * (number != 1)}"


def more_checks(more: int) -> str:
    """Return what is said after a number of checks: how many more run at submission."""
    if not more:
        return "; no others run when you submit"
    return f"; {more} more {'runs' if more == 1 else 'run'} when you submit"


def count_checks(here: int, more: int) -> str:
    """Return how many checks run here and how many more at submission, as a sentence."""
    return f"{count(here, 'check')} {'runs' if here == 1 else 'run'} here{more_checks(more)}."


def _rows(judgement: Judgement) -> Iterator[Row]:
    outputs = dict(judgement.failures())
    for result in judgement.results:
        sign = BROKEN if result.broken else SIGNS[result.outcome]
        right = result.outcome is Outcome.CORRECT
        yield Row(sign, result.title, "" if right else outputs.get(result.title, ""))


def _row(row: Row) -> str:
    output = f"<pre>{escape(row.said)}</pre>" if row.said else ""
    return f"<li>{_sign(row.sign)} {escape(row.title)}{output}</li>"


def _sign(sign: str) -> str:
    return f'<span class="sign" data-is="{_KINDS[sign]}">{sign}</span>'
