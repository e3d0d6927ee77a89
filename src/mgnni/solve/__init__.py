"""Solvers for stacks of linear equilibrium equations; they know no graph and no layer."""
