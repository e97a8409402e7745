"""Pictures of a lab put into the text that shows them, for notebooks that travel alone.

A notebook on Colab has no folder beside it: `![a ring](assets/ring.svg)` shows nothing there. So
the picture itself stands in the path's place, as a data URI.
"""

import base64
import re
from pathlib import Path

from autograder.errors import LabError

KINDS = {
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}
LIMIT_BYTES = 2 << 20  # Colab refuses notebooks of 20 MB

_IMAGE = re.compile(
    r"""(?P<before>!\[[^\]]*\]\(\s*<?|<img\b[^>]*?\bsrc\s*=\s*["'])"""
    r"""(?P<path>[^\s"'<>()]+)"""
)
_ELSEWHERE = re.compile(r"[a-zA-Z][\w+.-]*:|//|/|#")


def embed(text: str, directory: Path) -> str:
    """Return Markdown with every picture that lies in the lab's `directory` inside it.

    Pictures elsewhere (a URL, an attachment) stay as they are.

    Raises:
        LabError: a picture is missing, outside the lab, of a kind that no page shows, or too large.
    """

    def place(match: re.Match[str]) -> str:
        path = match["path"]
        if _ELSEWHERE.match(path):
            return match[0]
        return match["before"] + data_uri(_inside(path, directory))

    return _IMAGE.sub(place, text)


def data_uri(path: Path) -> str:
    """Return a picture as the text that shows it.

    Raises:
        LabError: it is of a kind that no page shows, or too large.
    """
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        expected = f"expected one of {', '.join(KINDS)}"
        raise LabError(f"picture {path.name}: got {path.suffix!r}, {expected}. Save it as such.")
    data = path.read_bytes()
    if len(data) > LIMIT_BYTES:
        size = f"got {len(data)} bytes, expected at most {LIMIT_BYTES}"
        raise LabError(f"picture {path.name}: too large for a notebook: {size}. Make it smaller.")
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _inside(path: str, directory: Path) -> Path:
    whole = (directory / path).resolve()
    if not whole.is_relative_to(directory.resolve()) or not whole.is_file():
        problem = f"got {path!r}, expected a file in {directory}"
        raise LabError(f"picture: there is none of that name: {problem}. Check the text's path.")
    return whole
