"""From what the ranks reported to one error that names the guilty rank."""

import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from ddp_lab.errors import Deadlock, RankFailed, RankLost, RankTimeout
from ddp_lab.transport.board import RUNNING, Entry, sentence
from ddp_lab.transport.header import PACKAGE

LAUNCH = str(Path(__file__).parent) + os.sep
LIBRARIES = tuple(sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "purelib", "platlib"))
Frame: TypeAlias = tuple[str, int, str]  # file, line, function


@dataclass(frozen=True)
class Failure:
    """One rank's end: `frames` are (file, line, function) from the outermost call inwards."""

    rank: int
    kind: str
    message: str
    at: float
    secondary: bool = False
    timeout: bool = False
    frames: list[Frame] = field(default_factory=list)
    notes: str = ""

    @property
    def line(self) -> str:
        """One line about it."""
        return f"{self.kind}: {self.message}" if self.message else self.kind


def call(fn: Callable[..., Any], comm: Any, args: tuple[Any, ...]) -> Any:
    """Return what a rank's function returns; one that leaves with code 0 has returned None.

    Asynchronous collectives are waited for; what one raised and nobody has seen is raised here.
    """
    try:
        result = fn(comm, *args)
    except SystemExit as leaving:
        if leaving.code:
            raise
        result = None
    comm.raise_unseen()
    return result


def failure_of(rank: int, error: BaseException, at: float) -> Failure:
    """Return the record of an exception that left a rank's function."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [(f.filename, f.lineno or 0, f.name) for f in frames]
    related = [("caused by", error.__cause__)] if error.__cause__ is not None else []
    if isinstance(error, BaseExceptionGroup):
        related += [("one of them", part) for part in error.exceptions]
    return Failure(
        rank,
        type(error).__name__,
        text_of(error),
        at,
        any(isinstance(e, RankLost) for e in _chain_of(error)),
        any(isinstance(e, RankTimeout) for e in _chain_of(error)),
        places,
        "\n  ".join(f"{how} {type(e).__name__}: {text_of(e)}" for how, e in related),
    )


def _chain_of(error: BaseException) -> list[BaseException]:
    """Return an exception and what it was raised from: others word a lost rank in their own way."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def text_of(error: BaseException) -> str:
    """Return the message of an exception with its notes, whatever its `__str__` does."""
    try:
        return "\n".join(map(str, (error, *getattr(error, "__notes__", ()))))
    except Exception as another:
        return f"(its message cannot be shown: str() raised {type(another).__name__})"


def rank_failed(failures: list[Failure], world_size: int) -> RankFailed | RankTimeout:
    """Return the error to raise: the first failure that is not the consequence of another."""
    guilty = min(failures, key=lambda f: (f.secondary, f.timeout, f.at))
    if guilty.timeout:
        kind = Deadlock if guilty.kind == Deadlock.__name__ else RankTimeout
        return kind(name_cells(f"launch: {guilty.message}"), guilty.rank)
    others = sorted((f for f in failures if f is not guilty), key=lambda f: f.at)
    also = "".join(f"  then rank {f.rank}: {f.line}\n" for f in others)
    frames = format_frames(guilty)
    message = f"launch: rank {guilty.rank} of {world_size} failed: {guilty.line}\n{frames}{also}"
    traceback_text = f"{frames}{guilty.line}\n"
    lines = {f.rank: f.line for f in failures}
    return RankFailed(name_cells(message.rstrip()), guilty.rank, traceback_text, lines)


def timeout_error(
    entries: Mapping[int, Entry], stacks: dict[int, list[Frame]], timeout_s: float
) -> RankTimeout:
    """Return the error of a run that did not end in time: who waits for whom, who does what."""
    busy = [
        f" Rank {rank} is busy at {place_of(stacks[rank])}."
        if rank in stacks
        else f" Rank {rank} gave no answer: it is stopped, or in a library that holds Python."
        for rank, entry in entries.items()
        if entry.waits_for < 0 and entry.state == RUNNING
    ]
    return RankTimeout(
        f"launch: not finished after {timeout_s} s: {name_cells(sentence(entries))}{''.join(busy)} "
        "Raise timeout_s if the ranks are only slow."
    )


def frames_of(frame: FrameType) -> list[Frame]:
    """Return the stack that ends in `frame`."""
    return [(f.filename, f.lineno or 0, f.name) for f in traceback.extract_stack(frame)]


def place_of(frames: list[Frame]) -> str:
    """Return `file:line in function` of the innermost frame of what a rank runs.

    One in a library only if all are: who called it is what says where the program is.
    """
    called = dropwhile(lambda frame: not frame[0].startswith(PACKAGE), frames)
    outside = [frame for frame in called if not frame[0].startswith(PACKAGE)]
    own = [frame for frame in outside if not frame[0].startswith((*LIBRARIES, "<frozen"))]
    filename, line, name = (own or outside or frames)[-1]
    return f"{cell_name(filename)}:{line} in {name}"


def format_frames(failure: Failure) -> str:
    """Return the traceback, notebook cells by their number, this package's own frames left out."""
    called = [f for f in failure.frames if not f[0].startswith((LAUNCH, "<frozen"))]
    outside = [f for f in called if not f[0].startswith(PACKAGE)]
    frames = [
        traceback.FrameSummary(
            cell_name(filename), line, name, line=linecache.getline(filename, line)
        )
        for filename, line, name in outside or called
    ]
    lines = traceback.StackSummary.from_list(frames).format()  # which counts what repeats
    if failure.notes:
        lines.append(f"  {failure.notes}\n")
    return "".join(lines)


def cell_name(filename: str) -> str:
    """Return `In[3]` for the file name that IPython gives to a cell, else the name itself."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell.compile, "format_code_name"):
        return filename
    kind_and_name = shell.compile.format_code_name(filename)
    return kind_and_name[1] if kind_and_name else filename


def name_cells(text: str) -> str:
    """Return `text` with every `file:line` in a notebook's cell as `In[3]:line`."""
    return re.sub(r"(<[^>\s]+>|/[^\s:]+):(?=\d)", lambda m: f"{cell_name(m.group(1))}:", text)
