"""One stack of equations and its gradients, solved by everyone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from mgnni.bench import deq
from mgnni.bench.compete import RIVAL, Entrant, absent, as_authors, fastest, no_larger, reached
from mgnni.bench.layer import Solve
from mgnni.bench.measure import errors, replayed
from mgnni.bench.problems import trained_factor
from mgnni.bench.row import Errors
from mgnni.bench.settings import Settings
from mgnni.graph.propagation import Propagation
from mgnni.implicit.cache import Cache
from mgnni.implicit.contraction import contraction
from mgnni.implicit.linear import equilibria
from mgnni.solve import textbook
from mgnni.solve.device_sweep import DeviceSweep
from mgnni.solve.equation import Equations
from mgnni.solve.result import Options
from mgnni.solve.textbook import Stopping
from mgnni.solve.weights import Weights

TARGET = Errors(1e-6, 1e-5)
# What a step of training moves the entries of a factor by, over their size; with the authors'
# configuration on Chameleon that was 0.016 to 0.031, from the tenth epoch to the 400th.
STEP = 0.02


def ours(
    propagation: Propagation,
    weight: Tensor,
    bias: Tensor,
    scales: tuple[int, ...],
    gamma: float,
    *,
    solver: str = "auto",
    tol: float = 1e-6,
    memory: str = "fast",
    cache: Cache | None = None,
) -> Tensor:
    """Solves as the library's layer does.

    With a ``cache`` it also starts from the last eigenvectors, as a layer in training does.
    """
    options = Options(solver, tol)
    z, _ = equilibria(
        propagation,
        weight,
        bias,
        scales,
        gamma,
        options=options,
        memory=memory,
        cache=cache,
        gram=True,
    )
    return z


@dataclass(frozen=True, eq=False)
class Equation:
    """What is solved, forward and backward.

    Attributes:
        propagation: the operator.
        weight: shape ``(scales, channels, channels)``.
        bias: shape ``(num_nodes, channels)``.
        cotangent: of the states, shape ``(scales, num_nodes, channels)``.
        scales: the powers.
        gamma: the contraction factor.
        bias_grad: whether the gradient of the bias is wanted; not, if features are the bias.
    """

    propagation: Propagation
    weight: Tensor
    bias: Tensor
    cotangent: Tensor
    scales: tuple[int, ...] = (1, 2)
    gamma: float = 0.8
    bias_grad: bool = True

    @classmethod
    def random(
        cls,
        propagation: Propagation,
        channels: int,
        largest: float | None,
        scales: tuple[int, ...] = (1, 2),
        gamma: float = 0.8,
    ) -> Equation:
        """Draw bias and cotangent, and weights with this largest eigenvalue."""
        device = propagation.device
        generator = torch.Generator().manual_seed(len(scales))
        weight = contraction(trained_factor(len(scales), channels, largest, generator).double())
        wide = torch.Generator(device).manual_seed(0)
        draw = partial(torch.randn, generator=wide, device=device)
        bias = draw(propagation.num_nodes, channels)
        cotangent = draw(len(scales), propagation.num_nodes, channels)
        return cls(propagation, weight.float().to(device), bias, cotangent, scales, gamma)

    def solved(self, solve: Solve) -> list[Tensor]:
        """Return states, and gradients of weight and bias."""
        w = self.weight.detach().requires_grad_()
        b = self.bias.detach().requires_grad_(self.bias_grad)
        z = solve(self.propagation, w, b, self.scales, self.gamma)
        wanted = [w, b] if self.bias_grad else [w]
        return [z.detach(), *torch.autograd.grad(z, wanted, self.cotangent)]

    @cached_property
    def exact(self) -> list[Tensor]:
        """The same in float64, to 1e-12."""
        wide = replace(
            self,
            propagation=self.propagation.double(),
            weight=self.weight.double(),
            bias=self.bias.double(),
            cotangent=self.cotangent.double(),
        )
        return wide.solved(partial(ours, tol=1e-12))

    def reached(
        self, method: str, solve: Callable[[float], Solve], target: Errors, *, is_ours: bool = False
    ) -> Entrant:
        """Enter a solver at the loosest tolerance that measures the target."""
        return reached(
            method,
            lambda tol: errors(self.solved(solve(tol)), self.exact),
            lambda tol: partial(self.solved, solve(tol)),
            target,
            ours=is_ours,
        )

    def textbook(self, target: Errors = TARGET) -> tuple[Entrant, Errors]:
        """Picard, stopped by relative change; and what the library then has to measure."""
        found = self.reached(
            RIVAL,
            lambda tol: partial(textbook.equilibria, stopping=Stopping(tol, True, 10_000)),
            target,
        )
        return found, target if found.errors is None else no_larger(target, found.errors)

    def authors(self) -> Entrant:
        """Picard, stopped as the authors do."""
        run = partial(self.solved, textbook.equilibria)
        return as_authors(run, errors(run(), self.exact))

    def by_us(
        self, target: Errors, solver: str = "auto", memory: str = "fast", name: str = ""
    ) -> Entrant:
        """The library, with one of its solvers."""
        return self.reached(
            name or ("mgnni" if solver == "auto" else f"mgnni, {solver}"),
            lambda tol: partial(ours, solver=solver, tol=tol, memory=memory),
            target,
            is_ours=True,
        )

    def recorded(self, target: Errors) -> Entrant:
        """The library as in training: with the eigenvectors of the step before, which are near.

        Where it can be, it is a CUDA graph.
        """
        cache = Cache()
        weights = Weights(self._moved_weight(), gram=True)
        equations = Equations(self.propagation, self.scales, self.gamma, weights)
        plan = cache.prepare(equations, Options())
        solve: Callable[..., Tensor] = ours
        if isinstance(plan, DeviceSweep) and not plan.synchronises:
            plan.expansion.eigenpairs  # noqa: B018 (leaves the eigenvectors in the basis)
            basis, before = plan.expansion.basis, plan.expansion.basis.clone()

            def solve(*given: Any, **options: Any) -> Tensor:
                basis.copy_(before)
                return ours(*given, cache=cache, **options)

        entrant = self.reached("mgnni", lambda tol: partial(solve, tol=tol), target, is_ours=True)
        if entrant.run is None or plan.synchronises:
            return entrant
        return replace(entrant, run=replayed(entrant.run))

    def _moved_weight(self) -> Tensor:
        """The weight, one step of training away."""
        values, vectors = torch.linalg.eigh(self.weight.double().cpu())
        factor = vectors * values.clamp(min=0).sqrt().unsqueeze(-2) @ vectors.mT
        generator = torch.Generator().manual_seed(1)
        size = STEP * factor.square().mean((-2, -1), keepdim=True).sqrt()
        signs = torch.randn(factor.shape, generator=generator).sign()
        return contraction(factor + size * signs).to(self.weight)

    def torchdeq(
        self, settings: Settings, target: Errors = TARGET, solvers: Iterable[str] = deq.SOLVERS
    ) -> Iterator[Entrant]:
        """TorchDEQ with the solver of its own that is fastest here."""
        if not deq.installed():
            yield absent("TorchDEQ", "not installed; pip install 'mgnni[bench]'")
            return
        found = []
        for solver in solvers:
            one = self.reached(
                solver,
                lambda tol, solver=solver: partial(deq.equilibria, solver=solver, tol=tol),  # type: ignore[misc]
                target,
            )
            found.append(replace(one, note=solver))
        yield fastest("TorchDEQ", found, settings)
