"""The errors of minitorch, one tree.

    MinitorchError
    ├── ShapeError          shapes do not fit            (ValueError, RuntimeError)
    ├── DTypeError          a dtype cannot do this       (TypeError, RuntimeError)
    ├── AxisError           an axis or index out of range (IndexError, RuntimeError)
    ├── ArgumentError       a value out of its range     (ValueError, RuntimeError)
    ├── GradientError       a backward that cannot be    (RuntimeError)
    │   ├── NoGradientRule  the operator has no `gradient` (NotImplementedError)
    │   ├── UnusedInput     `grad` of something that was not used
    │   ├── GraphFreed      a second backward without `retain_graph`
    │   ├── ModifiedInPlace a value needed by backward was overwritten
    │   └── GradcheckError  a rule disagrees with finite differences (AssertionError)
    ├── DeviceError         no such device, or two of them (RuntimeError)
    ├── GraphError          a dataflow graph that cannot be built or run (ValueError, RuntimeError)
    │   └── GraphTypeError  something that is no node, or a node used as a value (TypeError)
    ├── CompileError        a kernel that cannot be generated or compiled (RuntimeError)
    └── ServeError          a prediction, or a model, that cannot be served (RuntimeError)
        ├── UnknownApp      no application of that name   (LookupError)
        ├── ModelFailed     the model raised, or answered what cannot be sent
        ├── ContainerDied   the model's process ended with the query, twice
        └── DeadlineMissed  nothing has arrived in time   (TimeoutError)

Messages read `{operation}: {what is wrong}: got X, expected Y. {Next step.}`.
Shape, axis, dtype and argument errors are both `ValueError` (`IndexError`, `TypeError`), which is
what they are, and `RuntimeError`, which is what PyTorch raises: code written for either catches
them.
"""


class MinitorchError(Exception):
    """Any error that minitorch raises on purpose."""


class ShapeError(MinitorchError, ValueError, RuntimeError):
    """Shapes that do not fit together, or a shape that cannot be."""


class DTypeError(MinitorchError, TypeError, RuntimeError):
    """An operator that does not exist for this dtype or type of argument."""


class AxisError(MinitorchError, IndexError, RuntimeError):
    """An axis or an index out of range."""


class IndexShapeError(ShapeError, AxisError):
    """A mask that is not as long as what it picks from: an `IndexError` too, as in PyTorch."""


class IndexDTypeError(DTypeError, AxisError):
    """An index that is no integer and no boolean: an `IndexError` too, as in PyTorch."""


class ArgumentError(MinitorchError, ValueError, RuntimeError):
    """An argument outside the values that make sense."""


class GradientError(MinitorchError, RuntimeError):
    """A gradient that does not exist or cannot be computed any more."""


class NoGradientRule(GradientError, NotImplementedError):
    """Backward met an operator without `gradient`."""


class UnusedInput(GradientError):
    """`grad` was asked for an input that the outputs do not depend on."""


class GraphFreed(GradientError):
    """A second backward through a graph that was not retained."""


class ModifiedInPlace(GradientError):
    """A value that backward needs was overwritten after it was used."""


class GradcheckError(GradientError, AssertionError):
    """A gradient that disagrees with finite differences."""


class DeviceError(MinitorchError, RuntimeError):
    """A device that is not there, or values that live on two."""


class GraphError(MinitorchError, ValueError, RuntimeError):
    """A dataflow graph that cannot be built or run."""


class GraphTypeError(GraphError, TypeError):
    """Something that is not a node where one is needed, or a node where a value is needed."""


class CompileError(MinitorchError, RuntimeError):
    """Code that cannot be generated, or no compiler to turn it into a function."""


class ServeError(MinitorchError, RuntimeError):
    """A prediction, or a model, that cannot be served."""


class UnknownApp(ServeError, LookupError):
    """No application of that name is linked."""


class ModelFailed(ServeError):
    """A model raised on this query, or answered what cannot be sent.

    Attributes:
        by_input: whether the query itself is the likely cause: its shape, its dtype, its values.
    """

    def __init__(self, message: str, by_input: bool = False) -> None:
        super().__init__(message)
        self.by_input = by_input


class ContainerDied(ServeError):
    """The process of a model ended while it had this query, and so did the next."""


class DeadlineMissed(ServeError, TimeoutError):
    """No model has answered by the deadline."""
