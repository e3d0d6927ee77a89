"""Restarted GMRES for operators and weights without symmetry."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mgnni.solve.iterate import Method, State, System, divide


@dataclass(frozen=True)
class GMRES(Method):
    r"""GMRES with restarts, in the form of generalised conjugate residuals.

    Keeps directions :math:`p_i` with :math:`A p_i` orthogonal and minimises the residual over
    their span, for each graph on its own (Eisenstat, Elman and Schultz, 1983). Where the map
    contracts in the Frobenius norm, every step gains at least the factor :math:`L`.

    Where it contracts in another norm only, a minimal Frobenius residual may stand still. A graph
    whose cycle gained less than Picard's steps would is therefore given steps of Picard, which
    converge in any norm: for one cycle at first, for twice as many every time after.
    """

    window: int = 12

    def step(self, system: System, state: State) -> None:
        """Take one step."""
        if "p" not in state.memory:
            self._begin(system, state)
        p, ap = state.r, state.r - system.linear(state.r)
        plain = state.graphs["plain"] > 0  # Picard: the direction r, and a step of one along it
        # p = r - sum_i beta_i p_i with beta_i = <A r, A p_i> / <A p_i, A p_i>
        if state.memory["p"].size(1):
            beta = divide(system.dots(state.memory["ap"], ap), state.graphs["size"])
            beta = torch.where(plain.unsqueeze(1), torch.zeros_like(beta), beta)
            weight = system.spread(beta, ap).expand(len(p), -1)
            p = p - torch.einsum("nkh,nk->nh", state.memory["p"], weight)
            ap = ap - torch.einsum("nkh,nk->nh", state.memory["ap"], weight)
        size = system.dot(ap, ap)
        length = divide(system.dot(state.r, ap), size)
        length = torch.where(plain, torch.ones_like(length), length)
        alpha = system.spread(length, p).unsqueeze(-1)
        state.z = state.z + alpha * p
        state.r = state.r - alpha * ap
        if state.memory["p"].size(1) + 1 == self.window:
            self._end(system, state)
            return
        state.memory["p"] = torch.cat([state.memory["p"], p.unsqueeze(1)], dim=1)
        state.memory["ap"] = torch.cat([state.memory["ap"], ap.unsqueeze(1)], dim=1)
        state.graphs["size"] = torch.cat([state.graphs["size"], size.unsqueeze(1)], dim=1)

    @staticmethod
    def _begin(system: System, state: State) -> None:
        """Start a cycle without directions."""
        state.memory["p"] = state.memory["ap"] = state.r.unsqueeze(1)[:, :0]
        state.graphs["begin"] = system.dot(state.r, state.r)
        state.graphs["size"] = state.graphs["begin"].unsqueeze(1)[:, :0]
        if "plain" not in state.graphs:  # cycles of Picard that a graph has before it, and next
            state.graphs["plain"] = torch.zeros_like(state.graphs["begin"], dtype=torch.long)
            state.graphs["next"] = torch.ones_like(state.graphs["plain"])

    def _end(self, system: System, state: State) -> None:
        """Forget the directions; send the graphs that they brought little to Picard."""
        state.memory = {}
        expected = system.equation.contractions[0] ** (2 * self.window)
        plain, following = state.graphs["plain"], state.graphs["next"]
        poor = system.dot(state.r, state.r) > expected * state.graphs["begin"]
        sent = poor & (plain == 0)
        state.graphs["plain"] = torch.where(sent, following, (plain - 1).clamp(min=0))
        state.graphs["next"] = torch.where(sent, 2 * following, following)
