"""Solvers for stacks of linear equilibrium equations; knows operators, but no graph and no layer."""
