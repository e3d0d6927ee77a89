"""Models whose states solve an equation."""

from __future__ import annotations

from mgnni.models.entry import ModelEntry

IMPLICIT = (
    ModelEntry(
        "mgnni",
        "Multiscale graph network with implicit layers",
        "implicit",
        "mgnni.models.mgnni:MGNNI",
        equation="Z_m = γ S^m Z_m g(F_m) + f(X), Z = Σ_m α_m Z_m, g(F) = FᵀF / ‖FᵀF‖",
        paper="Liu et al., MGNNI: Multiscale Graph Neural Networks with Implicit Layers, "
        "NeurIPS 2022",
        differs="Solved to a relative tolerance with a certificate, forward and backward, "
        "where the authors stop at an absolute one or after 300 steps; the operator "
        "is the same in training and in testing.",
        tables=("heterophilic", "ppi", "graphs", "chains"),
    ),
    ModelEntry(
        "cgs",
        "Convergent graph solver",
        "implicit",
        "mgnni.models.cgs:CGS",
        equation="z_u = γ Σ_{u→v} a_uv ⊙ z_v + b_u, a_uv = clip(ℓ_uv, 0, 1) / outdeg(u); ℓ, b "
        "from an attention graph network, logits = MLP(z)",
        paper="Park, Choo and Park, Convergent Graph Solvers, ICLR 2022",
        differs="The authors stop after 50 steps and return the iterate before the last; ours "
        "is solved to a relative residual of 1e-6 in every graph, with a certificate, "
        "over edges instead of dense matrices of all pairs of nodes. Repeated edges "
        "count as one, and the one feature of an edge is its weight less one (zero, "
        "as in their benchmark, without weights).",
        tables=("heterophilic", "graphs", "chains"),
    ),
    ModelEntry(
        "sse",
        "Steady-state embeddings",
        "implicit",
        "mgnni.models.sse:SSE",
        equation="h_v = W₂ ReLU(W₁ [x_v ; Σ_{u→v} [x_v ; h_u]]), logits = MLP(h); W₁'s block "
        "of h scaled so that the map contracts by κ",
        paper="Dai, Kozareva, Dai, Smola and Song, Learning Steady-States of Iterative "
        "Algorithms over Graphs, ICML 2018",
        differs="The default solves the equation, with W₁'s block of h scaled down where the "
        "map would not contract by κ, and has exact gradients; variant='published' is "
        "the operator as the code of CGS has it: 20 damped steps (without its early "
        "stop) and the gradient of one more. Dai et al. send the features of the "
        "neighbour (message='sender'; the code of CGS those of the receiver, our "
        "default), sample nodes and keep and normalise states from one step of "
        "training to the next; their code for PPI also feeds a node its own state.",
        tables=("ppi",),
    ),
    ModelEntry(
        "fdgnn",
        "Fast and deep graph neural network (untrained reservoir)",
        "implicit",
        "mgnni.models.fdgnn:FDGNN",
        equation="z_v = tanh(W_in x_v + (1/k) Σ_{u→v} W z_u), ‖W‖₂ = ρ < 1, untrained; logits "
        "= V tanh(Φ Σ_v z_v) + b",
        paper="Gallicchio and Micheli, Fast and Deep Graph Neural Networks, AAAI 2020",
        differs="The linear readout is trained by gradients as all models here, not solved by "
        "ridge regression. Weights are scaled by the spectral norm, which proves the "
        "contraction, and states are solved for to a certified error; on a directed "
        "graph k is the root of the largest in-degree times the largest out-degree.",
        tables=("graphs",),
    ),
)
