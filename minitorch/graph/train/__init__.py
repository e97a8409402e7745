"""TensorFlow 1's `tf.train`: optimizers, whose each update is a node, and `Saver`."""

from ...exports import public_names
from .optimizer import AdagradOptimizer as AdagradOptimizer
from .optimizer import AdamOptimizer as AdamOptimizer
from .optimizer import GradientDescentOptimizer as GradientDescentOptimizer
from .optimizer import MomentumOptimizer as MomentumOptimizer
from .optimizer import Optimizer as Optimizer
from .saver import Saver as Saver
from .saver import latest_checkpoint as latest_checkpoint

__all__ = public_names(globals())
