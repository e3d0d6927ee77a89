"""The fixed-point iteration of the paper."""

from __future__ import annotations

from mgnni.solve.iterate import Method, State, System


class Picard(Method):
    r"""Picard's iteration :math:`z_{k+1} = T(z_k) = z_k + r_k`.

    The map being affine, :math:`r_{k+1} = M r_k`: the residual falls by the factor :math:`L`
    or more in every step.
    """

    def step(self, system: System, state: State) -> None:
        """Take one step."""
        state.z = state.z + state.r
        state.r = system.linear(state.r)
