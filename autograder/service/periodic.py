"""A thread that does its work in steps: at once while there is more, else when it is time."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class Periodic:
    """Calls `step` in a thread, again at once while it returns True, else `look_s` later.

    What a step raises is logged, and the next one comes `look_s` later all the same.
    """

    def __init__(self, name: str, step: Callable[[], bool], look_s: float) -> None:
        self._name, self._step, self._look_s = name, step, look_s
        self._stopping, self._woken = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Have a step begin now."""
        self._woken.set()

    def stop(self) -> None:
        """Return once the step that is under way, if any, is the last."""
        self._stopping.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()  # before the step, which may be too early for what wakes us next
            try:
                more = self._step()
            except Exception:  # such as a database that is away
                log.exception(
                    "%s: nothing can be done now; again in %g s", self._name, self._look_s
                )
                more = False
            if not more and not self._stopping.is_set():
                self._woken.wait(self._look_s)
