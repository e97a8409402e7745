"""A page made of a template."""

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
import jinja2.ext
import mistune
import nh3
from fastapi.responses import HTMLResponse
from markupsafe import Markup, escape

from autograder.service.times import format_local

HERE = Path(__file__).parent


def _plain(value: Any) -> str:
    """Return what the audit log holds, for people."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(held)}" for name, held in value.items())
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value)


def render_markdown(text: str) -> Markup:
    """Return what somebody wrote in Markdown as HTML that runs, loads and shows nothing else.

    What they wrote as HTML stays text. Pictures are left out: asking for one would tell its owner
    who reads. What is nested past all reason is shown as it was typed.
    """
    try:
        html = _markdown(text)
    except RecursionError:
        html = f"<pre>{escape(text)}</pre>"
    safe = nh3.clean(
        str(html), tags=_TAGS, attributes={"a": {"href"}}, url_schemes={"http", "https", "mailto"}
    )
    named = safe.replace("<table>", '<table aria-label="Table">')
    return Markup(named.replace("<th>", '<th scope="col">'))


_markdown = mistune.create_markdown(escape=True, plugins=["table", "strikethrough"])
_TAGS = {
    "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre",
    "code", "em", "strong", "del", "a", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip


class _Below(jinja2.ext.Extension):
    """Puts each address of a template below the path of the course, but for one called `away`."""

    _ADDRESS = re.compile(r'\b((?:href|action|src|data-live)=")(?=/|\{\{(?! away))')

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return self._ADDRESS.sub(r"\1{{ root }}", source)


@jinja2.pass_context
def _write_markdown(context: jinja2.runtime.Context, text: str) -> Markup:
    html = str(render_markdown(text))  # a Markup would escape what is put in
    return Markup(html.replace('<a href="/', f'<a href="{context["root"]}/'))


_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    extensions=[_Below],
)
_templates.filters.update(
    moment=lambda s: "" if s is None else f"{datetime.fromtimestamp(s, UTC):%Y-%m-%d %H:%M:%S}",
    number=lambda value: "–" if value is None else f"{value:.6g}",
    percent=lambda share: "–" if share is None else f"{100 * share:.1f} %",
    zoned=format_local,
    plain=_plain,
    written=_write_markdown,
)


def page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return the page made of the template `name`."""
    values = {"person": None, "root": "", "course_title": "Course", **values}
    return HTMLResponse(_templates.get_template(f"{name}.html").render(values), status)


@dataclass(frozen=True)
class Paging:
    """Where a page stands among those of a list; `query` is what else its address says."""

    path: str
    number: int
    count: int
    query: dict[str, str] = field(default_factory=dict)

    def link(self, number: int) -> str:
        """Return the address of another page of the list."""
        query = {name: text for name, text in self.query.items() if text}
        return f"{self.path}?{urlencode({**query, 'page': number})}"
