"""Gradients of equilibria by the adjoint equation; knows operators and solvers, but no layer."""
