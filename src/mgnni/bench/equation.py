"""One set of equations and its gradients, solved by every method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from mgnni.bench.compete import RIVAL, Entrant, absent, as_authors, fastest, no_larger, reached
from mgnni.bench.measure import errors, replayed
from mgnni.bench.problems import trained_factor
from mgnni.bench.results import Errors, Settings
from mgnni.bench.rivals import DEQ_SOLVERS, Solve, deq_equilibria, deq_installed
from mgnni.graph.propagation import Propagation
from mgnni.implicit.cache import Cache
from mgnni.implicit.linear import equilibria
from mgnni.implicit.normalized_gram import normalized_gram
from mgnni.solve import textbook
from mgnni.solve.device_sweep import DeviceSweep
from mgnni.solve.equation import Equations
from mgnni.solve.result import Options
from mgnni.solve.textbook import Stopping
from mgnni.solve.weights import Weights

TARGET = Errors(1e-6, 1e-5)
# Change of the entries of a factor in one training step, relative to their size. With the authors'
# configuration on Chameleon it was 0.016 to 0.031, from epoch 10 to epoch 400.
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
    """Solve as the layer of the library does, which guarantees that its weights are normalised.

    Args:
        propagation (Propagation): The operator.
        weight (Tensor): The weights.
        bias (Tensor): The bias.
        scales (tuple[int, ...]): The powers of the operator.
        gamma (float): The contraction factor.
        solver (str, optional): The solver. (default: ``"auto"``)
        tol (float, optional): Relative residual to reach. (default: :obj:`1e-6`)
        memory (str, optional): See :func:`mgnni.solve_equilibrium`. (default: ``"fast"``)
        cache (Cache, optional): What the layer keeps from the previous step, see
            :class:`TrainedLayer`. (default: :obj:`None`)

    Shapes:
        - **weight:** ``(scales, channels, channels)``
        - **bias:** ``(num_nodes, channels)``
        - **output:** ``(scales, num_nodes, channels)``
    """
    z, _ = equilibria(
        propagation,
        weight,
        bias,
        scales,
        gamma,
        options=Options(solver, tol, memory=memory),
        cache=cache,
        psd_norm=1.0,
    )
    return z


class TrainedLayer:
    """Solves as a layer does in training, with the eigenvectors of the previous step cached.

    The previous solution is not cached, as it would be the answer. This class contains all uses
    of solver internals in the benchmarks.

    Args:
        equation (Equation): What is solved.

    Shapes:
        - **input:** as for :func:`ours`
        - **output:** ``(scales, num_nodes, channels)``
    """

    def __init__(self, equation: Equation) -> None:
        self.cache = Cache()
        weights = Weights(equation.previous_weight(), psd_norm=1.0)
        equations = Equations(equation.propagation, equation.scales, equation.gamma, weights)
        plan = self.cache.prepare(equations, Options())
        self.synchronises = plan.synchronises
        self.basis = self.previous = torch.empty(0)
        if isinstance(plan, DeviceSweep) and not plan.synchronises:
            plan.expansion.eigenpairs  # noqa: B018 (writes the eigenvectors into the basis)
            self.basis = plan.expansion.basis
            self.previous = self.basis.clone()

    def __call__(self, *inputs: Any, **options: Any) -> Tensor:
        """Solves, as a :class:`~mgnni.bench.rivals.Solve`."""
        if self.synchronises:
            return ours(*inputs, **options)
        self.basis.copy_(self.previous)
        return ours(*inputs, cache=self.cache, **options)


@dataclass(frozen=True, eq=False)
class Equation:
    r"""The equations :math:`Z_m = \gamma P^m Z_m W_m + B`, solved forward and backward.

    Args:
        propagation (Propagation): The operator :math:`P`.
        weight (Tensor): The weights, shape ``(scales, channels, channels)``.
        bias (Tensor): The bias, shape ``(num_nodes, channels)``.
        cotangent (Tensor): Gradient of the states, shape ``(scales, num_nodes, channels)``.
        scales (tuple[int, ...], optional): The powers :math:`m`. (default: :obj:`(1, 2)`)
        gamma (float, optional): The factor :math:`\gamma`. (default: :obj:`0.8`)
        bias_grad (bool, optional): Whether the bias needs a gradient; it does not if it consists
            of the input features. (default: :obj:`True`)
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
        """Return an equation with random bias, and weights with this largest eigenvalue."""
        device = propagation.device
        generator = torch.Generator().manual_seed(len(scales))
        weight = normalized_gram(trained_factor(len(scales), channels, largest, generator).double())
        on_device = torch.Generator(device).manual_seed(0)
        draw = partial(torch.randn, generator=on_device, device=device)
        bias = draw(propagation.num_nodes, channels)
        cotangent = draw(len(scales), propagation.num_nodes, channels)
        return cls(propagation, weight.float().to(device), bias, cotangent, scales, gamma)

    def solved(self, solve: Solve) -> list[Tensor]:
        """Return the states, and the gradients of weight and bias."""
        w = self.weight.detach().requires_grad_()
        b = self.bias.detach().requires_grad_(self.bias_grad)
        z = solve(self.propagation, w, b, self.scales, self.gamma)
        wanted = [w, b] if self.bias_grad else [w]
        return [z.detach(), *torch.autograd.grad(z, wanted, self.cotangent)]

    @cached_property
    def exact(self) -> list[Tensor]:
        """Return the same in float64, solved to 1e-12."""
        double = replace(
            self,
            propagation=self.propagation.double(),
            weight=self.weight.double(),
            bias=self.bias.double(),
            cotangent=self.cotangent.double(),
        )
        return double.solved(partial(ours, tol=1e-12))

    def reached(
        self, method: str, solve: Callable[[float], Solve], target: Errors, *, is_ours: bool = False
    ) -> Entrant:
        """Return a solver at the loosest tolerance that reaches the target."""
        return reached(
            method,
            lambda tol: errors(self.solved(solve(tol)), self.exact),
            lambda tol: partial(self.solved, solve(tol)),
            target,
            ours=is_ours,
        )

    def textbook(self, target: Errors = TARGET) -> tuple[Entrant, Errors]:
        """Return Picard's iteration with a relative criterion, and the errors to be reached then.

        The library must be at least as accurate as the textbook loop.
        """
        found = self.reached(
            RIVAL,
            lambda tol: partial(textbook.equilibria, stopping=Stopping(tol, True, 10_000)),
            target,
        )
        return found, target if found.errors is None else no_larger(target, found.errors)

    def authors(self) -> Entrant:
        """Return Picard's iteration with the stopping criterion of the authors."""
        run = partial(self.solved, textbook.equilibria)
        return as_authors(run, errors(run(), self.exact))

    def by_us(
        self, target: Errors, solver: str = "auto", memory: str = "fast", name: str = ""
    ) -> Entrant:
        """Return one of the solvers of the library."""
        return self.reached(
            name or ("mgnni" if solver == "auto" else f"mgnni, {solver}"),
            lambda tol: partial(ours, solver=solver, tol=tol, memory=memory),
            target,
            is_ours=True,
        )

    def recorded(self, target: Errors) -> Entrant:
        """Return the library as in training, as a CUDA graph where that is possible."""
        layer = TrainedLayer(self)
        entrant = self.reached("mgnni", lambda tol: partial(layer, tol=tol), target, is_ours=True)
        if entrant.run is None or layer.synchronises:
            return entrant
        return replace(entrant, run=replayed(entrant.run))

    def previous_weight(self) -> Tensor:
        """Return the weight one training step away."""
        values, vectors = torch.linalg.eigh(self.weight.double().cpu())
        factor = vectors * values.clamp(min=0).sqrt().unsqueeze(-2) @ vectors.mT
        generator = torch.Generator().manual_seed(1)
        size = STEP * factor.square().mean((-2, -1), keepdim=True).sqrt()
        signs = torch.randn(factor.shape, generator=generator).sign()
        return normalized_gram(factor + size * signs).to(self.weight)

    def torchdeq(self, settings: Settings, target: Errors = TARGET) -> Iterator[Entrant]:
        """Yield TorchDEQ with its fastest solver."""
        if not deq_installed():
            yield absent()
            return
        found = []
        for solver in DEQ_SOLVERS:
            one = self.reached(
                solver,
                lambda tol, solver=solver: partial(deq_equilibria, solver=solver, tol=tol),  # type: ignore[misc]
                target,
            )
            found.append(replace(one, note=solver))
        yield fastest("TorchDEQ", found, settings)
