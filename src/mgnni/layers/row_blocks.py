"""Modules that treat every row alone, applied to blocks of rows and recomputed for gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call

from mgnni.layers.regularization import Dropout

ROWS = 2**18  # rows of a block


def fits_row_blocks(module: nn.Module, x: Tensor, device: torch.device) -> bool:
    r"""Return whether a module can and should be applied to blocks of rows.

    Not if a layer combines rows, as batch normalization does, nor under :func:`torch.vmap`.

    Args:
        module (nn.Module): The module.
        x (Tensor): Features with as many rows, whose device may be the host.
        device (torch.device): Where to compute.

    Shapes:
        - **x:** ``(rows, channels)``
    """
    combines = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)
    return (
        x.layout is torch.strided
        and (x.size(0) > ROWS or x.device != device)
        and not any(
            torch._C._functorch.is_functorch_wrapped_tensor(one) for one in module.parameters()
        )
        and not any(isinstance(part, combines) for part in module.modules())
    )


def in_row_blocks(
    module: nn.Module, x: Tensor, device: torch.device, rows: int | None = None
) -> Tensor:
    """Apply a module to blocks of rows, and compute it again in the backward pass.

    Only input and output are kept for the backward pass, no activations. The input may be on
    another device, for example features on the host: one block at a time is transferred.
    Gradients can be computed once, not twice.

    Args:
        module (nn.Module): Treats every row alone, see :func:`fits_row_blocks`. Its parameters
            are on ``device``.
        x (Tensor): Input of the module; rows are its last but one dimension.
        device (torch.device): Where to compute.
        rows (int, optional): Rows of a block. (default: :data:`ROWS`)

    Shapes:
        - **x:** ``(*, rows, channels)``
        - **output:** as that of the module, ``(rows, channels)``, on ``device``
    """
    parameters = dict(module.named_parameters())
    state = _Pass(module, tuple(parameters), device, rows or ROWS)
    out: Tensor = _RowBlocks.apply(state, x, *parameters.values())  # type: ignore[no-untyped-call]
    return out


class _Pass:
    """A module with the buffers and random numbers of one forward pass."""

    def __init__(
        self, module: nn.Module, names: tuple[str, ...], device: torch.device, rows: int
    ) -> None:
        self.module, self.names, self.device, self.rows = module, names, device, rows
        self.buffers = dict(module.named_buffers())
        self.training = module.training
        parts = module.named_modules()
        keyed = [name for name, one in parts if isinstance(one, Dropout) and one.keyed]
        self.keys = [f"{name}.key" if name else "key" for name in keyed]
        self.random = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def blocks(self, x: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield the first row and the input of every block, on the device; at least one block."""
        for start in range(0, max(x.size(-2), 1), self.rows):
            size = min(self.rows, x.size(-2) - start)
            yield start, x.narrow(-2, start, size).to(self.device)

    def __call__(self, start: int, x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Return the output for a block."""
        # Masks of keyed dropout depend on the place within a block, so blocks have other keys.
        buffers = {**self.buffers, **{name: self.buffers[name] + start for name in self.keys}}
        state = (dict(zip(self.names, parameters, strict=True)), buffers)
        out: Tensor = functional_call(self.module, state, (x,))
        return out

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Context manager with the mode and the random numbers of the forward pass."""
        now = self.module.training
        with torch.random.fork_rng([self.device] if self.cuda is not None else []):
            torch.set_rng_state(self.random)
            if self.cuda is not None:
                torch.cuda.set_rng_state(self.cuda, self.device)
            self.module.train(self.training)
            try:
                yield
            finally:
                self.module.train(now)


class _RowBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, state: _Pass, x: Tensor, *parameters: Tensor) -> Tensor:
        out = torch.empty(0)
        for start, block in state.blocks(x):
            found = state(start, block, parameters)
            if start == 0:
                out = found.new_empty(x.size(-2), *found.shape[1:])
            out[start : start + found.size(0)] = found
        ctx.state = state
        ctx.save_for_backward(x, *parameters)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        state: _Pass = ctx.state
        x, *parameters = ctx.saved_tensors
        _, wants_x, *wants = ctx.needs_input_grad
        leaves = [
            one.detach().requires_grad_(wanted)
            for one, wanted in zip(parameters, wants, strict=True)
        ]
        learned = [one for one in leaves if one.requires_grad]
        sums = [torch.zeros_like(one) for one in learned]
        grad_x = torch.empty_like(x) if wants_x else None
        with state.replayed(), torch.enable_grad():
            for start, block in state.blocks(x):
                rows = block.detach().requires_grad_(wants_x)
                out = state(start, rows, leaves)
                asked = [rows, *learned] if wants_x else learned
                part = grad[start : start + out.size(0)]
                grads = torch.autograd.grad(out, asked, part, materialize_grads=True)
                if grad_x is not None:
                    grad_x.narrow(-2, start, out.size(0)).copy_(grads[0])
                for total, change in zip(sums, grads[int(wants_x) :], strict=True):
                    total.add_(change)
        found = iter(sums)
        return None, grad_x, *(next(found) if one.requires_grad else None for one in leaves)
