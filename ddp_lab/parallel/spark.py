"""All-reduce as Spark does it: a tree of tasks down to the driver in stages, then a broadcast.

Here ranks play the tasks, rank 0 the driver too; `on_spark` asks a real Spark.

A ring needs all ranks at once: each waits in every step for its neighbour. Spark's tasks run when
a slot is free, and none can count on another's running; so they never talk to each other. They
leave their results, a barrier ends the stage, and the tasks of the next stage fetch them. What
MapReduce calls the shuffle is the same between its two stages.

May import: agreement, arguments, arrays, collectives, communicator, errors, extras, transport;
pyspark inside functions.
Source: Zaharia et al., NSDI 2012; `RDD.treeAggregate` of Apache Spark; Dean & Ghemawat, OSDI 2004.
"""

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ddp_lab.arguments import whole_number
from ddp_lab.arrays import to_numpy
from ddp_lab.collectives.registry import Algorithm
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.extras import describe_missing
from ddp_lab.parallel.agreement import agree
from ddp_lab.transport.base import NDArray


def tree_aggregate(comm: Communicator, x: Any, depth: int = 2) -> Any:
    """Return the sum of all ranks' arrays on rank 0, the driver, and None elsewhere.

    Raises:
        InvalidArgument: a depth below 1.
        Mismatch: ranks disagree on shape, dtype or depth.
    """
    _agree(comm, "tree_aggregate", x, "depth", depth)
    left = [*stages_of(comm.size, depth), 1]
    return _collective(comm, x, lambda inner, array: in_stages(inner, array, left))


def spark_all_reduce(comm: Communicator, x: Any, partitions: int) -> Any:
    """Return the sum of all ranks' arrays on every rank, by a tree and a broadcast.

    One stage sums the ranks' arrays into `partitions`, the next these at the driver, which
    broadcasts the sum. With as many partitions as ranks, or more, the driver sums everything.

    Raises:
        InvalidArgument: fewer partitions than 1.
        Mismatch: ranks disagree on shape, dtype or partitions.
    """
    _agree(comm, "spark_all_reduce", x, "partitions", partitions)
    left = [partitions, 1] if partitions < comm.size else [1]

    def stages(inner: Communicator, array: NDArray) -> NDArray:
        total = inner.broadcast(in_stages(inner, array, left), algorithm="tree")
        return to_numpy(total, "spark_all_reduce")[0]

    return _collective(comm, x, stages)


def stages_of(partitions: int, depth: int) -> list[int]:
    """Return how many partitions are left after each stage before the driver's, as in Spark.

    Each stage divides their number by about the depth-th root, as long as that saves more than
    one more stage costs.
    """
    scale = max(math.ceil(partitions ** (1 / depth)), 2)
    left = []
    while partitions > scale + math.ceil(partitions / scale):
        partitions //= scale
        left.append(partitions)
    return left


def in_stages(comm: Communicator, x: NDArray, left: Sequence[int]) -> NDArray | None:
    """Return the sum of all ranks' arrays on rank 0, None elsewhere.

    In each stage partition i goes to partition i modulo the number that is left after it.
    """
    count, mine = comm.size, x.copy()
    for n in left:
        if n <= comm.rank < count:
            comm.send(mine, comm.rank % n)
        for src in range(comm.rank + n, count, n) if comm.rank < n else ():
            comm.combine(mine, comm.recv(src), "sum")
        comm.barrier()  # a stage begins when the one before has ended
        count = n
    return mine if comm.rank == 0 else None


def _agree(comm: Communicator, operation: str, x: Any, name: str, value: Any) -> None:
    """Raise on every rank unless all have arrays alike and the same number of 1 or more."""

    def facts() -> dict[str, str]:
        if whole_number(operation, name, value) < 1:
            raise InvalidArgument(
                f"{operation}: no such number of {name}: got {value!r} on rank {comm.rank}, "
                "expected 1 or more. Pass a whole number."
            )
        array, _ = to_numpy(x, operation)
        return {name: str(value), "the array": f"{array.dtype} {array.shape}"}

    agree(comm, operation, facts, step="Call it with arrays of one shape and the same number")


def _collective(comm: Communicator, x: Any, fn: Callable[..., Any]) -> Any:
    """Run a function as a collective of `comm`: its messages do not mix with others."""
    array, kind = to_numpy(x, "spark")
    call = comm._call("reduce", "tree", array, "in stages", kind, x)
    call.algorithm = Algorithm("spark", fn)
    return comm._run(call, (array,), {}, async_op=False)


def on_spark(arrays: Sequence[Any], partitions: int | None = None, depth: int = 2) -> Any:
    """Return the sum of some arrays by a real Spark, on this machine: its `treeAggregate`.

    Needs the extra "spark" and a Java; each array is a partition's, unless told otherwise.

    Raises:
        InvalidArgument: pyspark is not installed, or Spark does not start; says what to do.
    """
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError as error:
        raise InvalidArgument(describe_missing("on_spark", "spark", error)) from error
    settings = SparkConf().setMaster("local[*]").setAppName("ddp_lab")
    settings.set("spark.ui.enabled", "false").set("spark.driver.host", "127.0.0.1")
    try:
        context = SparkContext.getOrCreate(settings)
    except Exception as error:
        raise InvalidArgument(
            f"on_spark: Spark does not start: {error}. Install a Java, 17 or newer, and set "
            "JAVA_HOME where it lies elsewhere than on the path."
        ) from error
    context.pythonExec = sys.executable  # tasks find what this Python finds
    rows = context.parallelize(list(arrays), partitions or len(arrays))
    return rows.treeAggregate(0, _add, _add, depth)


def _add(left: Any, right: Any) -> Any:
    return left + right
