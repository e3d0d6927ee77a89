"""Graphs as linear operators with proven norm bounds. Independent of the solvers."""
