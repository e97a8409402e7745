"""The real Spark, for lab 17: a training step on it, and a stage in barrier mode.

pyspark is imported inside functions: it and a Java are optional.

Source: Zaharia et al., NSDI 2012; Apache Spark's documentation of `RDD.barrier`.
"""

import operator
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from os import environ
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Gradient: TypeAlias = Callable[[Array, Any], Array]  # of parameters and a record
Slices: TypeAlias = Callable[[Array, int], Iterator[tuple[int, Array]]]


def missing() -> str:
    """Return what is missing for a real Spark, and how to get it; or nothing."""
    if find_spec("pyspark") is None:
        return 'no pyspark. Install it: pip install "mlsys-labs[spark]"'
    if not (shutil.which("java") or environ.get("JAVA_HOME")):
        return "no Java. Install one, 17 or newer, or set JAVA_HOME"
    return ""


@contextmanager
def spark(slots: int) -> Iterator[Any]:
    """Give a SparkContext of its own with so many slots on this machine."""
    from pyspark import SparkConf, SparkContext

    settings = SparkConf().setMaster(f"local[{slots}]").setAppName("lab 17")
    settings.set("spark.ui.enabled", "false").set("spark.driver.host", "127.0.0.1")
    settings.set("spark.ui.showConsoleProgress", "false")
    # a stage that cannot start is asked about twice, not 40 times 15 seconds long
    settings.set("spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures", "1")
    settings.set("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")
    context = SparkContext(conf=settings)
    context.pythonExec = sys.executable  # tasks find what this Python finds
    context.setLogLevel("OFF")
    try:
        yield context
    finally:
        context.stop()


def train_on_spark(
    records: Sequence[Any],
    gradient: Gradient,
    slices: Slices,
    w: Array,
    *,
    steps: int,
    lr: float,
    slots: int = 6,
) -> tuple[Array, str]:
    """Return the parameters after some steps, and the lineage of the last gradient as Spark has it.

    Args:
        records: a partition each; the gradient of all is the sum of theirs.
        slices: cuts a gradient into pairs of a key and a piece, as in the lab.
    """
    n, lineage = len(records), b""
    with spark(slots) as context:
        data = context.parallelize(records, n).cache()
        for _ in range(steps):
            pieces = data.map(partial(gradient, w)).flatMap(partial(_cut, slices, n))
            total = pieces.reduceByKey(operator.add, n)
            w = w - lr * np.concatenate([piece for _, piece in sorted(total.collect())])
            lineage = total.toDebugString()
    return w, lineage.decode()


def _cut(slices: Slices, n: int, gradient: Array) -> list[tuple[int, Array]]:
    return list(slices(gradient, n))


def barrier_stage(*, tasks: int, slots: int) -> str:
    """Return what Spark says to a stage of so many tasks that must start together."""
    from py4j.protocol import Py4JJavaError

    with spark(slots) as context:
        stage = context.parallelize(range(tasks), tasks).barrier()
        try:
            rows = stage.mapPartitions(list).collect()
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage()).partition("\n")[0]
        return f"{len(rows)} tasks started together in {slots} slots"
