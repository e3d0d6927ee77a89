"""Conjugate gradients for a symmetric operator and a symmetric weight."""

from __future__ import annotations

from mgnni.solve.iterate import Method, State, System, divide


class ConjugateGradients(Method):
    r"""Conjugate gradients on :math:`A = I - \gamma P^m \cdot W`, one step length a graph.

    :math:`A` is symmetric with spectrum in :math:`[1 - L, 1 + L]`, hence positive definite, and
    the residual falls about as :math:`2 ((1 - \sqrt{1 - L^2}) / L)^k`.
    """

    def step(self, system: System, state: State) -> None:
        """Take one step."""
        if "p" not in state.memory:
            state.memory["p"] = state.r
            state.graphs["rr"] = system.dot(state.r, state.r)
        p = state.memory["p"]
        ap = p - system.linear(p)
        before = state.graphs["rr"]
        # alpha_k = <r_k, r_k> / <p_k, A p_k>
        alpha = system.spread(divide(before, system.dot(p, ap)), p).unsqueeze(-1)
        state.z = state.z + alpha * p
        state.r = state.r - alpha * ap
        after = system.dot(state.r, state.r)
        # p_{k+1} = r_{k+1} + <r_{k+1}, r_{k+1}> / <r_k, r_k> p_k
        state.memory["p"] = state.r + system.spread(divide(after, before), p).unsqueeze(-1) * p
        state.graphs["rr"] = after
