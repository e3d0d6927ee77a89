"""Implicit graph neural networks for PyTorch Geometric.

The equation, its bounds and the names used throughout are in ``docs/math.md``.
"""

from mgnni.errors import ArgumentError as ArgumentError
from mgnni.errors import ConvergenceError as ConvergenceError
from mgnni.errors import ConvergenceWarning as ConvergenceWarning
from mgnni.errors import MgnniError as MgnniError
from mgnni.errors import NotContractiveError as NotContractiveError
from mgnni.graph.propagation import Propagation as Propagation
from mgnni.implicit.linear import SolveLog as SolveLog
from mgnni.implicit.solve import solve_equilibria as solve_equilibria
from mgnni.implicit.solve import solve_equilibrium as solve_equilibrium
from mgnni.layers.equilibrium import MultiscaleEquilibrium as MultiscaleEquilibrium
from mgnni.layers.fusion import ScaleAttention as ScaleAttention
from mgnni.models.mgnni import MGNNI as MGNNI
from mgnni.solve.result import SolveResult as SolveResult
from mgnni.solve.result import SolveStats as SolveStats
from mgnni.solve.result import Status as Status

__version__ = "0.1.0"
