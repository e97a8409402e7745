"""Who may go on, and whose gradient counts: the rules of a parameter server, without its arrays.

    sync    step t needs the gradients of `workers - backups` workers that began it; a pull waits
            until every step that this worker pushed to has been taken
    async   each gradient counts on arrival, and no pull waits
    ssp     each gradient counts on arrival; a pull waits while its worker is more than
            `staleness` steps ahead of the slowest

The server drives these rules by messages, the simulator by a virtual clock.
May import: the standard library.

Source: Li et al., OSDI 2014, section 3.6; Ho et al., NIPS 2013; backups: Chen et al.,
arXiv:1604.00981, and Abadi et al., OSDI 2016, section 4.4.
"""

from collections.abc import Iterable

CONSISTENCIES = ("sync", "async", "ssp")
APPLY, KEEP, DROP = "apply", "keep", "drop"  # what becomes of a gradient that arrives


class Progress:
    """Which step each worker has reached.

    `version` counts the steps taken in a synchronous run, and the gradients taken in others. A
    server that does not decide (`decides=False`) takes its synchronous steps as `commit` says.
    """

    def __init__(
        self,
        consistency: str,
        workers: Iterable[int],
        staleness: int = 0,
        backups: int = 0,
        decides: bool = True,
    ) -> None:
        self.consistency = consistency
        self.staleness = staleness
        self.version = 0
        self.steps = dict.fromkeys(workers, 0)  # of those at work: the step that each is in
        self.lost: set[int] = set()
        self._needs = len(self.steps) - backups
        self.backups = backups
        self._arrived: dict[int, list[int]] = {}  # step -> workers, in order of arrival
        self._committed: dict[int, list[int]] = {}
        self.decides = decides
        self._sync = consistency == "sync"

    def lead(self, step: int) -> int:
        """Return how many steps of the slowest worker a pull at `step` misses."""
        if self._sync or not self.steps:
            return 0
        return max(0, step - min(self.steps.values()))

    def may_pull(self, step: int) -> bool:
        """Return whether a worker that has pushed `step` gradients may have the parameters."""
        if self._sync:
            return self.version >= step
        return self.consistency == "async" or self.lead(step) <= self.staleness

    def push(self, worker: int, step: int) -> str:
        """Take note of the worker's gradient of `step`; return what becomes of it."""
        self.steps[worker] = step + 1
        if not self._sync:
            self.version += 1
            return APPLY
        if step < self.version:
            return DROP
        self._arrived.setdefault(step, []).append(worker)
        return KEEP

    def take_step(self) -> tuple[int, list[int], list[int]] | None:
        """Take the next synchronous step if its gradients are here.

        Returns:
            The step, the workers whose gradients it is the mean of, and those that came too late.
        """
        arrived = self._arrived.get(self.version, [])
        chosen = self._choose(arrived)
        if chosen is None:
            return None
        late = [worker for worker in arrived if worker not in chosen]
        self._arrived.pop(self.version, None)
        self.version += 1
        return self.version - 1, sorted(chosen), late

    def _choose(self, arrived: list[int]) -> list[int] | None:
        if not self.decides:
            committed = self._committed.get(self.version)
            if committed is None or not set(committed) <= set(arrived):
                return None
            return self._committed.pop(self.version)
        taking_part = len(set(self.steps) | set(arrived))  # done workers count by what they left
        needs = min(self._needs, taking_part)
        return arrived[:needs] if arrived and len(arrived) >= needs else None

    def commit(self, step: int, workers: list[int]) -> None:
        """Take note that the deciding server made `step` of these workers' gradients."""
        self._committed[step] = workers

    def missing(self) -> list[int]:
        """Return workers that are lost and whose gradients a committed step needs."""
        arrived = self._arrived.get(self.version, [])
        needed = self._committed.get(self.version, [])
        return [worker for worker in needed if worker in self.lost and worker not in arrived]

    def done(self, worker: int) -> None:
        """Take note that the worker pushes nothing more; nobody waits for it from now on."""
        self.steps.pop(worker, None)

    def lose(self, worker: int) -> bool:
        """Take note that the worker is gone; return whether the others can go on."""
        if worker not in self.steps:
            return True  # it was done
        self.steps.pop(worker)
        self.lost.add(worker)
        if self._sync:
            return len(self.lost) <= self.backups
        return self.consistency == "async"
