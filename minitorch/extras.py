"""One message for whatever needs a package of an extra which is not installed.

Imports nothing of ours.
"""

import sys
from pathlib import Path


def describe_missing(operation: str, extra: str, cause: object) -> str:
    """Return that an extra is not installed, why we think so, and the next step here."""
    root = Path(__file__).resolve().parent.parent
    if (root / "pyproject.toml").is_file():
        step = f"make setup, or .venv/bin/pip install -e '.[{extra}]', in {root}"
    else:
        step = f"{sys.executable} -m pip install 'mlsys-labs[{extra}]'"
    help_ = "Help: when_it_does_not_work.html#something-is-not-installed"
    return f'{operation}: the extra "{extra}" is not installed: {cause}. Next: {step}. {help_}'
