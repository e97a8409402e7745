"""What can go wrong between ranks.

    DdpLabError
    ├── InvalidArgument (ValueError)    a call that no other rank could make right
    │   └── DoesNotFit                  a predicted run needs more memory than a device has
    ├── UnknownAlgorithm (ValueError)   no algorithm of that name for the collective
    ├── Mismatch (ValueError)           two ranks disagree on what they do together
    ├── RankLost (ConnectionError)      a peer is gone: it returned, raised or was killed
    ├── RankTimeout (TimeoutError)      a peer was silent for too long
    │   └── Deadlock                    ranks wait for each other in a circle
    ├── StageFailed (RuntimeError)      a stage of a pipeline raised; all its ranks are told
    ├── OutOfSharedMemory (MemoryError) the transport's segment is full
    ├── HostsRefused (RuntimeError)     this machine cannot have hosts of its own
    └── RankFailed (RuntimeError)       what `launch` raises: names the first guilty rank

The facts of a message are attributes too. Every error survives pickling, for it crosses processes:
it can be made of its message alone, and its attributes are pickled beside that.
"""


class DdpLabError(Exception):
    """Base of all errors of this package."""


class InvalidArgument(DdpLabError, ValueError):
    """An argument is wrong whatever the other ranks do."""


class DoesNotFit(InvalidArgument):
    """A stage of a predicted run needs `over_bytes` more memory than each of its devices has."""

    def __init__(self, message: str, stage: int = -1, over_bytes: float = 0.0) -> None:
        super().__init__(message)
        self.stage = stage
        self.over_bytes = over_bytes


class UnknownAlgorithm(DdpLabError, ValueError):
    """The collective has no algorithm of this name."""


class Mismatch(DdpLabError, ValueError):
    """Two ranks disagree on the operation, its order, or the shape, dtype or root of it."""

    def __init__(self, message: str, ranks: tuple[int, int] = (-1, -1)) -> None:
        super().__init__(message)
        self.ranks = ranks


class _AboutRank(DdpLabError):
    """An error about one peer, whose number it carries as `rank`."""

    def __init__(self, message: str, rank: int = -1) -> None:
        super().__init__(message)
        self.rank = rank


class RankLost(_AboutRank, ConnectionError, RuntimeError):
    """A peer that was waited for has ended; torch's programs expect a `RuntimeError`."""


class RankTimeout(_AboutRank, TimeoutError, RuntimeError):
    """A peer said nothing for the whole time allowed."""


class Deadlock(RankTimeout):
    """Ranks wait for each other, so that none can ever go on."""


class StageFailed(_AboutRank, RuntimeError):
    """A stage of a pipeline raised, on rank `rank`; every rank of the pipeline raises this."""


class OutOfSharedMemory(DdpLabError, MemoryError):
    """The segment has no room for the buffer asked for."""


class HostsRefused(DdpLabError, RuntimeError):
    """This machine allows no hosts inside it; `is_missing` where only a package is not there."""

    def __init__(self, message: str, is_missing: bool = False) -> None:
        super().__init__(message)
        self.is_missing = is_missing


class RankFailed(_AboutRank, RuntimeError):
    """A launched rank raised, was killed or could not be started.

    `rank` is the first guilty one, `traceback` its traceback as text, and `failures` maps every
    rank that failed to one line about it.
    """

    def __init__(
        self,
        message: str,
        rank: int = -1,
        traceback: str = "",
        failures: dict[int, str] | None = None,
    ) -> None:
        super().__init__(message, rank)
        self.traceback = traceback
        self.failures = failures or {}
