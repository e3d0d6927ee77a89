"""One graph over several processes has the solutions, gradients and trainings of one process."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from distributed.equations import CASES, MESHES, SOLVERS, graph, parts
from distributed.several import run_script

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")
NAMES = [f"{rows}x{columns}" for rows, columns in MESHES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What all processes of all meshes found."""
    path = tmp_path_factory.mktemp("sharded")
    run_script("equations.py", path)
    return path


def found_by(folder: Path, name: str) -> dict[str, Any]:
    return torch.load(folder / f"{name}.pt", weights_only=False)


def ranks_of(folder: Path, mesh: str) -> list[dict[str, Any]]:
    return [found_by(folder, one.stem) for one in sorted(folder.glob(f"{mesh}-*.pt"))]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mesh", NAMES)
def test_a_sharded_training_is_that_of_one_process(folder, mesh, case):
    alone, several = found_by(folder, "alone")[case], ranks_of(folder, mesh)
    bound = {"rtol": 0, "atol": 1e-5 if case.endswith("32") else 1e-10}
    for rank in several:
        for name in ("logits", "gradients", "parameters", "loss"):
            torch.testing.assert_close(rank[case][name], alone[name], **bound)
        # Certificates are those of the whole graph; rounding decides the smallest of them.
        torch.testing.assert_close(rank[case]["bounds"], alone["bounds"], rtol=0.5, atol=1e-12)
    first = several[0][case]["parameters"]
    for rank in several[1:]:
        assert all(map(torch.equal, first, rank[case]["parameters"]))


@pytest.mark.parametrize("mesh", ["1x1", "2x2"])
def test_every_sharded_solver_takes_the_steps_of_one_process(folder, mesh):
    alone = found_by(folder, "alone")["solves"]
    for rank in ranks_of(folder, mesh):
        for solver in SOLVERS:
            value, bound, iterations = rank["solves"][solver]
            torch.testing.assert_close(value, alone[solver][0], rtol=0, atol=1e-12)
            assert (value - alone["chebyshev"][0]).norm() <= 2 * (bound + alone["chebyshev"][1])
            assert iterations == alone[solver][2]


@pytest.mark.parametrize("mesh", NAMES)
def test_inside_a_sweep_only_the_cut_is_exchanged_once_per_product(folder, mesh):
    rows, columns = map(int, mesh.split("x"))
    p, part = graph("sym", torch.float64).to_dense(), parts("uneven", rows)
    reads = torch.stack([(p[part == one] != 0).any(0) for one in range(rows)])
    own = torch.stack([part == one for one in range(rows)])
    cut = int((reads & ~own).sum())  # nodes that each part reads of the others
    ranks = [rank["solves"] for rank in ranks_of(folder, mesh)]
    for gamma in (0.5, 0.95):
        names = {name for rank in ranks for name, _, inside in rank[f"calls-{gamma}"][0] if inside}
        assert names <= ({"all_to_all_single"} if rows > 1 else set())
        if rows == 1:
            continue
        for column in range(columns):
            group = ranks[column * rows : (column + 1) * rows]
            sizes = [[s for _, s, inside in rank[f"calls-{gamma}"][0] if inside] for rank in group]
            products = {len(one) for one in sizes}
            assert len(products) == 1
            assert products.pop() <= group[0][f"calls-{gamma}"][1]
            # Every product exchanges the cut, times the columns that still need this term.
            widths = [sum(one) / cut for one in zip(*sizes, strict=True)]
            assert widths[0] == group[0]["columns"]
            assert all(width == int(width) for width in widths)
            assert sorted(widths, reverse=True) == widths


@pytest.mark.parametrize("mesh", NAMES)
def test_communication_outside_of_sweeps_does_not_depend_on_their_length(folder, mesh):
    for rank in ranks_of(folder, mesh):
        short, long = (rank["solves"][f"calls-{gamma}"] for gamma in (0.5, 0.95))
        assert long[1] > 2 * short[1]
        assert [c[:2] for c in short[0] if not c[2]] == [c[:2] for c in long[0] if not c[2]]
