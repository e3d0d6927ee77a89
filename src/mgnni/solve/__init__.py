r"""Solvers for the equilibrium equations :math:`Z = \gamma P^m Z W + B`.

Read in this order:

- :mod:`~mgnni.solve.textbook`: the equation and its plain solution by Picard iteration. This is
  the reference for tests and benchmarks.
- :mod:`~mgnni.solve.equation`: the equations without their bias, :math:`(P, m, \gamma, W)`, as
  an object.
- :mod:`~mgnni.solve.prepare`: ``plan = prepare(equations, options, previous)`` chooses a method.
  It is the only place that does.
- :mod:`~mgnni.solve.refine`: ``plan.solve(bias)`` proposes a solution, measures its residual and
  corrects it if needed. :mod:`~mgnni.solve.device` does the same with CUDA kernels.
- :mod:`~mgnni.solve.certify` and :mod:`~mgnni.solve.result`: the residual, the error bound and
  the rule that accepts a solution.
"""
