"""Saving and loading: what comes back, what other programs read, and files that are damaged."""

import io
import os
import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from minitorch import serialize
from minitorch.errors import MinitorchError
from minitorch.serialize import DamagedFile, load, save
from minitorch.tensor import Tensor, tensor

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()
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
        "plain": [1, 2.5, True, None, "text", float("inf"), 0.1, (1, 2), {}],
        "state": {0: {"step": 3, "m": tensor([1.0])}, 1: {}},
    }


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    save(everything(), tmp_path / "all")
    assert same(load(tmp_path / "all"), everything())


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


def test_torchs_own_files_are_recognised_as_pickles(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "model.pt")
    with pytest.raises(DamagedFile, match="pickle"):
        load(tmp_path / "model.pt")


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
    assert safetensors.numpy is not None
