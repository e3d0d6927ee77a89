r"""A task that is long-range by proof: the class of a node depends on the inputs of all others.

A lattice is a grid that is closed to a torus. The inputs of its nodes are independent,
:math:`x_p \sim N(0, 1)`, and the class of node :math:`q` is the sign of

.. math::  t_q = \sum_{p \ne q} k(d_{pq})\, x_p, \qquad k(d) = d^{-\alpha}
           \ \text{ or }\ k(d) = e^{-\alpha d},

with :math:`d_{pq}` the number of hops between them. Inputs and target are jointly normal, so the
smallest possible error of a model that sees :math:`r` hops is known, see :func:`lattice_error`.
Training, validation and test sets are different lattices with independent inputs: the classes of
the nodes around a node would tell something about distant inputs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.data import Data

from mgnni.data.split import make_generator, random_splits
from mgnni.errors import ArgumentError, check_choice, check_int, check_number

KERNELS = ("power", "exponential")
MOST_NODES = 2**24


def lattice(
    side: int = 16,
    dimensions: int = 2,
    kernel: str = "power",
    decay: float = 1.0,
    noise: float = 0.0,
    seed: int = 0,
    *,
    num_lattices: int = 16,
    num_splits: int = 1,
    train_fraction: float = 0.5,
    val_fraction: float = 0.25,
) -> Data:
    r"""Creates tori whose nodes are classified by a linear function of all other inputs.

    Args:
        side (int, optional): Number of nodes along each dimension, at least 3. A lattice has
            ``side ** dimensions`` nodes. (default: :obj:`16`)
        dimensions (int, optional): 1 for a ring, 2 for a torus, 3. (default: :obj:`2`)
        kernel (str, optional): ``"power"``, :math:`k(d) = d^{-\alpha}`, or ``"exponential"``,
            :math:`k(d) = e^{-\alpha d}`. (default: ``"power"``)
        decay (float, optional): The exponent :math:`\alpha \ge 0`. The smaller, the more depends
            on distant nodes: this is the difficulty. (default: :obj:`1.0`)
        noise (float, optional): Probability that a label is flipped, below one half. It is the
            smallest possible error of a model that sees all inputs. (default: :obj:`0.0`)
        seed (int, optional): Seed of inputs, noise and split, drawn from a separate random
            generator. (default: :obj:`0`)
        num_lattices (int, optional): Number of lattices, which are not connected, at least 3.
            (default: :obj:`16`)
        num_splits (int, optional): Number of random splits of the lattices. (default: :obj:`1`)
        train_fraction (float, optional): Fraction of the lattices in the training set.
            (default: :obj:`0.5`)
        val_fraction (float, optional): Fraction of the lattices in the validation set; the others
            are the test set. (default: :obj:`0.25`)

    Returns:
        A graph with ``x`` of shape ``(num_nodes, 1)``, ``edge_index``, ``y``, ``target``, which is
        :math:`t`, ``train_mask``, ``val_mask`` and ``test_mask``, with one column per split. The
        nodes of a lattice follow one another.
    """
    hops = _hops(side, dimensions, check_int("num_lattices", num_lattices, least=3))
    check_number("noise", noise, "[0, 0.5)", "0.1 flips one label in ten")
    generator = make_generator(seed)
    x = torch.randn(num_lattices, *hops.shape, generator=generator, dtype=torch.float64)
    weight = _kernel(hops, kernel, decay)
    # A sum over all pairs is a convolution on the torus.
    along = tuple(range(1, dimensions + 1))
    spectrum = torch.fft.rfftn(x, dim=along) * torch.fft.rfftn(weight)
    target = torch.fft.irfftn(spectrum, s=hops.shape, dim=along)
    label = (target > 0).long().flatten()
    flipped = torch.rand(label.shape, generator=generator) < noise
    label = torch.where(flipped, 1 - label, label)
    fractions = (train_fraction, val_fraction, 1 - train_fraction - val_fraction)
    splits = random_splits(torch.zeros(num_lattices), num_splits, fractions, seed)
    place = torch.arange(num_lattices).repeat_interleave(hops.numel())
    masks = {
        f"{name}_mask": torch.stack([torch.isin(place, one.part(name)) for one in splits], dim=1)
        for name in ("train", "val", "test")
    }
    edges = _edges(side, dimensions)
    first = hops.numel() * torch.arange(num_lattices)
    return Data(
        x=x.float().view(-1, 1),
        edge_index=(edges.unsqueeze(1) + first.view(1, -1, 1)).flatten(1),
        y=label,
        target=target.flatten(),
        **masks,
    )


def lattice_error(
    radius: int,
    side: int = 16,
    dimensions: int = 2,
    kernel: str = "power",
    decay: float = 1.0,
    noise: float = 0.0,
) -> float:
    r"""Returns the smallest error of any model that sees only the inputs within ``radius`` hops.

    With :math:`\rho^2` the share of these inputs in the variance of the target, it is
    :math:`\epsilon + (1 - 2 \epsilon) \arccos(\rho) / \pi`, where :math:`\epsilon` is ``noise``:
    near and far inputs are independent and normal, so the best guess is the sign of the near part,
    and it differs from the sign of the sum with probability :math:`\arccos(\rho) / \pi`. This
    assumes that the model is independent of the inputs, as after training on other lattices.

    Args:
        radius (int): Number of hops, for example the number of layers of a GNN.
        side (int, optional): See :func:`lattice`. (default: :obj:`16`)
        dimensions (int, optional): See :func:`lattice`. (default: :obj:`2`)
        kernel (str, optional): See :func:`lattice`. (default: ``"power"``)
        decay (float, optional): See :func:`lattice`. (default: :obj:`1.0`)
        noise (float, optional): See :func:`lattice`. (default: :obj:`0.0`)
    """
    hops = _hops(side, dimensions)
    square = _kernel(hops, kernel, decay).square()
    # The share of the other inputs, 1 - rho^2, is exactly zero if there are none.
    far = float(square[hops > check_int("radius", radius, least=0)].sum() / square.sum())
    return noise + (1 - 2 * noise) * math.asin(min(far, 1.0) ** 0.5) / math.pi


def _hops(side: int, dimensions: int, num_lattices: int = 1) -> Tensor:
    """Distance of each node to the first one, in the shape of the grid."""
    check_int("side", side, least=3)
    if check_int("dimensions", dimensions) > 3 or num_lattices * side**dimensions > MOST_NODES:
        raise ArgumentError(
            f"'side' and 'dimensions' must give at most 3 dimensions and {MOST_NODES} nodes (got "
            f"{side} and {dimensions}); use side=250 with 16 lattices for a million"
        )
    place = torch.arange(side)
    along = torch.minimum(place, side - place)
    hops = along
    for _ in range(dimensions - 1):
        hops = hops.unsqueeze(-1) + along
    return hops


def _kernel(hops: Tensor, kernel: str, decay: float) -> Tensor:
    check_choice("kernel", kernel, KERNELS)
    hint = "1 is the default, 0 weighs all nodes equally"
    check_number("decay", decay, "[0, inf)", hint)
    size = hops.double()
    weight = size.clamp(min=1) ** -decay if kernel == "power" else torch.exp(-decay * size)
    weight = torch.where(hops == 0, 0.0, weight)
    if not bool(weight.square().any()):
        raise ArgumentError(
            f"'decay' must leave the neighbours a weight above 0 in float64 (got {decay!r}, for "
            "which it underflows); with 100 only neighbours count"
        )
    return weight


def _edges(side: int, dimensions: int) -> Tensor:
    node = torch.arange(side**dimensions).view([side] * dimensions)
    pairs = []
    for dimension in range(dimensions):
        other = node.roll(-1, dimension)
        pairs += [torch.stack([node.flatten(), other.flatten()])]
    edges = torch.cat(pairs, dim=1)
    return torch.cat([edges, edges.flip(0)], dim=1)
