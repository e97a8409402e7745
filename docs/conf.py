"""How Sphinx makes the site; `make docs` writes the pages that it needs beside the guides."""

import gc
import re
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.builders.html import StandaloneHTMLBuilder

project = "mlsys-labs"
author = "the authors of mlsys-labs"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
whole = not tags.has("quick")  # noqa: F821  # Sphinx hands it in
if whole:
    extensions.append("sphinx.ext.viewcode")
else:
    gc.disable()  # pages' trees stay to the end: to look for garbage there is a fifth of the time
toc_object_entries = whole  # every name of the reference beside every page
smartquotes = whole
html_use_index = whole
exclude_patterns = ["conf.py", "_build"]
suppress_warnings = [
    "docutils",  # docstrings are plain prose: a star in one is a star
    "ref.python",  # a name that two classes have
]

html_theme = "furo"
html_title = "Machine-learning systems"
html_extra_path = ["files"]
html_css_files = ["site.css"]
html_static_path = ["_static"]
html_show_sphinx = False
html_show_copyright = False
html_math_renderer = "mathml"

nb_execution_mode = "off"  # `make docs` has run the labs itself
nb_render_markdown_format = "myst"
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
myst_enable_extensions = ["dollarmath", "attrs_inline"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

autodoc_typehints = "signature" if whole else "none"  # each type is looked for among all names
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True

_LITERAL = re.compile(r"(`[^`]+`)")
_MARKUP = re.compile(r"([*|\\]|_(?!\w))")


def plain(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Take a docstring as the plain prose that it is: only its backticks are markup."""
    for index, line in enumerate(lines):
        parts = _LITERAL.split(line)
        lines[index] = "".join(
            f"`{part}`" if part.startswith("`") else _MARKUP.sub(r"\\\1", part) for part in parts
        )


def formula(self: Any, node: Any) -> None:
    """Write a formula as MathML, which browsers draw by themselves: nothing is fetched."""
    display = "block" if type(node).__name__ == "math_block" else "inline"
    self.body.append(convert(node.astext(), display=display))
    raise SkipNode


def setup(app: Any) -> None:
    """Have docstrings made plain before their sections are read, and formulas drawn."""
    StandaloneHTMLBuilder.search = whole  # its index is every word of every page, by its stem
    app.connect("autodoc-process-docstring", plain, priority=400)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
