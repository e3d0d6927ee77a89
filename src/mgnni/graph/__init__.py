"""Graphs as linear operators with proven norm bounds. Independent of the solvers."""

import mgnni.graph.custom_ops  # noqa: F401 (registers the ops)
