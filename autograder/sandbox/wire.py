"""The wire between the judge and a worker: length-prefixed frames of plain data.

What may pass: None, bool, int, float, complex, str, bytes, list, tuple, dict, and NumPy arrays and
scalars of the dtypes in `DTYPES`. Each value is one tag byte and its content:

    N T F            None, True, False
    i n bytes        int, two's complement, little endian
    f 8   c 16       float, complex: IEEE doubles, little endian
    s n utf-8        str          b n bytes   bytes
    l n values       list         t n values  tuple      d n (key value)*  dict
    a dtype r dims data           array of r axes, C order, little endian
    g dtype data                  NumPy scalar

where n is an unsigned varint. `decode` is total: any bytes give plain data or `WireError`, in time
and memory proportional to their number. It builds only the types above, so nothing that a hostile
process sends can run. Pickle would be a remote shell.

Imports the errors alone; NumPy only once an array is at hand.
"""

import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

from autograder.errors import AutograderError, NotPlainData

MIB = 1 << 20
MAX_FRAME_BYTES = 64 * MIB
MAX_DEPTH = 64  # twice what `plain` lets through: requests and replies wrap values
MAX_ITEMS = 2_000_000  # values in one frame
MAX_INT_BYTES = 1024  # str() of a larger one may be refused by the interpreter
# Hashes of numbers are not seeded, so keys can be made to collide; hashes of text are.
MAX_NUMBER_KEYS = 4096  # in one frame: at worst eight million comparisons
MAX_KEY_PARTS = 16  # of a tuple that is a key: each comparison may go through all of them
MAX_AXES = 32
MAX_ARRAYS = 100_000  # in one frame: each costs the judge more than its bytes do

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_CODES = {name: code for code, name in enumerate(DTYPES)}
_LENGTH = struct.Struct(">I")
_FLOAT = struct.Struct("<d")
_COMPLEX = struct.Struct("<dd")
HEADER_BYTES = _LENGTH.size


class WireError(AutograderError, ValueError):
    """Bytes that are no frame of plain data, or data that does not fit a frame."""


def frame(value: Any) -> bytes:
    """Return `value` as one frame: its encoded length, four bytes, and itself.

    Raises:
        NotPlainData: a part of it is of a type that does not travel.
        WireError: it is over a cap.
    """
    body = encode(value)
    return _LENGTH.pack(len(body)) + body


def frame_length(header: bytes) -> int:
    """Return the length of the body that follows this `HEADER_BYTES`-byte header.

    Raises:
        WireError: it is over `MAX_FRAME_BYTES`.
    """
    length: int = _LENGTH.unpack(header)[0]
    if length > MAX_FRAME_BYTES:
        expected = f"expected at most {MAX_FRAME_BYTES}"
        raise WireError(f"frame: too long: got {length} bytes, {expected}.")
    return length


def receive(connection: socket.socket) -> Any:
    """Return the value of the next frame of a blocking socket.

    Raises:
        EOFError: the other side has hung up.
        WireError: what came is no frame of plain data.
    """
    return decode(_exactly(connection, frame_length(_exactly(connection, HEADER_BYTES))))


def _exactly(connection: socket.socket, n_bytes: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < n_bytes:
        piece = connection.recv(min(n_bytes - len(pieces), MIB))
        if not piece:
            raise EOFError("the other side has hung up")
        pieces += piece
    return bytes(pieces)


def encode(value: Any) -> bytes:
    """Return the bytes of plain data; `decode` is the inverse. Raises as `frame` does."""
    return _Encoder().run(value)


def decode(data: bytes) -> Any:
    """Return the plain data that these bytes say.

    Raises:
        WireError: they are not what `encode` writes, or are over a cap.
    """
    try:
        return _Decoder(data).run()
    except WireError:
        raise
    except (ValueError, OverflowError, MemoryError, RecursionError) as error:
        raise WireError(f"decode: malformed: {type(error).__name__}.") from error


class _Encoder:
    """Appends the pieces of one value; counts them against the caps."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self.items = 0
        self.arrays = 0
        self.number_keys = 0
        self.writers: dict[type, Callable[[Any, int], None]] = {
            int: self._put_int,
            float: lambda v, _: self._put(b"f", _FLOAT.pack(v)),
            complex: lambda v, _: self._put(b"c", _COMPLEX.pack(v.real, v.imag)),
            str: self._put_str,
            bytes: lambda v, _: self._put(b"b", _varint(len(v)), v),
            list: lambda v, depth: self._put_sequence(b"l", v, depth),
            tuple: lambda v, depth: self._put_sequence(b"t", v, depth),
            dict: self._put_dict,
        }

    def run(self, value: Any) -> bytes:
        self._put_value(value, 0)
        return b"".join(self.pieces)

    def _put(self, *pieces: bytes) -> None:
        self.pieces += pieces
        self.size += sum(map(len, pieces))
        if self.size > MAX_FRAME_BYTES:
            raise WireError(f"encode: more than {MAX_FRAME_BYTES} bytes. Send something smaller.")

    def _put_value(self, value: Any, depth: int) -> None:
        self.items += 1
        if self.items > MAX_ITEMS or depth > MAX_DEPTH:
            raise WireError(f"encode: more than {MAX_ITEMS} values or {MAX_DEPTH} levels.")
        if value is None or value is True or value is False:
            return self._put(b"N" if value is None else b"T" if value else b"F")
        writer = self.writers.get(type(value), self._put_numpy)
        return writer(value, depth)

    def _put_int(self, value: int, _: int) -> None:
        n_bytes = value.bit_length() // 8 + 1
        if n_bytes > MAX_INT_BYTES:
            raise WireError(f"encode: int of {n_bytes} bytes, expected at most {MAX_INT_BYTES}.")
        self._put(b"i", _varint(n_bytes), value.to_bytes(n_bytes, "little", signed=True))

    def _put_str(self, value: str, _: int) -> None:
        try:
            text = value.encode()
        except UnicodeEncodeError as error:
            raise WireError("encode: text holds half of a surrogate pair.") from error
        self._put(b"s", _varint(len(text)), text)

    def _put_sequence(self, tag: bytes, values: Any, depth: int) -> None:
        self._put(tag, _varint(len(values)))
        for value in values:
            self._put_value(value, depth + 1)

    def _put_dict(self, value: dict[Any, Any], depth: int) -> None:
        self._put(b"d", _varint(len(value)))
        for key, item in value.items():
            self.number_keys += type(key) not in (str, bytes)
            if self.number_keys > MAX_NUMBER_KEYS:
                raise WireError(f"encode: more than {MAX_NUMBER_KEYS} keys that are not text.")
            if _parts(key) > MAX_KEY_PARTS:
                raise WireError(f"encode: a key of more than {MAX_KEY_PARTS} parts.")
            self._put_value(key, depth + 1)
            self._put_value(item, depth + 1)

    def _put_numpy(self, value: Any, _: int) -> None:
        numpy = sys.modules.get("numpy")
        name = getattr(getattr(value, "dtype", None), "name", "")
        is_array = numpy is not None and type(value) is numpy.ndarray
        if numpy is None or not (is_array or type(value) is getattr(numpy, name or "-", None)):
            raise NotPlainData(f"encode: a value of type {type(value).__name__} does not travel.")
        self.arrays += 1
        if self.arrays > MAX_ARRAYS:
            raise WireError(f"encode: more than {MAX_ARRAYS} arrays. Send one larger array.")
        if name not in _CODES:
            raise NotPlainData(f"encode: dtype {name} does not travel, expected a number's.")
        code, little = bytes([_CODES[name]]), value.dtype.newbyteorder("<")
        if not is_array:
            return self._put(b"g", code, numpy.asarray(value, little).tobytes())
        if value.ndim > MAX_AXES or value.nbytes > MAX_FRAME_BYTES:
            raise WireError(f"encode: array of shape {value.shape} is too large for a frame.")
        self._put(b"a", code, bytes([value.ndim]), *map(_varint, value.shape))
        return self._put(value.astype(little, copy=False).tobytes())


class _Decoder:
    """Reads one value off the front of `data`; never looks past its end."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.at = 0
        self.items = 0
        self.arrays = 0
        self.number_keys = 0
        self.readers: dict[int, Callable[[int], Any]] = {
            ord("N"): lambda _: None,
            ord("T"): lambda _: True,
            ord("F"): lambda _: False,
            ord("i"): self._put_int,
            ord("f"): lambda _: _FLOAT.unpack(self._take(8))[0],
            ord("c"): lambda _: complex(*_COMPLEX.unpack(self._take(16))),
            ord("s"): lambda _: str(self._take(self._varint()), "utf-8"),
            ord("b"): lambda _: bytes(self._take(self._varint())),
            ord("l"): lambda depth: [self._put_value(depth) for _ in range(self._count(1))],
            ord("t"): lambda depth: tuple(self._put_value(depth) for _ in range(self._count(1))),
            ord("d"): self._put_dict,
            ord("a"): self._array,
            ord("g"): lambda _: self._numbers(self._dtype(), 1)[0],
        }

    def run(self) -> Any:
        value = self._put_value(0)
        if self.at != len(self.data):
            raise WireError("decode: bytes left over after the value.")
        return value

    def _put_value(self, depth: int) -> Any:
        self.items += 1
        if self.items > MAX_ITEMS or depth > MAX_DEPTH:
            raise WireError(f"decode: more than {MAX_ITEMS} values or {MAX_DEPTH} levels.")
        reader = self.readers.get(self._take(1)[0])
        if reader is None:
            raise WireError("decode: unknown tag.")
        return reader(depth + 1)

    def _take(self, n_bytes: int) -> memoryview:
        piece = self.data[self.at : self.at + n_bytes]
        if len(piece) != n_bytes:
            raise WireError("decode: cut short.")
        self.at += n_bytes
        return piece

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 49, 7):  # seven bytes: more than any length in a frame
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise WireError("decode: a length of more than seven bytes.")

    def _count(self, least_bytes: int) -> int:
        """Read how many values follow; each takes at least `least_bytes` bytes."""
        count = self._varint()
        if count * least_bytes > len(self.data) - self.at:
            raise WireError("decode: cut short.")
        return count

    def _put_int(self, _: int) -> int:
        n_bytes = self._varint()
        if n_bytes > MAX_INT_BYTES:
            raise WireError(f"decode: int of {n_bytes} bytes, expected at most {MAX_INT_BYTES}.")
        return int.from_bytes(self._take(n_bytes), "little", signed=True)

    def _put_dict(self, depth: int) -> dict[Any, Any]:
        items: dict[Any, Any] = {}
        for _ in range(count := self._count(2)):
            key = self._put_value(depth)
            self.number_keys += type(key) not in (str, bytes)
            if self.number_keys > MAX_NUMBER_KEYS:
                raise WireError(f"decode: more than {MAX_NUMBER_KEYS} keys that are not text.")
            if _parts(key) > MAX_KEY_PARTS:
                raise WireError(f"decode: a key of more than {MAX_KEY_PARTS} parts.")
            if not _is_key(key):
                raise WireError(f"decode: a dict key of type {type(key).__name__}.")
            items[key] = self._put_value(depth)
        if len(items) != count:
            raise WireError("decode: a dict with one key twice.")
        return items

    def _dtype(self) -> Any:
        self.arrays += 1
        if self.arrays > MAX_ARRAYS:
            raise WireError(f"decode: more than {MAX_ARRAYS} arrays.")
        code = self._take(1)[0]
        if code >= len(DTYPES):
            raise WireError("decode: unknown dtype.")
        import numpy

        return numpy.dtype(DTYPES[code])

    def _numbers(self, dtype: Any, size: int) -> Any:
        """Return the next `size` numbers as a new array of one axis."""
        import numpy

        raw = self._take(size * dtype.itemsize)
        if dtype.name == "bool":  # any other byte than 0 and 1 would be no bool at all
            return numpy.frombuffer(raw, "uint8") != 0
        return numpy.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype)

    def _array(self, _: int) -> Any:
        dtype = self._dtype()
        shape = [self._varint() for _ in range(min(self._take(1)[0], MAX_AXES + 1))]
        size, spread = 1, 1  # `spread`: an empty array must not claim axes that nothing could hold
        for extent in shape:
            size, spread = size * extent, spread * max(extent, 1)
            if len(shape) > MAX_AXES or spread > MAX_FRAME_BYTES:
                raise WireError("decode: an array too large for a frame.")
        return self._numbers(dtype, size).reshape(shape)


def _is_key(key: Any) -> bool:
    if type(key) is tuple:
        return all(map(_is_key, key))
    return key is None or type(key) in (bool, int, float, complex, str, bytes)


def _parts(key: Any) -> int:
    return 1 + sum(map(_parts, key)) if type(key) is tuple else 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
