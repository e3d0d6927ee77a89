"""Every entry of a matrix is in one part of its own row, and every row in one block."""

import pytest
import torch

from kernels.reference import matrix
from mgnni.kernels.rows import COARSE, ENTRIES, FINE, share_out

LENGTHS = {
    "none": [],
    "one row": [5],
    "one empty row": [0],
    "empty rows": [0, 0, 3, 0, 70, 0],
    "a hub first": [9000, *[2] * 50],
    "a hub last": [*[2] * 50, 9000],
    "hubs only": [4000, 4000, 4000],
    "many": [(7 * i) % 23 for i in range(3000)],
    "just under and over a part": [FINE, FINE + 1, COARSE, COARSE + 1, 2 * COARSE],
}


@pytest.mark.parametrize("processors", [1, 3, 132])
@pytest.mark.parametrize("name", LENGTHS)
def test_every_entry_is_covered_once(name, processors, device):
    lengths = torch.tensor(LENGTHS[name], dtype=torch.int32)
    total, n = int(lengths.sum()), len(lengths)
    rows = share_out(lengths, processors, device)
    assert rows.row_of.device.type == device.type
    assert {one.dtype for one in (rows.row_of, rows.entry_of, rows.part, rows.first)} == {
        torch.int32
    }
    crow = torch.cat([torch.zeros(1), lengths.cumsum(0)]).long()
    row_of, entry_of = rows.row_of.cpu().long(), rows.entry_of.cpu().long()
    assert 1 <= rows.blocks <= min(processors, max(1, -(-total // ENTRIES)))
    assert (row_of[0], row_of[-1]) == (0, n)
    assert (row_of.diff() >= 0).all()
    assert torch.equal(entry_of, crow[row_of])
    assert rows.entries == int(entry_of.diff().max())
    assert rows.rows == int(row_of.diff().max())
    for way, longest in enumerate((FINE, COARSE)):
        first = rows.first[way].cpu().long()
        starts = rows.part[way, : int(first[-1]) + 1].cpu().long()
        # The parts of a row begin where the row begins and are contiguous.
        assert (starts[0], starts[-1]) == (0, total)
        assert torch.equal(starts[first], crow)
        assert torch.equal(first.diff(), -(-lengths.long() // longest))
        if total:
            assert 1 <= int(starts.diff().min()) <= int(starts.diff().max()) <= longest
        assert rows.parts[way] == int(first[row_of].diff().max())


def test_some_blocks_have_no_rows(device):
    rows = share_out(torch.tensor(LENGTHS["a hub first"]), 132, device)
    sizes = rows.row_of.diff()
    assert rows.blocks > 2
    assert int(sizes.min()) == 0  # otherwise the test above did not cover it
    assert int(sizes.max()) < 51  # the block of the hub has few other rows


def test_blocks_have_about_equal_work(device):
    lengths = torch.tensor(LENGTHS["many"])
    rows = share_out(lengths, 16, device)
    entries = rows.entry_of.diff().double()
    assert rows.blocks == 16
    assert float(entries.max() / entries.mean()) < 1.1


def test_short_and_long_parts_are_the_same_matrix():
    lengths = torch.tensor([0, 3, 90, 17, 0, 1] + [0] * 94)
    col = torch.cat([torch.randperm(100)[:n] for n in lengths])
    value = torch.rand(len(col))
    wanted = torch.zeros(100, 100, dtype=torch.float64)
    for e, (i, j) in enumerate(zip(torch.arange(100).repeat_interleave(lengths), col, strict=True)):
        wanted[i, j] = value[e].double()
    rows = share_out(lengths, 4, torch.device("cpu"))
    for way in (0, 1):
        assert torch.equal(matrix(rows, col, value, way), wanted)
