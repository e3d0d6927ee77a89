"""Checks that the weights in a file are those of a model."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


def check_weights(weights: Sequence[dict[str, Tensor]], model: nn.Module) -> None:
    """Check names, shapes and kinds of weights.

    Args:
        weights (Sequence[dict[str, Tensor]]): The ``state_dict`` of each run.
        model (nn.Module): The model, which may be on the meta device.
    """
    wanted = {name: _form(one) for name, one in model.state_dict().items()}
    for state in weights:
        found = {name: _form(one) for name, one in state.items()}
        for name in sorted(wanted.keys() | found.keys()):
            if wanted.get(name) != found.get(name):
                raise ValueError(
                    f"weight {name} must be {wanted.get(name, 'absent')} (got "
                    f"{found.get(name, 'none')})"
                )
        if any(one.is_meta for one in state.values()):
            raise ValueError("weights must have values")


def _form(tensor: Tensor) -> str:
    """Describe what a weight must have in common with that of the model."""
    kind = "a float" if tensor.is_floating_point() else f"a {tensor.dtype}"
    return f"{kind} tensor of shape {tuple(tensor.shape)}, {tensor.layout}"
