"""`tf.logging`: TensorFlow's names over Python's own logging."""

from __future__ import annotations

import logging as python
from typing import Any

DEBUG, INFO, WARN, ERROR, FATAL = (
    python.DEBUG,
    python.INFO,
    python.WARNING,
    python.ERROR,
    python.CRITICAL,
)

_log = python.getLogger("minitorch.graph")


def set_verbosity(v: int) -> None:
    """Let messages of this level and above through."""
    _log.setLevel(v)


def get_verbosity() -> int:
    """Return the level that is let through."""
    return _log.getEffectiveLevel()


def debug(msg: str, *args: Any) -> None:
    """Log for whoever looks for a mistake."""
    _log.debug(msg, *args)


def info(msg: str, *args: Any) -> None:
    """Log what happens."""
    _log.info(msg, *args)


def warning(msg: str, *args: Any) -> None:
    """Log what may be wrong."""
    _log.warning(msg, *args)


warn = warning


def error(msg: str, *args: Any) -> None:
    """Log what is wrong."""
    _log.error(msg, *args)


def fatal(msg: str, *args: Any) -> None:
    """Log what nothing can go on after."""
    _log.critical(msg, *args)
