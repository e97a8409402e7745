"""A lock on an open file, which ends with its process, however that ends.

Imports nothing of ours.
"""

import sys

if sys.platform == "win32":
    import msvcrt

    def hold(descriptor: int) -> None:
        """Lock a file, or raise OSError where somebody else has."""
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:

    def hold(descriptor: int) -> None:
        """Lock a file, or raise OSError (BlockingIOError) where somebody else has."""
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
