"""Catalog entries of explicit models, see :class:`~mgnni.models.catalog.ModelEntry`."""

from __future__ import annotations

from typing import Any

EXPLICIT: dict[str, dict[str, Any]] = {
    "gcn": {
        "title": "Graph convolutional network",
        "kind": "explicit",
        "home": "mgnni.models.gcn:GCN",
        "equation": "H' = ReLU(P H W + b), P = D^-1/2 (A + I) D^-1/2 on undirected graphs",
        "paper": "Kipf and Welling, Semi-Supervised Classification with Graph Convolutional "
        "Networks, ICLR 2017",
        "differs": "Weight decay applies to all layers, the authors' to the first only. Directed "
        "graphs are normalised by out-degrees and in-degrees; PyG uses in-degrees for both. For "
        "graph classification the preset is the network that GIN's paper calls GCN: the mean over "
        "neighbours, and a readout of every layer (jumping).",
        "tables": ("heterophilic", "ppi", "graphs", "chains"),
    },
    "sgc": {
        "title": "Simple graph convolution",
        "kind": "explicit",
        "home": "mgnni.models.sgc:SGC",
        "equation": "P^K X W + b",
        "paper": "Wu et al., Simplifying Graph Convolutional Networks, ICML 2019",
        "differs": "The linear map is applied before the propagation, which gives the same "
        "product, and P^K X is not stored. Weights have Glorot initialisation.",
        "tables": ("heterophilic", "chains"),
    },
    "gat": {
        "title": "Graph attention network",
        "kind": "explicit",
        "home": "mgnni.models.gat:GAT",
        "equation": "hᵥ' = ELU(concatₖ Σᵤ αᵏᵥᵤ Wₖ hᵤ), αᵏᵥᵤ = softmaxᵤ LeakyReLU(aₖᵀ Wₖ hᵤ + bₖᵀ "
        "Wₖ hᵥ), u ∈ N(v) ∪ {v}",
        "paper": "Velickovic et al., Graph Attention Networks, ICLR 2018",
        "differs": "The authors' code also applies dropout to W h after the linear map; their text "
        "and ours do not. Edge weights are ignored. The residual connection of the middle layer "
        "for PPI is one linear map for all heads.",
        "tables": ("heterophilic", "ppi", "chains"),
    },
    "appnp": {
        "title": "Personalized propagation of neural predictions",
        "kind": "explicit",
        "home": "mgnni.models.appnp:APPNP",
        "equation": "H₀ = MLP(X), H' = (1 − α) P H + α H₀, K times",
        "paper": "Gasteiger et al., Predict then Propagate: Graph Neural Networks meet "
        "Personalized PageRank, ICLR 2019",
        "differs": "There is no dropout of edges in the propagation. Weight decay applies to all "
        "layers, the authors' to the first only.",
        "tables": ("heterophilic", "chains"),
    },
    "jknet": {
        "title": "Jumping knowledge network",
        "kind": "explicit",
        "home": "mgnni.models.jknet:JKNet",
        "equation": "H_l = ReLU(P H_{l-1} W_l + b_l), JK(H₁, …, H_L) V + c with JK = cat, max or "
        "LSTM attention",
        "paper": "Xu et al., Representation Learning on Graphs with Jumping Knowledge Networks, "
        "ICML 2018",
        "differs": "The layers are GCN layers on all datasets; for PPI the authors use attention "
        "layers, with which they report 97.6. Dropout acts on the outputs of the layers, as in the "
        "code of EIGNN's comparison; there a layer and the last map see the same mask, here each "
        "its own.",
        "tables": ("heterophilic", "ppi", "chains"),
    },
    "gcnii": {
        "title": "GCN with initial residual and identity mapping",
        "kind": "explicit",
        "home": "mgnni.models.gcnii:GCNII",
        "equation": "H_l = ReLU(((1 − α) P H_{l-1} + α H₀)((1 − β_l) I + β_l W_l)), β_l = log(θ/l "
        "+ 1)",
        "paper": "Chen et al., Simple and Deep Graph Convolutional Networks, ICML 2020",
        "differs": "Weights have Glorot initialisation (PyG's layer). The additional residual "
        "connection in the authors' script for PPI is left out. The published rows on heterophilic "
        "graphs are those of EIGNN's code, which follows the edges and normalises by in-degrees; "
        "the presets are those of GCNII's own code, which follows them backwards and normalises by "
        "out-degrees.",
        "tables": ("heterophilic", "chains"),
    },
    "h2gcn": {
        "title": "Heterophily graph convolutional network",
        "kind": "explicit",
        "home": "mgnni.models.h2gcn:H2GCN",
        "equation": "H₀ = ReLU(X Wₑ), Hₖ = [P₁ Hₖ₋₁, P₂ Hₖ₋₁], logits = [H₀, …, H_K] W_c; P₁, P₂: "
        "normalised adjacency matrices of nodes at distance exactly one and two",
        "paper": "Zhu et al., Beyond Homophily in Graph Neural Networks: Current Limitations and "
        "Effective Designs, NeurIPS 2020",
        "differs": "The authors make every graph undirected; ours follows the edges unless "
        "undirected is set, as in its presets. Their L2 penalty is added to the loss without a "
        "factor of one half, so it is twice as large as the same weight decay in Adam.",
        "tables": ("heterophilic",),
    },
    "geom-gcn": {
        "title": "Geometric graph convolutional network",
        "kind": "explicit",
        "home": "mgnni.models.geom_gcn:GeomGCN",
        "equation": "hᵥ' = ReLU(concatᵣ Σᵤ∈Nᵣ(v) Wᵣ hᵤ / √(dᵥ dᵤ)); nine relations r: neighbours "
        "in the graph and nearby nodes in an embedding in the plane, by quadrant, and v itself",
        "paper": "Pei et al., Geom-GCN: Geometric Graph Convolutional Networks, ICLR 2020",
        "differs": "The embedding is classical multidimensional scaling of hop distances "
        "(Geom-GCN-I), computed here; the authors ship Isomap, Poincaré and struc2vec embeddings "
        "and report all three, and the MGNNI paper prints the numbers of Poincaré. A pair of nodes "
        "that is close both in the graph and in the plane belongs to both relations; their code "
        "keeps the plane only. Their learning rate schedule on plateaus is left out.",
        "tables": ("heterophilic",),
    },
    "graphsage": {
        "title": "GraphSAGE",
        "kind": "explicit",
        "home": "mgnni.models.graphsage:GraphSAGE",
        "equation": "h'_v = ReLU(W₁ h_v + W₂ mean_{u→v} h_u + b)",
        "paper": "Hamilton et al., Inductive Representation Learning on Large Graphs, NeurIPS 2017",
        "differs": "All neighbours are used, without sampling. The two linear maps are added, not "
        "concatenated. States are not normalised to unit length.",
        "tables": ("ppi",),
    },
    "mixhop": {
        "title": "MixHop",
        "kind": "explicit",
        "home": "mgnni.models.mixhop:MixHop",
        "equation": "H' = ReLU(concat_j P^j H W_j + b), j in powers",
        "paper": "Abu-El-Haija et al., MixHop: Higher-Order Graph Convolutional Architectures via "
        "Sparsified Neighborhood Mixing, ICML 2019",
        "differs": "All powers have the same number of channels, which the authors learn. The "
        "output layer is linear instead of a sum over groups of channels. The optimiser is Adam "
        "instead of gradient descent.",
    },
    "ngcn": {
        "title": "Network of GCNs",
        "kind": "explicit",
        "home": "mgnni.models.ngcn:NGCN",
        "equation": "G_k = P^k ReLU(P^k X W_k) V_k; ReLU(concat_k G_k) U or Σ_k softmax(m)_k G_k",
        "paper": "Abu-El-Haija et al., N-GCN: Multi-scale Graph Convolution for Semi-supervised "
        "Node Classification, UAI 2019",
        "differs": "Trained end to end; the authors' code gives every GCN a loss of its own and "
        "stops the gradient before the fusion. Attention applies to logits, not to probabilities.",
    },
    "gin": {
        "title": "Graph isomorphism network",
        "kind": "explicit",
        "home": "mgnni.models.gin:GIN",
        "equation": "h'_v = MLP((1 + ε) h_v + Σ_{u→v} h_u), logits = Σ_layers (Σ_v h_v) W + b",
        "paper": "Xu et al., How Powerful are Graph Neural Networks?, ICLR 2019",
        "differs": "The sum is weighted by edge weights, which the authors do not have.",
        "tables": ("graphs",),
    },
    "dgcnn": {
        "title": "Deep graph convolutional network with sort pooling",
        "kind": "explicit",
        "home": "mgnni.models.dgcnn:DGCNN",
        "equation": "Z' = tanh(D^-1 ((A + I) Z W + b)), nodes sorted by the last channel, the "
        "first k read by 1-D convolutions",
        "paper": "Zhang et al., An End-to-End Deep Learning Architecture for Graph "
        "Classification, AAAI 2018",
        "differs": "k is an option and not derived from the data. MUTAG and PTC are trained on one "
        "graph at a time, as by the authors; on larger sets graphs are batched, with a larger "
        "learning rate. A degree that is used as feature is not divided by the number of "
        "nodes. Ties in the last channel are broken by the sort, as in the authors' code but not "
        "in the text.",
        "tables": ("graphs",),
    },
    "mlp": {
        "title": "MLP on the features alone",
        "kind": "baseline",
        "home": "mgnni.models.mlp:MLP",
        "equation": "H' = ReLU(H W + b)",
        "paper": "no graph; a baseline in Zhu et al., Beyond Homophily in Graph Neural Networks, "
        "NeurIPS 2020",
        "differs": "no known differences",
    },
    "linear": {
        "title": "Logistic regression on the features alone",
        "kind": "baseline",
        "home": "mgnni.models.linear:Linear",
        "equation": "X W + b",
        "paper": "no graph",
        "differs": "no known differences",
    },
}
