"""One message for every command that needs a package of an extra which is not installed.

Imports nothing of ours.
"""

import sys
from pathlib import Path

_MODULES = {
    "torch": ("torch",),
    "compile": ("llvmlite",),
    "lab": (
        "IPython", "anywidget", "cloudpickle", "ipykernel", "ipywidgets", "jupyterlab",
        "matplotlib", "nbclient", "nbconvert", "nbformat", "safetensors", "sklearn",
        "threadpoolctl", "traitlets", "voila",
    ),
    "grade": (
        "distributed", "fastapi", "h11", "jinja2", "mistune", "multipart", "nh3", "pydantic",
        "python_multipart", "rich", "sqlalchemy", "starlette", "uvicorn",
    ),
    "signin": ("authlib", "joserfc"),
    "test": ("jupytext", "nbval", "playwright", "pytest"),
}  # fmt: skip


def explain_import_error(operation: str, error: ImportError) -> str | None:
    """Return which extra is not installed and what to do; None if the module is of no extra."""
    name = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in _MODULES.items() if name in modules), None)
    return extra and describe_missing(operation, extra, str(error))


def describe_missing(operation: str, extra: str, cause: str) -> str:
    """Return that an extra is not installed, why we think so, and the next step here."""
    root = Path(__file__).resolve().parent.parent
    if (root / "pyproject.toml").is_file():
        step = f"make setup, or .venv/bin/pip install -e '.[{extra}]', in {root}"
    else:
        step = f"{sys.executable} -m pip install 'mlsys-labs[{extra}]'"
    help_ = "Help: when_it_does_not_work.html#something-is-not-installed"
    return f'{operation}: the extra "{extra}" is not installed: {cause}. Next: {step}. {help_}'
