"""Differentiable solves: gradients of equilibria by the adjoint equation."""

import mgnni.implicit.custom_ops  # noqa: F401 (registers the ops)
