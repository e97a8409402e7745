"""Saving and loading: what comes back, what other programs read, and files that are damaged."""

import io
import json
import os
import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import minitorch
from minitorch import serialize
from minitorch.arrays.torch_files import NotRead
from minitorch.errors import MinitorchError
from minitorch.serialize import DamagedFile, load, save
from minitorch.tensor.tensor import Tensor, tensor

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return type(a) is type(b) and a.dtype == b.dtype and same(a.numpy(), b.numpy())
    if isinstance(a, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def everything() -> dict[str, Any]:
    return {
        **{name: tensor(np.arange(6).reshape(2, 3).astype(name)) for name in DTYPES},
        "scalar": tensor(3.0),
        "empty": tensor(np.zeros((0, 4), np.float32)),
        "transposed": tensor(np.arange(6.0).reshape(2, 3).T),
        "arrays": [np.arange(2, dtype=name) for name in (*DTYPES, "uint16", "uint32", "uint64")],
        "scalar array": np.array(3.0),
        "plain": [1, 2.5, True, None, "text", float("inf"), 0.1, (1, 2), {}],
        "state": {0: {"step": 3, "m": tensor([1.0])}, 1: {}},
    }


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    save(everything(), tmp_path / "all")
    assert same(load(tmp_path / "all"), everything())


def through_a_stream(obj: Any) -> Any:
    stream = io.BytesIO()
    save(obj, stream)
    stream.seek(0)
    return load(stream)


@pytest.mark.parametrize("note_only", [True, False])
def test_a_header_of_any_length_is_read_again(note_only: bool) -> None:
    lengths = set()
    for n in range(2048):
        obj = "n" * n if note_only else {"w" * n: tensor([1.0, 2.0]), "b": tensor([0.0])}
        stream = io.BytesIO()
        save(obj, stream)
        lengths.add(int.from_bytes(stream.getvalue()[:8], "little"))
        stream.seek(0)
        assert same(load(stream), obj)
    assert {length % 256 for length in lengths} == set(range(0, 256, 8))


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(), max_size=5)  # lone surrogates too
    | st.sampled_from([lambda: tensor([1.0]), lambda: np.arange(3), lambda: np.array(2.0)]).map(
        lambda make: make()
    )
)
KEYS = st.integers() | st.sampled_from(
    ["__metadata__", "a.b", "a", "", "1", "a#2", "\ud800", "tensor"]
)
NESTED = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(NESTED)
def test_whatever_can_be_saved_comes_back(obj: Any) -> None:
    assert same(through_a_stream(obj), obj)


def test_an_array_comes_back_writable_in_this_machines_order_and_on_its_own() -> None:
    big = np.arange(3, dtype=">f4")
    back = through_a_stream([big, np.broadcast_to(np.zeros(1), (3,))])
    assert same(back[0], np.arange(3, dtype=np.float32))
    back[0][0] = back[1][0] = 7
    assert back[1].tolist() == [7, 0, 0]


def test_what_is_nested_without_end_is_refused() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert same(through_a_stream(deep), deep)
    endless: list[Any] = []
    endless.append(endless)
    for wrong in ([deep], endless):
        with pytest.raises(ValueError, match="nested deeper than 100"):
            save(wrong, io.BytesIO())


def test_torchs_way_to_ask_for_weights_only_will_do(tmp_path: Path) -> None:
    save({"w": tensor([1.0])}, tmp_path / "x")
    assert load(tmp_path / "x", "cpu", weights_only=True)["w"].device == "cpu"
    assert load(tmp_path / "x", map_location=None)["w"].tolist() == [1.0]


def test_what_requires_a_gradient_does_so_when_it_comes_back() -> None:
    leaf = tensor([1.0], requires_grad=True)
    saved = {"leaf": leaf, "result": leaf * 2, "other": tensor([1.0])}
    wants = {name: value.requires_grad for name, value in through_a_stream(saved).items()}
    stream, leaf = io.BytesIO(), torch.ones(1, requires_grad=True)
    torch.save({"leaf": leaf, "result": leaf * 2, "other": torch.ones(1)}, stream)
    stream.seek(0)
    assert wants == {name: value.requires_grad for name, value in torch.load(stream).items()}


def test_a_single_tensor_and_a_stream_will_do() -> None:
    stream = io.BytesIO()
    save(tensor([1.0, 2.0]), stream)
    stream.seek(0)
    assert load(stream).tolist() == [1.0, 2.0]


def test_names_that_would_meet_stay_apart(tmp_path: Path) -> None:
    save({"a.b": tensor([1.0]), "a": {"b": tensor([2.0])}}, tmp_path / "x")
    back = load(tmp_path / "x")
    assert (back["a.b"].item(), back["a"]["b"].item()) == (1.0, 2.0)


def test_other_programs_read_a_state_dict_and_we_read_theirs(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save({"layer.weight": tensor([[1.0, 2.0]])}, tmp_path / "ours")
    assert load_file(tmp_path / "ours")["layer.weight"].tolist() == [[1.0, 2.0]]
    save_file({"w": torch.ones(2)}, tmp_path / "theirs")
    assert load(tmp_path / "theirs")["w"].tolist() == [1.0, 1.0]


def test_a_crash_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(tensor([1.0]), path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))  # as good as a full disk
    try:
        with pytest.raises(OSError, match="too large"):
            save(tensor(np.zeros(10_000, np.float32)), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert load(path).tolist() == [1.0]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_every_cut_and_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save({"w": tensor(np.arange(4, dtype=np.float32)), "n": 3}, path)
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for cut in (0, 1, 7, 8, 20, header, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(DamagedFile, match="damaged"):
            load(path)
    for at in range(header, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(DamagedFile, match="'w'"):
            load(path)


def crafted(header: str | bytes, data: bytes = b"") -> bytes:
    text = header.encode() if isinstance(header, str) else header
    return len(text).to_bytes(8, "little") + text + data


def ours(structure: str, crc32: str = "{}") -> bytes:
    text = f'{{"structure": {structure}, "crc32": {crc32}}}'
    return crafted(json.dumps({"__metadata__": {"minitorch": text}}))


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> bytes:
    described = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    return crafted(json.dumps({"w": described}), bytes(8))


HOSTILE = {
    "a header that is no dict": crafted(json.dumps({"__metadata__": {"minitorch": "[1]"}})),
    "checksums that are no dict": ours("1", "[1]"),
    "a checksum of nothing": ours("1", '{"w": 3}'),
    "deep structure": ours("[" * 10**5 + "]" * 10**5),
    "deep header": crafted('{"a":' + "[" * 10**5 + "]" * 10**5 + "}"),
    "too large a number": ours('{"float": "0x1p99999"}'),
    "a list as a key": ours('{"dict": [[[1], 2]]}'),
    "an unknown kind": ours('{"object": []}'),
    "a missing array": ours('{"array": "w"}'),
    "an unknown dtype": entry(dtype="O"),
    "a dtype that is no text": entry(dtype=[1]),
    "too large a shape": entry(shape=[2**62, 2]),
    "a negative shape": entry(shape=[-1, -2]),
    "a shape of fractions": entry(shape=[2.0]),
    "bytes beyond the end": entry(shape=[4], offsets=[0, 16]),
    "bytes before the start": entry(offsets=[-8, 0]),
    "bytes that nobody owns": entry(shape=[1], offsets=[0, 4]),
    "no bytes": entry(offsets=None),
    "text that is no UTF-8": crafted(b'{"\xff": 1}'),
    "a header longer than the file": (2**63).to_bytes(8, "little") + b"{}",
    "a cut header whose length begins as a pickle": b"\x80\x02" + bytes(6) + b'{"a":',
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_with_a_message(kind: str) -> None:
    with pytest.raises(DamagedFile, match="damaged or not ours") as caught:
        load(io.BytesIO(HOSTILE[kind]))
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize("content", [pickle.dumps([1]), b"PK\x03\x04rest", b"hello", b"\xff" * 99])
def test_a_file_of_another_kind_is_refused_without_running_it(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(DamagedFile) as caught:
        load(path)
    assert isinstance(caught.value, ValueError | MinitorchError)
    assert caught.value.path == str(path)


def saved_by_torch(value: object) -> io.BytesIO:
    stream = io.BytesIO()
    torch.save(value, stream)
    stream.seek(0)
    return stream


def test_tensors_are_read_out_of_torchs_own_files() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    many = [x.t(), x[1:, ::2], x[2, 3], x.half(), x > 3, x.to(torch.int8), torch.zeros(0, 3)]
    many += [x.expand(2, 3, 4), torch.nn.Parameter(x)]
    for ours, theirs in zip(load(saved_by_torch(many)), many, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.detach().numpy(), strict=True)
    half = load(saved_by_torch(x.bfloat16()))
    assert half.dtype is minitorch.bfloat16 and half.float().tolist() == x.tolist()


def test_a_model_trained_with_torch_goes_on_in_minitorch() -> None:
    torch.manual_seed(0)
    x, outputs = np.random.default_rng(0).normal(size=(5, 3)).astype("float32"), []
    saved = None
    for lib in (torch, minitorch):
        model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU(), lib.nn.Linear(4, 1))
        optimizer = lib.optim.Adam(model.parameters(), lr=0.1)
        if saved is None:
            model(lib.tensor(x)).sum().backward()
            optimizer.step()
            saved = saved_by_torch({"model": model.state_dict(), "adam": optimizer.state_dict()})
        else:
            states = load(saved)
            model.load_state_dict(states["model"])
            optimizer.load_state_dict(states["adam"])
        optimizer.zero_grad()
        model(lib.tensor(x)).pow(2).sum().backward()
        optimizer.step()
        outputs.append(model(lib.tensor(x)).detach().numpy())
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-5, atol=1e-6)


class Runs:
    """A pickle that calls something when it is opened."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("/nowhere/at/all",)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Runs(), "posix.mkdir"),
        (torch.nn.Linear(1, 1), "Linear"),
        (torch.zeros(1, dtype=torch.complex64), "Complex"),
    ],
)
def test_what_is_more_than_tensors_in_torchs_files_is_refused_by_name(
    value: object, named: str
) -> None:
    with pytest.raises(NotRead, match=named):
        load(saved_by_torch(value))


def test_a_damaged_file_of_torchs_says_so() -> None:
    whole = saved_by_torch({"w": torch.ones(100)}).getvalue()
    for broken in (whole[:-200], whole.replace(b"FloatStorage", b"LongStoragee")):
        with pytest.raises((DamagedFile, NotRead)):
            load(io.BytesIO(broken))


def test_pickles_are_recognised() -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(DamagedFile, match="pickle"):
            load(io.BytesIO(pickle.dumps({"w": [1.0] * 50}, protocol)))


def test_what_is_not_data_is_refused_with_its_place(tmp_path: Path) -> None:
    for wrong in (object(), {1, 2}, print, np.array(["a"]), 1j):
        with pytest.raises(TypeError, match=r"model\.layers\.1"):
            save({"model": {"layers": [tensor([1.0]), wrong]}}, tmp_path / "x")
    with pytest.raises(TypeError, match="key"):
        save({(1, 2): tensor([1.0])}, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_missing_file_or_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="absent"):
        save(tensor([1.0]), tmp_path / "absent" / "model")


def test_a_link_stays_a_link_and_permissions_follow_the_umask(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    before = os.umask(0o027)
    try:
        save(tensor([1.0]), tmp_path / "link")
    finally:
        os.umask(before)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640


def test_nothing_here_unpickles() -> None:
    source = Path(serialize.__file__).read_text()
    assert "import pickle" not in source
