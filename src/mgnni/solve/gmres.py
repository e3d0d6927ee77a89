"""Restarted GMRES for operators and weights without symmetry."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mgnni.solve.iterate import Method, State, System, divide


@dataclass(frozen=True)
class GMRES(Method):
    r"""GMRES with restarts, in the form of generalised conjugate residuals.

    Keeps directions :math:`p_i` with :math:`A p_i` orthogonal and minimises the residual over
    their span, for each graph on its own (Eisenstat, Elman and Schultz, 1983). The first step of
    every cycle is Picard's, which makes progress where a minimal residual alone might not.
    """

    window: int = 12

    def step(self, system: System, state: State) -> None:
        """Take one step."""
        image = system.linear(state.r)
        if "p" not in state.memory:  # a new cycle
            state.z = state.z + state.r
            state.r = image
            state.memory["p"] = state.z.new_empty(state.z.size(0), 0, state.z.size(1))
            state.memory["ap"] = state.memory["p"]
            state.graphs["size"] = image.new_empty(
                system.operator.num_graphs, 0, dtype=torch.float64
            )
            return
        p, ap = state.r, state.r - image
        # p = r - sum_i beta_i p_i with beta_i = <A r, A p_i> / <A p_i, A p_i>
        if state.memory["p"].size(1):
            beta = divide(system.dots(state.memory["ap"], ap), state.graphs["size"])
            weight = system.spread(beta, ap)
            p = p - torch.einsum("nkh,nk->nh", state.memory["p"], weight.expand(len(p), -1))
            ap = ap - torch.einsum("nkh,nk->nh", state.memory["ap"], weight.expand(len(p), -1))
        size = system.dot(ap, ap)
        alpha = system.spread(divide(system.dot(state.r, ap), size), p).unsqueeze(-1)
        state.z = state.z + alpha * p
        state.r = state.r - alpha * ap
        if state.memory["p"].size(1) + 1 == self.window:
            state.memory, state.graphs = {}, {}
            return
        state.memory["p"] = torch.cat([state.memory["p"], p.unsqueeze(1)], dim=1)
        state.memory["ap"] = torch.cat([state.memory["ap"], ap.unsqueeze(1)], dim=1)
        state.graphs["size"] = torch.cat([state.graphs["size"], size.unsqueeze(1)], dim=1)
