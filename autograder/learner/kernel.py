"""How a lab sets up its kernel: one thread a library, short errors, answers from files, figures.

An answer that is not written yet costs one line, not a traceback.

A product that two threads share waits for the second one, which on a busy machine is not running;
so a lab's times mean something only with one. Both hold for the session that calls `lab`.
"""

import ast
import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterator
from html import escape
from pathlib import Path
from typing import Any

from autograder.errors import AutograderError

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def one_thread() -> None:
    """Have each numerical library use one thread: those loaded, and those that will be."""
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    with contextlib.suppress(ImportError):  # the extra `lab` has it
        from threadpoolctl import threadpool_limits

        threadpool_limits(limits=1)


def report_unwritten_answers(shell: Any, names: Collection[str]) -> None:
    """Have IPython say in one line that a cell needs what is not written yet.

    So it says too where a cell needs what such a cell would have made.

    Args:
        shell: IPython's; its tracebacks are as before for all other errors.
        names: of the questions of the lab, and what they ask for.
    """
    waiting: dict[str, str] = {}  # what cells would have made, and what they wait for

    def made() -> list[str]:
        """Forget of the last cell's names that they wait; return them."""
        names = list(_names(_last_cell(shell), ast.Store))
        for name in names:
            waiting.pop(name, None)
        return names

    def say(
        shell: Any, kind: type[BaseException], error: BaseException, trace: Any, **_: Any
    ) -> list[str] | None:
        missing = find_unwritten(error, names)
        line = f"○ {missing} is not written yet. Write it, run its cell, and run this one again."
        needed = None if missing else _find_needed_name(error, _last_cell(shell), waiting)
        if needed is not None:
            missing = waiting[needed]
            line = f"○ {needed} comes from a cell above, which waits for {missing}. "
            line += f"Write {missing}, and run that cell and this one again."
        new_names = made()
        if missing is None:
            shell.showtraceback((kind, error, trace), running_compiled_code=True)
            return None
        waiting.update(dict.fromkeys(new_names, missing))
        shell._showtraceback(kind, error, [line])
        return [line]

    def after(result: Any) -> None:
        if result.success:
            made()

    _call_after_cells(shell, after)
    shell.set_custom_exc((Exception,), say)


_forgetting: list[Callable[[Any], None]] = []  # what this session's shell calls after each cell


def _call_after_cells(shell: Any, after: Callable[[Any], None]) -> None:
    while _forgetting:
        with contextlib.suppress(ValueError):  # it was another shell's
            shell.events.unregister("post_run_cell", _forgetting.pop())
    _forgetting.append(after)
    shell.events.register("post_run_cell", after)


def _find_needed_name(error: BaseException, cell: str, waiting: Collection[str]) -> str | None:
    """Return which of the names that wait an error comes from: one that is missing, or is read."""
    text = f"{type(error).__name__}: {error}"  # a rank's error is text in its launcher's
    missing = re.findall(r"NameError: name '(\w+)' is not defined", text)
    return next((n for n in (*missing, *_names(cell, ast.Load)) if n in waiting), None)


def _last_cell(shell: Any) -> str:
    return str(shell.history_manager.input_hist_parsed[-1])


def _names(cell: str, how: type[ast.expr_context]) -> Iterator[str]:
    """Yield the names that a cell gives values to, or reads."""
    with contextlib.suppress(SyntaxError):
        for node in ast.walk(ast.parse(cell)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, how):
                yield node.id
            elif isinstance(node, ast.FunctionDef | ast.ClassDef) and how is ast.Store:
                yield node.name


def follow(shell: Any, folder: Path, run: Callable[[str], None]) -> None:
    """Have files of answers run before a cell if they have changed, and after theirs has run."""

    def say(cell: str) -> None:
        try:
            run(cell)
        except AutograderError as error:
            print(f"✗ {error}")

    def before(_: Any) -> None:
        say("")

    def after(result: Any) -> None:
        say(str(result.info.raw_cell or ""))

    for event, old in _followers.pop(folder, {}).items():
        shell.events.unregister(event, old)
    _followers[folder] = {"pre_run_cell": before, "post_run_cell": after}
    for event, new in _followers[folder].items():
        shell.events.register(event, new)


_followers: dict[Path, dict[str, Callable[[Any], None]]] = {}


def find_unwritten(error: BaseException, names: Collection[str]) -> str | None:
    """Return which of `names` was called and is not written yet, if that is what went wrong.

    A starter raises NotImplementedError with its name; a rank's comes as text in its launcher's.
    """
    for cause in _chain(error):
        message = str(cause)
        if isinstance(cause, NotImplementedError) and message in names:
            return message
        named = re.findall(r"NotImplementedError: ([\w.-]*\w)", message)  # ranks quote each other
        if name := next((name for name in named if name in names), None):
            return str(name)
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in seen:
        seen.append(following)
        yield following
        following = following.__cause__ or following.__context__


# Figures of matplotlib follow the page's theme: an image in HTML, whose colours a style turns
# round. The image/png stays beside it, for all that shows no HTML: nbconvert's PDF, a notebook that
# is not trusted (there the HTML loses its style, and is an image on white paper).

_CSS = Path(__file__).parent / "static" / "figure.css"


Drawn = str | tuple[str, dict[str, int]] | None
"""A PNG in base64; of a retina figure, twice as large, with the width and height to show it at."""


class ThemedFigures:
    """What IPython asks for a figure: draws it as it was told to, once, and puts HTML beside it."""

    def __init__(self, formatters: Any) -> None:
        self._formatters = formatters
        self._draw: Callable[[Any], Drawn] | None = None

    def __call__(self, figure: Any, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """Return {type: data} and {type: metadata} of a figure; none where it is not a PNG."""
        # The printer is taken out, or IPython would draw once more; a new choice of format adds one
        self._draw = self._formatters["image/png"].pop(type(figure), self._draw)
        chosen = type(figure) in self._formatters["image/svg+xml"]
        drawn = None if self._draw is None or chosen else self._draw(figure)
        if not drawn:
            return {}, {}
        png, size = drawn if isinstance(drawn, tuple) else (drawn, {})
        html = page_of(png, words(figure), size.get("width"))
        return {"image/png": png, "text/html": html}, {"image/png": size} if size else {}


def follow_theme(shell: Any) -> None:
    """Have all figures of this session follow the theme of the page that shows them."""
    shown = shell.display_formatter
    printer = ThemedFigures(shown.formatters)
    shown.mimebundle_formatter.for_type_by_name("matplotlib.figure", "Figure", printer)


def page_of(png: str, alt: str, width: int | None = None) -> str:
    """Return an image, base64, as HTML that is dark on dark pages; `width` is in CSS pixels."""
    style = _CSS.read_text(encoding="utf-8")
    size = "" if width is None else f' width="{width}"'
    source = f'src="data:image/png;base64,{png}"'
    image = f'<img class="course-figure" alt="{escape(alt)}"{size} {source}>'
    return f"<style>{style}</style>{image}"


def words(figure: Any) -> str:
    """Return what a figure says of itself: its titles."""
    places = ("left", "center", "right")
    titles = [ax.get_title(loc=place) for ax in figure.axes for place in places]
    return "; ".join(filter(None, titles)) or "A figure"
