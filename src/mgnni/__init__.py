"""Implicit graph neural networks for PyTorch Geometric.

The equation, its bounds and the names used throughout are in ``docs/math.md``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mgnni.version import __version__

if TYPE_CHECKING:
    from mgnni.data.compare import compare as compare
    from mgnni.data.registry import load_task as load_task
    from mgnni.data.tables.read import read_graphs as read_graphs
    from mgnni.data.tables.schema import TableOptions as TableOptions
    from mgnni.data.task import Task as Task
    from mgnni.errors import ArgumentError as ArgumentError
    from mgnni.errors import ConvergenceError as ConvergenceError
    from mgnni.errors import ConvergenceWarning as ConvergenceWarning
    from mgnni.errors import DataError as DataError
    from mgnni.errors import DataWarning as DataWarning
    from mgnni.errors import DivergenceError as DivergenceError
    from mgnni.errors import LostProcessError as LostProcessError
    from mgnni.errors import MgnniError as MgnniError
    from mgnni.errors import NotContractiveError as NotContractiveError
    from mgnni.explain.explanation import Explanation as Explanation
    from mgnni.explain.prediction import explain_model as explain_model
    from mgnni.explain.prediction import explain_prediction as explain_prediction
    from mgnni.export.program import export_model as export_model
    from mgnni.graph.propagation import Propagation as Propagation
    from mgnni.implicit.nonlinear import implicit_fixed_point as implicit_fixed_point
    from mgnni.implicit.normalized_gram import normalized_gram as normalized_gram
    from mgnni.implicit.solve import solve_equilibria as solve_equilibria
    from mgnni.implicit.solve import solve_equilibrium as solve_equilibrium
    from mgnni.layers.equilibrium import MultiscaleEquilibrium as MultiscaleEquilibrium
    from mgnni.layers.equilibrium_conv import EquilibriumConv as EquilibriumConv
    from mgnni.layers.fusion import ScaleAttention as ScaleAttention
    from mgnni.models.catalog import make_model as make_model
    from mgnni.models.cgs import CGS as CGS
    from mgnni.models.eignn import EIGNN as EIGNN
    from mgnni.models.fdgnn import FDGNN as FDGNN
    from mgnni.models.gind import GIND as GIND
    from mgnni.models.ignn import IGNN as IGNN
    from mgnni.models.mgnni import MGNNI as MGNNI
    from mgnni.models.mignn import MIGNN as MIGNN
    from mgnni.models.sse import SSE as SSE
    from mgnni.solve.result import SolveLog as SolveLog
    from mgnni.solve.result import SolveResult as SolveResult
    from mgnni.solve.result import SolveStats as SolveStats
    from mgnni.solve.result import Status as Status
    from mgnni.train.config import Config as Config
    from mgnni.train.config import ModelConfig as ModelConfig
    from mgnni.train.fit import fit as fit
    from mgnni.train.fitted import Fitted as Fitted

# Where each public name lives. They are imported when first used, so that the command line can
# answer --help without waiting for torch.
_HOMES = {
    "ArgumentError": "mgnni.errors",
    "CGS": "mgnni.models.cgs",
    "compare": "mgnni.data.compare",
    "Config": "mgnni.train.config",
    "ConvergenceError": "mgnni.errors",
    "ConvergenceWarning": "mgnni.errors",
    "DataError": "mgnni.errors",
    "DataWarning": "mgnni.errors",
    "DivergenceError": "mgnni.errors",
    "EIGNN": "mgnni.models.eignn",
    "EquilibriumConv": "mgnni.layers.equilibrium_conv",
    "explain_model": "mgnni.explain.prediction",
    "explain_prediction": "mgnni.explain.prediction",
    "Explanation": "mgnni.explain.explanation",
    "FDGNN": "mgnni.models.fdgnn",
    "export_model": "mgnni.export.program",
    "fit": "mgnni.train.fit",
    "Fitted": "mgnni.train.fitted",
    "GIND": "mgnni.models.gind",
    "IGNN": "mgnni.models.ignn",
    "implicit_fixed_point": "mgnni.implicit.nonlinear",
    "load_task": "mgnni.data.registry",
    "LostProcessError": "mgnni.errors",
    "make_model": "mgnni.models.catalog",
    "MGNNI": "mgnni.models.mgnni",
    "MgnniError": "mgnni.errors",
    "MIGNN": "mgnni.models.mignn",
    "ModelConfig": "mgnni.train.config",
    "MultiscaleEquilibrium": "mgnni.layers.equilibrium",
    "normalized_gram": "mgnni.implicit.normalized_gram",
    "NotContractiveError": "mgnni.errors",
    "Propagation": "mgnni.graph.propagation",
    "read_graphs": "mgnni.data.tables.read",
    "ScaleAttention": "mgnni.layers.fusion",
    "solve_equilibria": "mgnni.implicit.solve",
    "solve_equilibrium": "mgnni.implicit.solve",
    "SolveLog": "mgnni.solve.result",
    "SolveResult": "mgnni.solve.result",
    "SolveStats": "mgnni.solve.result",
    "SSE": "mgnni.models.sse",
    "Status": "mgnni.solve.result",
    "TableOptions": "mgnni.data.tables.schema",
    "Task": "mgnni.data.task",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mgnni' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
