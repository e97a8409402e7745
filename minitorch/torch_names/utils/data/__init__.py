"""`minitorch.data` under torch's name."""

from minitorch.data import *  # noqa: F403  (the same names)
from minitorch.data import __all__ as __all__
