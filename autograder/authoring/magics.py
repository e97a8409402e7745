"""IPython's extra syntax taken out of a cell, line numbers kept: grading runs plain Python."""

import ast
import re
from collections.abc import Iterator
from operator import itemgetter

# cell magics whose body is ordinary code of this process; of all others nothing runs here
_RUNS_HERE = frozenset({"time", "capture", "prun", "memit", "matplotlib"})
_TIMED = re.compile(r"([^=%]*=\s*)?%time\s+")
_WRITTEN = re.compile(r"%%(?:write)?file[ \t]+(-a[ \t]+)?(['\"]?)([^\s'\"]+)\2[ \t]*\n")
_RUN_FILE = re.compile(r"%run\s+(['\"]?)([^\s'\"]+\.py)\1$")
_ENVIRONMENT = re.compile(r"%(?:set_)?env\s+(\w+)(?:\s*=\s*|\s+)(.*)")
_LINE = re.compile(r"[%!?,;/]|[^#'\"?]+\?{1,2}$|[\w\s,.]+=\s*[%!]")
_PROMPT = re.compile(r"^(?:>>>|\.\.\.)(?: |$)", re.M)
_NESTING = re.compile(r"\\.|'''|\"\"\"|['\"#()\[\]{}]")
_DEPTHS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def plain_python(text: str) -> str:
    """Return the Python that a cell holds, as far as grading runs it.

    A cell magic such as `%%bash` takes its whole cell with it: what it defines is defined
    elsewhere. A line magic or shell line becomes `pass`; `%time f(x)` becomes `f(x)`. Files are
    written and run, and variables of the environment set, as these magics do it.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    head = text.lstrip()
    if head.startswith("%%"):
        if written := _WRITTEN.match(head):
            mode, name = "a" if written[1] else "w", written[3]
            body = head[written.end() :].removesuffix("\n") + "\n"  # as IPython ends it
            return f"open({name!r}, {mode!r}, encoding='utf-8').write({body!r})"
        word = re.match(r"%%(\w*)", head)
        if word is None or word[1] not in _RUNS_HERE:
            return ""
        rest = head.partition("\n")[2]
        text = "\n" * (len(text[: -len(head)].splitlines()) + 1) + rest
    if is_python(text):
        return text
    if text.lstrip("\n").startswith(">>>"):  # pasted from a session or a docstring
        text = _PROMPT.sub("", text)
    if indent := re.match(r"\n*([ \t]+)", text):  # of the whole cell, as IPython takes it
        text = "\n".join(line.removeprefix(indent[1]) for line in text.split("\n"))
    return "\n".join(_without_magics(text.split("\n")))


def is_python(text: str) -> bool:
    """Return whether the text parses."""
    try:
        compile(text, "<cell>", "exec", _FLAGS, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _without_magics(lines: list[str]) -> Iterator[str]:
    """Yield the lines, magics replaced where a statement begins: not in a string or brackets."""
    quote, depth, goes_on, magic = "", 0, False, False
    for line in lines:
        if magic:  # a line of it before this one ends with a backslash
            magic = line.endswith("\\")
            yield ""
            continue
        plain = line if quote or depth or goes_on else _line(line)
        goes_on = plain.endswith("\\")
        magic = line.endswith("\\") and not goes_on
        for token in map(itemgetter(0), _NESTING.finditer(plain)):
            if quote:
                quote = "" if token == quote else quote
            elif token == "#":
                break
            elif token[0] in "'\"":
                quote = token
            else:
                depth = max(depth + _DEPTHS.get(token, 0), 0)
        quote = quote if len(quote) == 3 else ""
        yield plain


def _line(line: str) -> str:
    text = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    timed = _TIMED.match(text)
    if timed and timed.end() < len(text):
        return f"{indent}{timed[1] or ''}{text[timed.end() :]}"
    if ran := _RUN_FILE.match(text):
        return f"{indent}exec(compile(open({ran[2]!r}).read(), {ran[2]!r}, 'exec'))"
    if variable := _ENVIRONMENT.match(text):
        return f"{indent}__import__('os').environ[{variable[1]!r}] = {variable[2]!r}"
    return f"{indent}pass" if _LINE.match(text) else line
