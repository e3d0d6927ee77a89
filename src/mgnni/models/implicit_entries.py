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
        "ignn",
        "Implicit graph neural network",
        "implicit",
        "mgnni.models.ignn:IGNN",
        equation="Z = ReLU(S Z Wᵀ + S X Ωᵀ), ‖W‖_∞ ≤ κ / λ_pf(S), logits = V dropout(Z)",
        paper="Gu, Chang, Zhu, Sojoudi and El Ghaoui, Implicit Graph Neural Networks, NeurIPS 2020",
        differs="Gradients are exact on directed graphs too, where the authors' gradient of W "
        "lacks a transpose, and both passes are solved to a relative residual of 1e-6 "
        "with a certificate instead of to an absolute 3e-6 or 300 steps. W is "
        "projected in place in training as in their code, but an evaluation changes "
        "no parameter; λ_pf is a proven upper bound (one for a normalised graph, "
        "power iteration for raw weights), and their unused Ω₂ and bias are left out. "
        "Z of a node is scaled to length one (unit_rows) in their code for chains "
        "only.",
        tables=("heterophilic", "ppi", "graphs", "chains"),
    ),
    ModelEntry(
        "eignn",
        "Efficient infinite-depth graph neural network",
        "implicit",
        "mgnni.models.eignn:EIGNN",
        equation="Z = γ P Z g(F) + X, g(F) = FᵀF / (‖FᵀF‖ + ε), logits = Z B",
        paper="Liu, Kawaguchi, Hooi, Wang and Xiao, EIGNN: Efficient Infinite-Depth Graph "
        "Neural Networks, NeurIPS 2021",
        differs="Solved to a certified tolerance on any graph; the authors' closed form is "
        "wrong on directed graphs, where imaginary parts of eigenvectors are dropped "
        "and their transpose is taken for their inverse (variant='published' does the "
        "same, gradient included). Their option for fewer eigenvectors has no effect; "
        "ours keeps the features outside of their span.",
        tables=("heterophilic", "ppi", "graphs", "chains"),
        hidden_channels=None,
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
        "gind",
        "Graph implicit nonlinear diffusion",
        "implicit",
        "mgnni.models.gind:GIND",
        equation="Z = −Ĝᵀ tanh(Ĝ Z Kᵀ + G H Uᵀ) K, Ĝ = G D^-1/2, H = X Ω + b, logits = (D^-1/2 "
        "Z + H) Θ",
        paper="Chen, Wang, Wang, Yang and Lin, Optimization-Induced Graph Implicit "
        "Nonlinear Diffusion, ICML 2022",
        differs="Run to its equilibrium with exact gradients, where the authors take 1 to 64 "
        "damped steps and differentiate the last 1 to 5 (one step of three or four "
        "layers on Chameleon, Squirrel and PPI); the step is chosen so that it "
        "provably contracts. Left out: the normalisation of messages over all edges, "
        "with which no equilibrium is proven, several maps in one step, the two "
        "regularisers and separate learning rates. Degrees are in- plus out-degrees, "
        "which is the same on undirected graphs.",
        tables=(),
    ),
    ModelEntry(
        "mignn",
        "Monotone implicit graph neural network",
        "implicit",
        "mgnni.models.mignn:MIGNN",
        equation="Z = ReLU(P Z Wᵀ + P X Ωᵀ), W = κ s(μ) (I − C)(I + C)⁻¹ D with C = −Cᵀ, D = "
        "diag(±1); logits = Z Vᵀ",
        paper="Baker, Wang, Hauck and Wang, Implicit Graph Neural Networks: A Monotone "
        "Operator Viewpoint, ICML 2023",
        differs="Solved by Anderson's method to a certified tolerance, where the authors use "
        "operator splitting with a truncated series for an inverse, and keep states "
        "from one epoch to the next. Their code has the orthogonal weight alone; the "
        "monotone one (parametrization='monotone') follows the table in their README, "
        "with the normalised Laplacian for which its bound is a proof.",
        tables=(),
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
