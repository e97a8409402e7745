"""The wire: what is plain goes round unchanged, and no bytes do more than be refused."""

import contextlib
import math
import pickle
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from autograder.errors import NotPlainData
from autograder.sandbox import wire
from autograder.sandbox.wire import DTYPES, WireError, decode, encode

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
KEYS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary()
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda name: hnp.arrays(name, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
)
SCALARS = st.integers() | st.floats() | st.complex_numbers() | TEXT | st.binary() | KEYS
PLAIN = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS | st.tuples(KEYS, KEYS), inner)
    ),
)


def same(a: object, b: object) -> bool:
    """Return whether two plain values have the same types and the same bits throughout."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex) and isinstance(b, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, np.ndarray | np.generic) and isinstance(b, np.ndarray | np.generic):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return same(list(a.items()), list(b.items()))
    return a == b


@given(PLAIN)
def test_plain_data_goes_round_bit_for_bit(value: object) -> None:
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize(
    ("one", "other"), [(0.0, -0.0), (1, True), (1, 1.0), ([1], (1,)), (np.float32(1), 1.0)]
)
def test_the_comparison_of_these_tests_tells_lookalikes_apart(one: object, other: object) -> None:
    assert not same(one, other)


@settings(max_examples=300)
@given(st.binary(max_size=400))
@example(b"")
@example(b"a\x09\xff" + b"\xff" * 40)
@example(b"l" * 5000)
@example(b"d\x01l\x00N")
@example(b"d\x02NNNN")
@example(b"s\x02\xed\xa0")
@example(pickle.dumps(print))
def test_any_bytes_give_plain_data_or_a_wire_error(data: bytes) -> None:
    try:
        value = decode(data)
    except WireError:
        return
    assert same(decode(encode(value)), value)


@given(PLAIN, st.data())
def test_a_damaged_frame_gives_plain_data_or_a_wire_error(
    value: object, data: st.DataObject
) -> None:
    body = bytearray(encode(value))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        decode(bytes(body[: data.draw(st.integers(at, len(body)))]))


@pytest.mark.parametrize("order", ["<", ">"])
def test_byte_order_is_not_part_of_a_value(order: str) -> None:
    array = np.arange(6, dtype=f"{order}i4").reshape(2, 3).T
    got = decode(encode(array))
    np.testing.assert_array_equal(got, array)
    assert got.dtype == np.int32
    assert got.dtype.isnative


def test_a_received_array_is_new_memory_that_may_be_written() -> None:
    got = decode(encode(np.zeros(3)))
    got += 1
    assert got.tolist() == [1, 1, 1]


def test_a_bool_array_holds_bools_whatever_bytes_arrive() -> None:
    body = encode(np.array([True, False])).replace(b"\x01\x00", b"\x7f\x00")
    assert decode(body).view("uint8").tolist() == [1, 0]


class Liar(int):
    """Equal to everything, and an int if you ask it."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Subarray(np.ndarray):
    pass


@pytest.mark.parametrize(
    "value",
    [
        *(Liar(1), {1, 2}, print, object(), int, [Liar(1)], {Liar(1): 0}, ...),
        *(np.array([None]), np.array(["a"]), np.str_("a"), np.zeros(2, "f8,i4")),
        *(np.array(["2020"], "datetime64[D]"), np.zeros(2).view(Subarray), np.ma.zeros(2)),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_is_not_plain_data_does_not_travel(value: object) -> None:
    with pytest.raises(NotPlainData):
        encode(value)


def nested(depth: int) -> object:
    value: object = None
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        *(nested(wire.MAX_DEPTH + 1), 1 << (8 * wire.MAX_INT_BYTES), "\ud800"),
        *([None] * wire.MAX_ITEMS, bytes(wire.MAX_FRAME_BYTES), np.zeros(wire.MAX_FRAME_BYTES)),
        dict.fromkeys(range(wire.MAX_NUMBER_KEYS + 1)),
        [np.bool_(True)] * (wire.MAX_ARRAYS + 1),
        {(1, (0,) * wire.MAX_KEY_PARTS): None},
    ],
    ids=["depth", "int", "surrogate", "items", "bytes", "array", "number keys", "arrays", "key"],
)
def test_what_is_over_a_cap_is_refused_by_the_sender(value: object) -> None:
    with pytest.raises(WireError):
        encode(value)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"l\x01" * (wire.MAX_DEPTH + 1) + b"N", "levels"),
        (b"i\x81\x08" + bytes(1025), "int of 1025 bytes"),
        (b"l\xff\xff\xff\x7f", "cut short"),
        (b"s" + b"\xff" * 8, "more than seven"),
        (
            b"d\xc1\x40" + b"".join(b"i\x02%bN" % n.to_bytes(2, "little") for n in range(8257)),
            "4096",
        ),
        (b"a\x07\x02\x00\x80\x80\x80\x80\x80\x01", "too large"),
        (b"a\x07\x21" + b"\x01" * 33, "too large"),
        (b"a\x0e\x00" + bytes(8), "unknown dtype"),
        (b"d\x01a\x00\x00\x00N", "key of type"),
        (b"d\x02NNNN", "one key twice"),
        (b"l\xa1\x8d\x06" + b"g\x00\x00" * (wire.MAX_ARRAYS + 1), "100000 arrays"),
        (b"NN", "left over"),
        (b"\x80", "unknown tag"),
    ],
)
def test_what_is_over_a_cap_or_malformed_is_refused_by_the_receiver(body: bytes, says: str) -> None:
    with pytest.raises(WireError, match=says):
        decode(body)


def test_numbers_as_keys_that_collide_cost_little() -> None:
    modulus = (1 << 61) - 1  # of the interpreter's hash of numbers
    keys = {k * modulus: None for k in range(1, wire.MAX_NUMBER_KEYS)}
    assert len({hash(k) for k in keys}) == 1
    assert decode(encode(keys)) == keys


def test_keys_that_collide_behind_much_that_is_equal_are_refused() -> None:
    with pytest.raises(WireError, match="parts"):
        decode(b"d\x01t\x32" + 50 * encode(1) + b"N")


def test_a_frame_is_its_length_and_its_body() -> None:
    whole = wire.frame([math.pi])
    head, body = whole[: wire.HEADER_BYTES], whole[wire.HEADER_BYTES :]
    assert wire.frame_length(head) == len(body)
    assert decode(body) == [math.pi]


def test_a_frame_that_claims_to_be_enormous_is_refused_before_it_is_read() -> None:
    with pytest.raises(WireError, match="too long"):
        wire.frame_length(b"\xff\xff\xff\xff")
