"""What a learner has found out about their answers so far, kept beside their notebook.

A small JSON file in the lab's released folder: which answer each question's checks last judged,
and how; and the last submission. An answer is known by a digest of its code, so that one that has
changed since counts as unchecked. It is a note for the learner and proves nothing to anybody.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autograder.authoring.manifest import MANIFEST
from autograder.grading.slicing import shape

JOURNAL = ".progress.json"


@dataclass(frozen=True)
class Checked:
    """How the checks judged an answer; `answer` is its digest, empty where its text was unknown."""

    outcome: str
    answer: str = ""


@dataclass(frozen=True)
class Sent:
    """The last submission, as far as the notebook heard of it."""

    number: int
    state: str
    score: float | None = None
    max_score: float | None = None


@dataclass
class Journal:
    """The notes of one lab; `save` after a change."""

    path: Path
    checked: dict[str, Checked] = field(default_factory=dict)
    sent: Sent | None = None

    @classmethod
    def of(cls, directory: Path) -> "Journal":
        """Return the journal of the lab in `directory`; a new one where none can be read."""
        path = directory / JOURNAL
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            checked = {name: Checked(**about) for name, about in content["checked"].items()}
            sent = content["sent"]
            return cls(path, checked, Sent(**sent) if sent else None)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(path)

    def save(self) -> None:
        """Write it down; see `note`."""
        checked = {name: asdict(about) for name, about in self.checked.items()}
        note(self.path, {"checked": checked, "sent": asdict(self.sent) if self.sent else None})


def note(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of JSON, whole, in released folders only, where a learner works.

    Where that cannot be, the work goes on without.
    """
    if (path.parent / MANIFEST).is_file():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            draft.write_text(json.dumps(content) + "\n", encoding="utf-8")
            draft.replace(path)


def digest(names: Iterable[str], texts: Mapping[str, str]) -> str:
    """Return a digest of the code of the answer that `names` make up, empty if some is unknown."""
    answers = [texts.get(name) for name in names]
    if not answers or None in answers:
        return ""
    shapes = [shape(text) or text for text in answers if text is not None]
    return hashlib.sha256("\0".join(shapes).encode()).hexdigest()[:16]
