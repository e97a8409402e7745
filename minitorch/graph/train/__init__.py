"""TensorFlow 1's `tf.train`: optimizers, whose each update is a node that writes its variable.

Slots (momenta, accumulators) are variables that are not trained; `initialize_all_variables` sets
them like any other, so it belongs after `minimize`.
"""

from importlib import import_module
from typing import Any

from ..spaces.names import TRAINING
from .descent import AdagradOptimizer as AdagradOptimizer
from .descent import AdamOptimizer as AdamOptimizer
from .descent import GradientDescentOptimizer as GradientDescentOptimizer
from .descent import MomentumOptimizer as MomentumOptimizer
from .optimizer import Optimizer as Optimizer
from .saver import Saver as Saver
from .saver import latest_checkpoint as latest_checkpoint


def __getattr__(name: str) -> Any:
    """Return one of TensorFlow's further names for training, loaded when first asked for."""
    if name not in TRAINING:
        from ..spaces.absent import no_attribute

        raise no_attribute(__name__, name)
    found = globals()[name] = getattr(import_module(TRAINING[name]), name)
    return found


def __dir__() -> list[str]:
    """Return all names, those that are not loaded yet among them."""
    return sorted({*globals(), *TRAINING})
