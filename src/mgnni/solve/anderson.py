"""Anderson mixing, with weights of each graph's own."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mgnni.solve.certify import graph_sum
from mgnni.solve.iterate import Method, State, System


@dataclass(frozen=True)
class Anderson(Method):
    r"""Anderson mixing of the last steps.

    Chooses :math:`\theta` to minimise :math:`\|r - \Delta R\,\theta\|` over the differences of
    the last ``window`` residuals, then takes Picard's step from the mixed point. The map being
    affine, the residual of the mixed point is known without evaluating it.
    """

    window: int = 5

    def step(self, system: System, state: State) -> None:
        """Take one step."""
        before_z, before_r = state.z, state.r
        z, r = state.z, state.r
        if "dr" in state.memory:
            dz, dr = state.memory["dz"], state.memory["dr"]
            rows = torch.einsum("nkh,nlh->kln", dr, dr).double()
            gram = graph_sum(system.operator, rows).permute(2, 0, 1)
            # Old differences grow parallel; the pseudo-inverse leaves out what rounding made.
            rtol = 1e-6 if r.dtype is torch.float32 else 1e-14
            inverse = torch.linalg.pinv(gram, hermitian=True, rtol=rtol)
            theta = (inverse @ system.dots(dr, r).unsqueeze(-1)).squeeze(-1)
            weight = system.spread(theta, r).expand(len(r), -1)
            z = z - torch.einsum("nkh,nk->nh", dz, weight)
            r = r - torch.einsum("nkh,nk->nh", dr, weight)
        state.z = z + r
        state.r = system.linear(r)
        for name, difference in (("dz", state.z - before_z), ("dr", state.r - before_r)):
            kept = state.memory.get(name, difference.unsqueeze(1)[:, :0])
            kept = torch.cat([kept, difference.unsqueeze(1)], dim=1)
            state.memory[name] = kept[:, -self.window :]
