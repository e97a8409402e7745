# ruff: noqa
"""Says that it sent what it did not, sends in another's name, and hides what it sent."""

from autograder.sandbox import wire


def pass_on(comm, x):
    import gc

    from autograder.sandbox.endpoint import Endpoint

    ends = [o for o in gc.get_objects() if isinstance(o, Endpoint)]
    for end in ends:
        end._connection.sendall(wire.frame((0, "wait", [0, 1, 2], 0, True)))
        end._connection.sendall(wire.frame((0, "send", (comm.rank + 1) % 3, 0, b"", x)))
        end._connection.sendall(wire.frame((0, "send", comm.rank, 7, b"x" * 9, x)))
        if comm.rank == 1:
            end._connection.sendall(wire.frame((1, "ok", x)))
            end._connection.sendall(wire.frame((3, "ok", x)))
    return x
