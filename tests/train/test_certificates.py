import torch

from mgnni.solve.result import SolveStats, Status
from mgnni.train.certificates import Certificate


def test_a_certificate_keeps_the_worst() -> None:
    def stats(residual: float, relative: float, bound: float, solver: str) -> SolveStats:
        empty = torch.zeros(1)
        return SolveStats(
            residual=residual,
            relative_residual=relative,
            iterations=int(100 * bound),
            status=Status.CONVERGED,
            error_bound=bound,
            relative_error_bound=bound / 5,
            contraction=0.5,
            norm="frobenius",
            tol=1e-6,
            solver=solver,
            scale=1,
            graph_relative_residual=empty,
            graph_error_bound=empty,
            graph_iterations=empty,
        )

    certificate = Certificate()
    certificate.add([stats(0.2, 0.02, 0.5, "cg"), stats(0.03, 0.03, 0.1, "series")])
    certificate.add([stats(0.0, 0.0, 0.0, "cg")])
    assert certificate == Certificate(3, 0, {"cg", "series"}, 50, 0.03, 0.5, 0.1)
