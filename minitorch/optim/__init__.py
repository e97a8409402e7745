"""Optimizers, which update parameters in place, and learning-rate schedules."""

from minitorch.exports import public_names
from minitorch.optim import lr_scheduler as lr_scheduler
from minitorch.optim.adam import Adam as Adam
from minitorch.optim.adam import AdamW as AdamW
from minitorch.optim.adaptive import Adadelta as Adadelta
from minitorch.optim.adaptive import Adagrad as Adagrad
from minitorch.optim.adaptive import RMSprop as RMSprop
from minitorch.optim.lbfgs import LBFGS as LBFGS
from minitorch.optim.optimizer import Optimizer as Optimizer
from minitorch.optim.sgd import SGD as SGD

__all__ = public_names(globals(), ["lr_scheduler"])
