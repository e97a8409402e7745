"""What lab 17 takes: a store that never changes, and the real Spark where it is installed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lessons.real_spark import barrier_stage, missing, train_on_spark
from lessons.stores import AlreadyStored, MachineLost, NotStored, Store


def test_what_is_stored_is_read_by_piece_and_every_byte_is_counted() -> None:
    store = Store()
    store.write("job/map0", [[1, 2], "two"])
    assert (store.read("job/map0"), store.read("job/map0", 1)) == ([1, 2], "two")
    assert store.read("job/map0", 1) == "two"
    files = sum(path.stat().st_size for path in store.folder.rglob("*") if path.is_file())
    twice = (store.folder / "job/map0/1").stat().st_size
    assert store.since() == (files, files + twice)
    assert store.since() == (0, 0)


def test_a_name_is_given_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("w0", [1])
    with pytest.raises(AlreadyStored, match="'w0' is stored already"):
        store.write("w0", [1])
    store.lose("w0")
    store.write("w0", [2])
    assert Store(tmp_path).read("w0") == 2  # what is stored outlives the machine


def test_a_machine_that_dies_leaves_all_of_a_result_or_nothing() -> None:
    store = Store(dies_at=2)
    store.write("a/0", [1])
    with pytest.raises(MachineLost, match="before 'a/1' had its name"):
        store.write("a/1", [1, 2])
    assert ("a/0" in store, "a/1" in store, "a" in store) == (True, False, False)
    store.write("a/1", [3])
    assert store.written == ["a/0", "a/1"]


@pytest.mark.parametrize(("name", "piece"), [("other", 0), ("a", 1)])
def test_what_is_not_stored_is_named(name: str, piece: int) -> None:
    store = Store()
    store.write("a", [0])
    with pytest.raises(NotStored, match=f"piece {piece} of '{name}' is not stored"):
        store.read(name, piece)


def test_the_real_spark_takes_the_same_steps_or_it_is_said_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is installed the lab runs it; nothing is installed here."""
    monkeypatch.chdir(tmp_path)
    if missing():
        assert missing().startswith(("no pyspark. Install it: pip", "no Java. Install one"))
        return

    def share(w: NDArray[Any], record: float) -> NDArray[Any]:
        return record * w

    def slices(gradient: NDArray[Any], n: int) -> Iterator[tuple[int, NDArray[Any]]]:
        yield from enumerate(np.array_split(gradient, n))

    w = np.arange(7.0)
    trained, lineage = train_on_spark([0.25, 0.5, 1.0], share, slices, w, steps=2, lr=0.1)
    np.testing.assert_allclose(trained, w * (1 - 0.175) ** 2)
    assert "ShuffledRDD" in lineage
    assert "more slots than the total number of slots" in barrier_stage(tasks=3, slots=2)
    assert barrier_stage(tasks=2, slots=2) == "2 tasks started together in 2 slots"
