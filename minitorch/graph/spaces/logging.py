"""`tf.logging`: TensorFlow's names over Python's own logging."""

from __future__ import annotations

import logging as python
from collections import Counter
from typing import Any

from .absent import no_attribute

DEBUG, INFO, WARN, ERROR, FATAL = (
    python.DEBUG,
    python.INFO,
    python.WARNING,
    python.ERROR,
    python.CRITICAL,
)

_log = python.getLogger("minitorch.graph")
_calls: Counter[str] = Counter()


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


def log(level: int, msg: str, *args: Any) -> None:
    """Log at a level."""
    _log.log(level, msg, *args)


def vlog(level: int, msg: str, *args: Any) -> None:
    """Log what only whoever looks for a mistake reads; the more so the higher the level."""
    _log.log(max(1, python.DEBUG - level), msg, *args)


def log_if(level: int, msg: str, condition: bool, *args: Any) -> None:
    """Log where a condition holds."""
    if condition:
        _log.log(level, msg, *args)


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log the first of every `n` calls with this message."""
    _calls[msg] += 1
    log_if(level, msg, (_calls[msg] - 1) % n == 0, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log the first `n` calls with this message."""
    _calls[msg] += 1
    log_if(level, msg, _calls[msg] <= n, *args)


def flush() -> None:
    """Write what the handlers still hold."""
    for handler in _log.handlers:
        handler.flush()


def get_logger() -> python.Logger:
    """Return the logger of Python's that all of these write to."""
    return _log


def __getattr__(name: str) -> Any:
    """Raise for a name that is not here, and say what to use."""
    raise no_attribute(__name__, name)
