"""Damaged .npz, .pt and .csv files: whatever is wrong, only a one-line error comes out."""

from __future__ import annotations

import io
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mgnni.data.tables.read import read_graphs
from mgnni.errors import ArgumentError, DataError

ARRAYS = {
    "x": np.arange(12, dtype=np.float32).reshape(4, 3),
    "y": np.array([0, 1, 1, 0]),
    "edge_index": np.array([[0, 1, 2], [1, 2, 3]]),
    "edge_weight": np.array([1.0, 2.0, 0.5]),
    "train_mask": np.array([True, True, False, False]),
    "val_mask": np.array([False, False, True, False]),
    "test_mask": np.array([False, False, False, True]),
}
DTYPES = ("f2", "f4", "f8", "i1", "i4", "u1", "u8", "c8", "?", "U3", "S3", "M8[s]", "O")


def mutated(array: np.ndarray, rng: random.Random) -> Any:
    """The array with another length, dtype, rank or value."""
    kind = rng.choice(["shorter", "longer", "empty", "dtype", "rank", "scalar", "value", "turned"])
    if kind == "shorter":
        return array[..., :-1] if rng.random() < 0.5 else array[:-1]
    if kind == "longer":
        return np.concatenate([array, array[:1]])
    if kind == "empty":
        return array[:0] if rng.random() < 0.5 else array[..., :0]
    if kind == "dtype":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # complex numbers lose their imaginary part
            return array.astype(rng.choice(DTYPES))
    if kind == "rank":
        return array[..., None] if rng.random() < 0.5 else array[None]
    if kind == "scalar":
        return array.reshape(-1)[0] if array.size else array
    if kind == "turned":
        return array.T.copy() if array.ndim > 1 else np.stack([array, array], axis=1)
    array = array.copy()
    if array.size and array.dtype.kind in "fi":
        values = [-1, 0, 99, *([np.nan, np.inf, 1e300] if array.dtype.kind == "f" else [])]
        with np.errstate(over="ignore"):
            array.reshape(-1)[rng.randrange(array.size)] = rng.choice(values)
    return array


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The bytes of a file cut short, or with some of them changed."""
    if rng.random() < 0.5:
        return content[: rng.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def npz_case(rng: random.Random) -> bytes:
    arrays: dict[str, Any] = dict(ARRAYS)
    for _ in range(rng.randint(1, 2)):
        key = rng.choice(sorted(arrays))
        if rng.random() < 0.15:
            del arrays[key]
        elif isinstance(arrays[key], np.ndarray):
            arrays[key] = mutated(arrays[key], rng)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return damaged(file.getvalue(), rng) if rng.random() < 0.2 else file.getvalue()


def pt_case(rng: random.Random) -> bytes:
    graphs: list[Any] = [
        {key: torch.from_numpy(array.copy()) for key, array in ARRAYS.items()} for _ in range(2)
    ]
    graph = rng.choice(graphs)
    if rng.random() < 0.5:  # labels of graphs, not of nodes
        for other in graphs:
            other["y"] = other["y"][:1]
    key = rng.choice(sorted(graph))
    kind = rng.choice(["array", "array", "array", "missing", "object", "dtype", "num_nodes"])
    if kind == "missing":
        del graph[key]
    elif kind == "object":
        graph[key] = rng.choice(["text", 3, None, [1, 2], {"a": 1}])
    elif kind == "dtype":
        dtypes = [torch.bfloat16, torch.complex64, torch.float16, torch.bool, torch.float8_e5m2]
        graph[key] = graph[key].to(rng.choice(dtypes))
    elif kind == "num_nodes":
        graph["num_nodes"] = rng.choice([-1, 0, 2, 9, 2.5, "four"])
    else:
        value = mutated(graph[key].numpy(), rng)
        if getattr(value, "dtype", np.dtype("O")).kind in "fiub":
            graph[key] = torch.as_tensor(np.ascontiguousarray(value).astype(value.dtype))
    whole = rng.choice([graphs, graphs, graph, [*graphs, rng.choice([3, None, "graph", []])]])
    file = io.BytesIO()
    torch.save(whole, file)
    return damaged(file.getvalue(), rng) if rng.random() < 0.2 else file.getvalue()


def message_of(path: Path, seed: int) -> str | None:
    """The error of a file, None if it can be read; any other exception fails the test."""
    try:
        read_graphs(path)
    except (DataError, ArgumentError) as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    return None


@pytest.mark.parametrize(("suffix", "case"), [("npz", npz_case), ("pt", pt_case)])
def test_a_damaged_file_gives_one_line_or_a_graph(suffix: str, case: Any, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    messages = []
    for seed in range(300):
        path.write_bytes(case(random.Random(seed)))
        messages.append(message_of(path, seed))
    refused = [message for message in messages if message is not None]
    assert 100 < len(refused) < 300, "some mutations are harmless, most are not"
    assert all(message.startswith(str(path)) and "\n" not in message for message in refused)


NODES = 'id,size,colour,label\na,1,"red",x\nb,2,"b,c",y\nc,,red,x\nd,4,blue,y\n'


def test_a_damaged_table_gives_one_line_or_a_graph(write: Any) -> None:
    folder = write(NODES)
    messages = []
    for seed in range(300):
        (folder / "nodes.csv").write_bytes(damaged(NODES.encode(), random.Random(seed)))
        messages.append(message_of(folder, seed))
    refused = [message for message in messages if message is not None]
    assert 100 < len(refused) < 300
    assert all(message.startswith(str(folder)) and "\n" not in message for message in refused)
