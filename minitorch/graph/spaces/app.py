"""`tf.app`: a program's flags, and its start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from . import flags as flags


def run(
    main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None
) -> NoReturn:
    """Read the flags, call `main` with the other words of the command line, and exit.

    Args:
        main: the function; that of the program's own module unless given.
    """
    words = list(sys.argv if argv is None else argv)
    rest = flags.FLAGS.parse(words)
    called = main if main is not None else sys.modules["__main__"].main
    sys.exit(called([words[0] if words else "", *rest]))
