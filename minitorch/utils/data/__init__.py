"""`minitorch.data` under torch's name."""

from ...data import *  # noqa: F403  (the same names)
from ...data import __all__ as __all__
