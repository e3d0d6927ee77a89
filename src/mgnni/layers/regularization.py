"""Dropout and batch norm that give the same results for a single run and for vmapped runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mgnni.distributed.differentiable import sum_over_processes
from mgnni.distributed.mesh import ProcessMesh
from mgnni.distributed.propagation import needs_whole_graph
from mgnni.kernels.dropout import dropped
from mgnni.kernels.nvrtc import why_not

_ODD = -1640531535, 2146121005, -2073254261  # odd 32-bit constants with well-mixed bits


def keep_mask(key: Tensor, place: Tensor, p: float) -> Tensor:
    r"""Return a dropout mask as a deterministic function of a key.

    This is a counter-based random number generator: the mask of an entry depends on nothing but
    the key and the place of the entry, so it is the same in any order, on any device, and for one
    run or many.

    Args:
        key (torch.Tensor): A 64-bit integer.
        place (torch.Tensor): Index of each entry, as 32-bit integers.
        p (float): Probability of an entry to be dropped.

    Shapes:
        - **key:** :math:`()`
        - **place:** :math:`(*)`
        - **output:** mask :math:`(*)`, true where an entry is kept
    """
    low, high = key.to(torch.int32), (key >> 32).to(torch.int32)
    bits = place * _ODD[0] + low
    # Right shifts of signed integers copy the sign bit; the bitwise_and clears the copies.
    bits = bits.bitwise_xor_((bits >> 16).bitwise_and_(0xFFFF)).mul_(_ODD[1]).add_(high)
    bits = bits.bitwise_xor_((bits >> 15).bitwise_and_(0x1FFFF)).mul_(_ODD[2])
    bits = bits.bitwise_xor_((bits >> 16).bitwise_and_(0xFFFF)).mul_(_ODD[1])
    return bits >= round(p * 2**32) - 2**31


class _Drop(torch.autograd.Function):
    """Keyed dropout as one CUDA kernel, which recomputes the mask in the backward pass."""

    @staticmethod
    def forward(x: Tensor, key: Tensor, place: Tensor | None, p: float) -> Tensor:
        runs = x if key.dim() else x.unsqueeze(0)
        return dropped(runs, key.view(-1), place, p).view(x.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, key, place, ctx.p = inputs
        ctx.save_for_backward(key, place)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        key, place = ctx.saved_tensors
        grad: Tensor = _Drop.apply(grads[0], key, place, ctx.p)  # type: ignore[no-untyped-call]
        return grad, None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], x: Tensor, key: Tensor, place: Tensor | None, p: float
    ) -> tuple[Tensor, int]:
        """Map over runs, which have different keys and the same places."""
        size = info.batch_size
        x = x.expand(size, *x.shape) if in_dims[0] is None else x.movedim(in_dims[0], 0)
        key = key.expand(size) if in_dims[1] is None else key
        fused: Tensor = _Drop.apply(x, key, place, p)  # type: ignore[no-untyped-call]
        return fused, 0


# In a compiled graph, torch draws other numbers than in eager mode, one at a time on a CPU. These
# are zero or one; the graph scales them in the product with the input.
torch.library.define(
    "mgnni::dropout_noise",
    "(Tensor x, float p) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.nondeterministic_seeded),
)


@torch.library.impl("mgnni::dropout_noise", "default")
def _dropout_noise(x: Tensor, p: float) -> Tensor:
    noise = torch.empty_like(x, requires_grad=False)
    return noise.bernoulli_(1 - p) if p < 1 else noise.zero_()


@torch.library.register_fake("mgnni::dropout_noise")  # type: ignore[untyped-decorator]
def _(x: Tensor, p: float) -> Tensor:
    return torch.empty_like(x)


class Dropout(nn.Module):
    r""":class:`torch.nn.Dropout` with an optional key that determines the mask.

    Args:
        p (float, optional): Probability of an entry to be dropped. (default: :obj:`0.5`)
        level (str, optional): What a row of the input is: :obj:`"node"`, :obj:`"graph"` after
            pooling, or :obj:`"edge"`. (default: :obj:`"node"`)

    Attributes:
        keyed (bool): Whether the mask is computed from ``key`` instead of torch's random number
            generator.
        key (torch.Tensor): A 64-bit integer; a buffer that is not part of ``state_dict``.
        rows (torch.Tensor or None): If this process has only some rows of the input: their
            numbers in the whole input, set by :func:`number_rows`.

    Shapes:
        - **input:** :math:`(*)`
        - **output:** :math:`(*)`
    """

    key: Tensor

    def __init__(self, p: float = 0.5, level: str = "node") -> None:
        super().__init__()
        self.p, self.level = p, level
        self.keyed = False
        self.rows: Tensor | None = None
        self.register_buffer("key", torch.zeros((), dtype=torch.long), persistent=False)

    def forward(self, x: Tensor, place: Tensor | None = None) -> Tensor:
        """Randomly set entries to zero and scale up the others, in training mode only.

        Args:
            x (torch.Tensor): The input.
            place (torch.Tensor, optional): Index of each entry, as 32-bit integers, if ``x`` holds
                only some entries of a larger tensor. (default: :obj:`None`)
        """
        if not self.training or self.p == 0:
            return x
        if not self.keyed:
            if torch.compiler.is_compiling() and x.device.type == "cpu":
                noise: Tensor = torch.ops.mgnni.dropout_noise(x.detach(), self.p)
                return x * (noise * (1 / (1 - self.p)) if self.p < 1 else noise)
            return nn.functional.dropout(x, self.p)
        if place is None and self.rows is not None:
            column = torch.arange(x.size(1), device=x.device)
            place = (self.rows.unsqueeze(1) * x.size(1) + column).to(torch.int32)
        if x.device.type == "cuda" and x.dtype is torch.float32 and why_not() is None:
            fused: Tensor = _Drop.apply(x, self.key, place, self.p)  # type: ignore[no-untyped-call]
            return fused
        if place is None:
            count = torch.arange(x.numel(), dtype=torch.int32, device=x.device)
            place = count.view(x.shape)
        return x * keep_mask(self.key, place, self.p) / (1 - self.p)

    def extra_repr(self) -> str:
        """Return the dropout probability, and whether masks are computed from a key."""
        return f"p={self.p}" + (", keyed" if self.keyed else "")


def number_rows(model: nn.Module, *, nodes: Tensor, graphs: Tensor | None = None) -> None:
    r"""Tell all dropout layers which rows of the input this process has.

    Args:
        model (torch.nn.Module): The model.
        nodes (torch.Tensor): Numbers of the nodes.
        graphs (torch.Tensor, optional): Numbers of the graphs if nodes are pooled.
            (default: :obj:`None`)

    Shapes:
        - **nodes:** :math:`(|\mathcal{V}|)`
        - **graphs:** :math:`(|\mathcal{G}|)`
    """
    rows = {"node": nodes, "graph": graphs, "edge": None}
    for part in model.modules():
        if isinstance(part, Dropout):
            part.rows = rows[part.level]


class BatchNorm(nn.BatchNorm1d):
    r""":class:`torch.nn.BatchNorm1d` over nodes, without fused kernels.

    The fused batch norm of vmapped runs sums in another order than that of a single run. The sums
    of this module are bitwise the same for both.

    Attributes:
        mesh (ProcessMesh, optional): Processes that have other rows of the input; the statistics
            are those of all rows.
        absent (bool): Whether this process has no rows, and the input stands in for them; it does
            not count.

    Shapes:
        - **input:** :math:`(|\mathcal{V}|, F)`
        - **output:** :math:`(|\mathcal{V}|, F)`
    """

    mesh: ProcessMesh | None = None
    absent: bool = False

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each channel by batch statistics in training, else by running statistics."""
        running_mean, running_var, rate = self.running_mean, self.running_var, self.momentum
        if not self.training or running_mean is None or running_var is None or rate is None:
            # Nothing is communicated: processes may evaluate different numbers of batches.
            return super().forward(x)
        count = x.size(0)
        if self.mesh is not None:
            own = torch.tensor(0 if self.absent else count, device=x.device)
            count = int(self.mesh.sum(own))
        if count < 2:
            return super().forward(x)
        mean = self._mean(x, count)
        centred = x - mean
        var = self._mean(centred * centred, count)
        with torch.no_grad():
            running_mean.mul_(1 - rate).add_(mean.detach().to(running_mean.dtype), alpha=rate)
            unbiased = var.detach().to(running_var.dtype) * (count / (count - 1))
            running_var.mul_(1 - rate).add_(unbiased, alpha=rate)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
        return centred * torch.rsqrt(var + self.eps) * self.weight + self.bias

    def _mean(self, x: Tensor, count: int) -> Tensor:
        """Return the mean over the rows of all processes."""
        if self.mesh is None:
            return x.mean(0)
        own = x.sum(0)
        return sum_over_processes(own * 0 if self.absent else own, self.mesh) / count


def share_batch_statistics(model: nn.Module, mesh: ProcessMesh) -> None:
    """Let the batch normalisation of a model use the rows of all processes.

    Args:
        model (torch.nn.Module): The model.
        mesh (ProcessMesh): The processes, each of which has some rows.
    """
    for part in model.modules():
        if isinstance(part, BatchNorm):
            part.mesh = mesh
        elif isinstance(part, _BatchNorm) and part.training:
            raise needs_whole_graph("with torch.nn.BatchNorm1d, as in the head 'residual'")
