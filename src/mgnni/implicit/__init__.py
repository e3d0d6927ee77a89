"""Differentiable solves: gradients of equilibria by the adjoint equation."""
