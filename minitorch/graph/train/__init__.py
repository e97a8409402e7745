"""TensorFlow 1's `tf.train`: optimizers, whose each update is a node that writes its variable.

Slots (momenta, accumulators) are variables that are not trained; `initialize_all_variables` sets
them like any other, so it belongs after `minimize`.
"""

from .optimizer import AdagradOptimizer as AdagradOptimizer
from .optimizer import AdamOptimizer as AdamOptimizer
from .optimizer import GradientDescentOptimizer as GradientDescentOptimizer
from .optimizer import MomentumOptimizer as MomentumOptimizer
from .optimizer import Optimizer as Optimizer
from .saver import Saver as Saver
from .saver import latest_checkpoint as latest_checkpoint

__all__ = [
    "AdagradOptimizer",
    "AdamOptimizer",
    "GradientDescentOptimizer",
    "MomentumOptimizer",
    "Optimizer",
    "Saver",
    "latest_checkpoint",
]
