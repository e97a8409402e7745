"""How often a long run should save itself, and how much of its time it keeps.

    work  write  work  write  work x        restart  work  write ...
    <--interval-->            lost <-mtbf->

Failures come at random, on average every `mtbf_s` seconds of the whole run: of n machines that
fail every m seconds each it is m / n. What is worked on between two checkpoints and not yet
written is lost with a failure, and so is a write or a restart that one strikes.

May import: NumPy, errors.
Sources: Young, Commun. ACM 17(9), 1974; Daly, Future Gener. Comput. Syst. 22(3), 2006.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ddp_lab.errors import InvalidArgument

FAILURES = 400_000  # drawn; goodput is then known to some thousandths


@dataclass(frozen=True)
class Checkpointing:
    """A run that fails every `mtbf_s` seconds on average, and saves itself.

    Attributes:
        mtbf_s: mean time between failures of the whole run.
        write_s: seconds in which a checkpoint is written, while nothing else goes on.
        restart_s: seconds from a failure until work goes on from the last checkpoint.
    Raises:
        InvalidArgument: a time that makes no sense: all but `restart_s` are above 0.
    """

    mtbf_s: float
    write_s: float
    restart_s: float

    def __post_init__(self) -> None:
        _check("mtbf_s", self.mtbf_s)
        _check("write_s", self.write_s)
        if self.restart_s != 0:
            _check("restart_s", self.restart_s)

    @property
    def interval_s(self) -> float:
        """Young's interval of work between two checkpoints: sqrt(2 write mtbf)."""
        return math.sqrt(2 * self.write_s * self.mtbf_s)

    @property
    def daly_s(self) -> float:
        """Daly's interval, which holds where writing is no longer short beside the mtbf, too."""
        x = self.write_s / (2 * self.mtbf_s)
        if x >= 1:
            return self.mtbf_s
        return self.interval_s * (1 + math.sqrt(x) / 3 + x / 9) - self.write_s

    @cached_property
    def goodput(self) -> float:
        """The share of its time for which a run makes progress that lasts, at `interval_s`."""
        return self.simulated_goodput(self.interval_s)

    def simulated_goodput(self, interval_s: float, seed: int = 0) -> float:
        """Return the goodput of another interval, over many failures that are drawn."""
        _check("interval_s", interval_s)
        gaps = np.random.default_rng(seed).exponential(self.mtbf_s, FAILURES)
        lasted = np.floor(np.maximum(0.0, gaps - self.restart_s) / (interval_s + self.write_s))
        return float(interval_s * lasted.sum() / gaps.sum())

    def expected_goodput(self, interval_s: float) -> float:
        """Return the same in closed form: t e^(-r/m) / m (e^((t + w)/m) - 1)."""
        _check("interval_s", interval_s)
        periods = (interval_s + self.write_s) / self.mtbf_s
        if periods > 700:  # of which none is ever finished; e^709 is the largest float
            return 0.0
        survived = math.exp(-self.restart_s / self.mtbf_s)
        return interval_s / self.mtbf_s * survived / math.expm1(periods)


checkpointing = Checkpointing


def _check(name: str, seconds: float) -> None:
    if not 0 < seconds < math.inf:
        raise InvalidArgument(
            f"checkpointing: no such time: got {name}={seconds!r}, expected seconds above 0. "
            "Pass what was measured."
        )
