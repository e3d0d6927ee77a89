"""Catalog entries of implicit models, see :class:`~mgnni.models.catalog.ModelEntry`."""

from __future__ import annotations

from typing import Any

IMPLICIT: dict[str, dict[str, Any]] = {
    "mgnni": {
        "title": "Multiscale graph neural network with implicit layers",
        "kind": "implicit",
        "home": "mgnni.models.mgnni:MGNNI",
        "equation": "Z_m = γ P^m Z_m g(F_m) + f(X), Z = Σ_m α_m Z_m, g(F) = FᵀF / (‖FᵀF‖_F + "
        "ε), logits = head(Z)",
        "paper": "Liu et al., MGNNI: Multiscale Graph Neural Networks with Implicit Layers, "
        "NeurIPS 2022",
        "differs": "The equations are solved to a relative tolerance with a certificate, forward "
        "and backward; the authors stop at an absolute tolerance or after 300 steps. Training and "
        "evaluation use the same normalised adjacency matrix.",
        "tables": ("heterophilic", "ppi", "graphs", "chains"),
        "trained": (("head", "linear"),),
    },
    "gmgnni": {
        "title": "MGNNI, generalised: all directions of the states propagate, along and against "
        "the edges",
        "kind": "implicit",
        "home": "mgnni.models.mgnni:MGNNI",
        "equation": "Z_m = γ_m P^m Z_m g(F_m) + B, Z'_m = γ'_m (Pᵀ)^m Z'_m g(F'_m) + B, "
        "g(F) = FᵀF / ‖FᵀF‖₂, B = f(X) or f(X, A), logits = head([Z_m, Z'_m, B])",
        "paper": "ours; the equation of MGNNI with other choices for what it leaves open",
        "differs": "Not a model of the paper. The spectral norm replaces the Frobenius norm in "
        "g(F), the edges are used in both directions, and the states of all scales and the bias "
        "are concatenated instead of combined by attention. Every equation still has exactly one "
        "solution, with a certificate.",
        "defaults": (
            ("contraction", "spectral"),
            ("directions", "both"),
            ("fusion", "concat"),
            ("skip", True),
            ("batch_norm", True),
        ),
        "trained": (("head", "linear"),),
    },
    "ignn": {
        "title": "Implicit graph neural network",
        "kind": "implicit",
        "home": "mgnni.models.ignn:IGNN",
        "equation": "Z = ReLU(P Z Wᵀ + P X Ωᵀ), ‖W‖_∞ ≤ κ / λ_pf(P), logits = dropout(Z) Vᵀ",
        "paper": "Gu, Chang, Zhu, Sojoudi and El Ghaoui, Implicit Graph Neural Networks, "
        "NeurIPS 2020",
        "differs": "Gradients are exact on directed graphs, too; the authors' gradient of W lacks "
        "a transpose. Both passes are solved to a relative residual of 1e-6 with a certificate "
        "instead of to an absolute 3e-6 or 300 steps. W is projected in place in training, as in "
        "their code, but evaluation changes no parameter. The Perron-Frobenius eigenvalue λ_pf "
        "is replaced by a proven upper bound: one for a normalised graph, power iteration for raw "
        "weights. Their unused Ω₂ and bias are left out. "
        "The states of each node are normalised to unit length (unit_rows) in their code for "
        "chains, and in EIGNN's code, where the rows on heterophilic graphs come from.",
        "tables": ("heterophilic", "ppi", "graphs", "chains"),
    },
    "eignn": {
        "title": "Efficient infinite-depth graph neural network",
        "kind": "implicit",
        "home": "mgnni.models.eignn:EIGNN",
        "equation": "Z = γ P Z g(F) + X, g(F) = FᵀF / (‖FᵀF‖_F + ε), logits = Z V",
        "paper": "Liu, Kawaguchi, Hooi, Wang and Xiao, EIGNN: Efficient Infinite-Depth Graph "
        "Neural Networks, NeurIPS 2021",
        "differs": "The equation is solved to a certified tolerance on any graph. The authors' "
        "closed form is wrong on directed graphs: imaginary parts of eigenvectors are dropped, and "
        "the transpose is used as the inverse (variant='published' does the same, including the "
        "gradient). Their option for fewer eigenvectors has no effect. Ours, variant='truncated', "
        "uses the eigenvalues of largest magnitude as the operator, and keeps the part of the "
        "features outside of the span of their eigenvectors unchanged. The batch normalisation and "
        "dropout before the decoder (batch_norm, dropout), used in the presets for Wikipedia, are "
        "those of IDM_SGC_Linear_norm in MGNNI's repository; EIGNN's has the decoder alone.",
        "tables": ("heterophilic", "ppi", "graphs", "chains"),
        "hidden_channels": None,
    },
    "cgs": {
        "title": "Convergent graph solver",
        "kind": "implicit",
        "home": "mgnni.models.cgs:CGS",
        "equation": "z_u = γ Σ_{u→v} a_uv ⊙ z_v + b_u, a_uv = clip(ℓ_uv, 0, 1) / outdeg(u); ℓ, b "
        "from an attention graph network, logits = MLP(z)",
        "paper": "Park, Choo and Park, Convergent Graph Solvers, ICLR 2022",
        "differs": "The authors stop after 50 steps and return the iterate before the last. Ours "
        "is solved to a relative residual of 1e-6 in every graph, with a certificate, on edges "
        "instead of dense matrices over all pairs of nodes. The weights of "
        "repeated edges are added; an edge of weight 0 still counts. The only edge feature is the "
        "weight minus one, which is zero for single edges without weights, as in their benchmark.",
        "tables": ("heterophilic", "graphs", "chains"),
    },
    "sse": {
        "title": "Stochastic steady-state embedding",
        "kind": "implicit",
        "home": "mgnni.models.sse:SSE",
        "equation": "h_v = W₂ ReLU(W₁ [x_v ; Σ_{u→v} [x_v ; h_u]]), logits = MLP(h); W₁'s block "
        "of h scaled so that the map contracts by κ",
        "paper": "Dai, Kozareva, Dai, Smola and Song, Learning Steady-States of Iterative "
        "Algorithms over Graphs, ICML 2018",
        "differs": "By default the equation is solved with exact gradients, and W₁'s block of h is "
        "scaled down where the map would not contract by κ. variant='published' is the operator in "
        "the code of CGS: 20 damped steps, without its early stopping, and the gradient of one "
        "more step. Dai et al. send the features of the neighbour (message='sender'); the code of "
        "CGS sends those of the receiver, our default. They also sample nodes, and keep and "
        "normalise states between training steps. Their code for PPI also feeds a node its own "
        "state.",
        "tables": ("ppi",),
    },
    "gind": {
        "title": "Graph implicit nonlinear diffusion",
        "kind": "implicit",
        "home": "mgnni.models.gind:GIND",
        "equation": "Z = −Ĝᵀ tanh(Ĝ Z Kᵀ + G H Uᵀ) K, Ĝ = G D^-1/2, H = X Ω + b, logits = (D^-1/2 "
        "Z + H) Θ; G: incidence matrix, one row per edge: 1 at the target, −1 at the source",
        "paper": "Chen, Wang, Wang, Yang and Lin, Optimization-Induced Graph Implicit Nonlinear "
        "Diffusion, ICML 2022",
        "differs": "The equilibrium is solved with exact gradients. The authors take 1 to 64 "
        "damped steps and differentiate the last 1 to 5 (one step of three or four layers on "
        "Chameleon, Squirrel and PPI). Our step size provably contracts. Left out: the "
        "normalisation of messages over all edges, for which no equilibrium is proven, several "
        "maps in one step, the two regularisers, and separate learning rates; theirs hardly "
        "change the implicit weights on some graphs. Their hyperparameters come from a search for "
        "their damped steps and were not searched again for the equilibrium. Degrees are "
        "in-degrees plus out-degrees, which makes no difference on undirected graphs.",
    },
    "mignn": {
        "title": "Monotone implicit graph neural network",
        "kind": "implicit",
        "home": "mgnni.models.mignn:MIGNN",
        "equation": "Z = ReLU(P Z Wᵀ + P X Ωᵀ), W = κ s(μ) (I − C)(I + C)⁻¹ D with C = −Cᵀ, D = "
        "diag(±1), s: logistic function; logits = Z Vᵀ",
        "paper": "Baker, Wang, Hauck and Wang, Implicit Graph Neural Networks: A Monotone Operator "
        "Viewpoint, ICML 2023",
        "differs": "Solved by Anderson acceleration to a certified tolerance. The authors use "
        "operator splitting with a truncated series for an inverse and keep states between epochs. "
        "encoder=True is their network for graph classification. "
        "Their code has the orthogonal weight only; the monotone one "
        "(parametrization='monotone') follows the table in their README, with the normalised "
        "Laplacian, for which its bound is proven.",
    },
    "fdgnn": {
        "title": "Fast and deep graph neural network (untrained reservoir)",
        "kind": "implicit",
        "home": "mgnni.models.fdgnn:FDGNN",
        "equation": "z_v = tanh(W_in x_v + (1/k) Σ_{u→v} W z_u), ‖W‖₂ = ρ < 1, untrained, k: "
        "largest degree; logits = V tanh(Φ Σ_v z_v) + b",
        "paper": "Gallicchio and Micheli, Fast and Deep Graph Neural Networks, AAAI 2020",
        "differs": "The linear readout is trained by gradient descent like all models here, not by "
        "ridge regression. Weights are scaled by the spectral norm, not the radius, which proves "
        "the contraction, and the states are solved for to a certified error. On directed graphs k "
        "is the square root of the largest in-degree times the largest out-degree.",
        "tables": ("graphs",),
    },
}
