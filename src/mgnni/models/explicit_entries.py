"""Models made of layers, and floors that make no use of the graph."""

from __future__ import annotations

from mgnni.models.entry import ModelEntry

EXPLICIT = (
    ModelEntry(
        "gcn",
        "Graph convolutional network",
        "explicit",
        "mgnni.models.gcn:GCN",
        equation="H' = ReLU(S H W + b), S = D^-1/2 (A + I) D^-1/2",
        paper="Kipf and Welling, Semi-Supervised Classification with Graph Convolutional "
        "Networks, ICLR 2017",
        differs="Weight decay is on all layers, the authors' on the first alone. Directed "
        "graphs are normalised by out- and in-degrees, where PyG takes in-degrees "
        "twice.",
        tables=("heterophilic", "ppi", "graphs", "chains"),
    ),
    ModelEntry(
        "sgc",
        "Simple graph convolution",
        "explicit",
        "mgnni.models.sgc:SGC",
        equation="S^K X W + b",
        paper="Wu et al., Simplifying Graph Convolutional Networks, ICML 2019",
        differs="The linear map is applied before the hops, which is the same product, and "
        "S^K X is not stored; weights start from Glorot's distribution.",
        tables=("heterophilic", "chains"),
    ),
    ModelEntry(
        "gat",
        "Graph attention network",
        "explicit",
        "mgnni.models.gat:GAT",
        equation="hᵥ' = ELU(‖ₖ Σᵤ αᵏᵥᵤ Wₖ hᵤ), αᵏᵥᵤ = softmaxᵤ LeakyReLU(aₖᵀ Wₖ hᵤ + bₖᵀ Wₖ "
        "hᵥ), u ∈ N(v) ∪ {v}",
        paper="Velickovic et al., Graph Attention Networks, ICLR 2018",
        differs="The authors' code also drops entries of W h after the linear map; their text "
        "and ours do not. Edge weights are not used; the skip over the middle layer "
        "of PPI is a linear map of all heads at once.",
        tables=("heterophilic", "ppi", "chains"),
    ),
    ModelEntry(
        "appnp",
        "Personalised PageRank of predictions",
        "explicit",
        "mgnni.models.appnp:APPNP",
        equation="H₀ = MLP(X), H' = (1 − α) S H + α H₀, K times",
        paper="Gasteiger et al., Predict then Propagate: Graph Neural Networks meet "
        "Personalized PageRank, ICLR 2019",
        differs="No dropout of edges in the steps; weight decay is on all layers, the "
        "authors' on the first alone.",
        tables=("heterophilic", "chains"),
    ),
    ModelEntry(
        "jknet",
        "Jumping knowledge network",
        "explicit",
        "mgnni.models.jknet:JKNet",
        equation="H_l = ReLU(S H_{l-1} W_l + b_l), JK(H₁, …, H_L) V + c with JK = cat, max or "
        "LSTM attention",
        paper="Xu et al., Representation Learning on Graphs with Jumping Knowledge "
        "Networks, ICML 2018",
        differs="The layers are those of GCN everywhere; for PPI the authors jump over "
        "attention layers, which the published 97.6 belongs to.",
        tables=("heterophilic", "ppi", "chains"),
    ),
    ModelEntry(
        "gcnii",
        "GCN with initial residual and identity mapping",
        "explicit",
        "mgnni.models.gcnii:GCNII",
        equation="H_l = ReLU(((1 − α) S H_{l-1} + α H₀)((1 − β_l) I + β_l W_l)), β_l = log(θ/l "
        "+ 1)",
        paper="Chen et al., Simple and Deep Graph Convolutional Networks, ICML 2020",
        differs="Weights start from Glorot's distribution (PyG's layer). The residual sum of "
        "the authors' PPI script is left out.",
        tables=("heterophilic", "chains"),
    ),
    ModelEntry(
        "h2gcn",
        "Heterophily graph convolutional network",
        "explicit",
        "mgnni.models.h2gcn:H2GCN",
        equation="H₀ = ReLU(X Wₑ), Hₖ = [S₁ Hₖ₋₁, S₂ Hₖ₋₁], logits = [H₀, …, H_K] W_c; S₁, S₂: "
        "strict one- and two-hop neighbours, D^-1/2 A D^-1/2",
        paper="Zhu et al., Beyond Homophily in Graph Neural Networks: Current Limitations "
        "and Effective Designs, NeurIPS 2020",
        differs="The authors read every graph as undirected; ours goes along edges unless "
        "undirected is set, as its presets do. Their L2 term is added to the loss "
        "without a half, and is twice as large as a weight decay in Adam.",
        tables=("heterophilic",),
    ),
    ModelEntry(
        "geom-gcn",
        "Geometric graph convolutional network",
        "explicit",
        "mgnni.models.geom_gcn:GeomGCN",
        equation="hᵥ' = ReLU(‖ᵣ Σᵤ∈Nᵣ(v) Wᵣ hᵤ / √(dᵥ dᵤ)), r: in the graph or near in a plane "
        "× quadrant, and v itself",
        paper="Pei et al., Geom-GCN: Geometric Graph Convolutional Networks, ICLR 2020",
        differs="The plane is classical scaling of the distances in hops (Geom-GCN-I), "
        "computed here; the authors ship files of Isomap, Poincaré and struc2vec "
        "embeddings and report all three. A pair that is near in both counts in both; "
        "their code moves it to the plane. Their step-wise decay of the learning rate "
        "on plateaus is left out.",
        tables=("heterophilic",),
    ),
    ModelEntry(
        "graphsage",
        "GraphSAGE",
        "explicit",
        "mgnni.models.graphsage:GraphSAGE",
        equation="h'_v = ReLU(W₁ h_v + W₂ mean_{u→v} h_u + b)",
        paper="Hamilton et al., Inductive Representation Learning on Large Graphs, NeurIPS 2017",
        differs="All neighbours are used, none sampled; the two maps are added, not put side "
        "by side; states are not scaled to length one.",
        tables=("ppi",),
    ),
    ModelEntry(
        "mixhop",
        "MixHop",
        "explicit",
        "mgnni.models.mixhop:MixHop",
        equation="H' = ReLU(‖_j S^j H W_j + b), j in powers",
        paper="Abu-El-Haija et al., MixHop: Higher-Order Graph Convolutional Architectures "
        "via Sparsified Neighborhood Mixing, ICML 2019",
        differs="All powers are equally wide, where the authors learn widths; a linear map at "
        "the end in place of a sum over groups of channels; Adam in place of gradient "
        "descent.",
        tables=(),
    ),
    ModelEntry(
        "ngcn",
        "Network of GCNs",
        "explicit",
        "mgnni.models.ngcn:NGCN",
        equation="G_k = S^k ReLU(S^k X W_k) V_k; ReLU(‖_k G_k) U or Σ_k softmax(m)_k G_k",
        paper="Abu-El-Haija et al., N-GCN: Multi-scale Graph Convolution for "
        "Semi-supervised Node Classification, UAI 2019",
        differs="Learnt as a whole, where the authors' code gives every GCN a loss of its own "
        "and stops the gradient before the fusion; attention is over logits, not "
        "probabilities.",
        tables=(),
    ),
    ModelEntry(
        "gin",
        "Graph isomorphism network",
        "explicit",
        "mgnni.models.gin:GIN",
        equation="h'_v = MLP((1 + ε) h_v + Σ_{u→v} h_u), logits = Σ_layers (Σ_v h_v) W + b",
        paper="Xu et al., How Powerful are Graph Neural Networks?, ICLR 2019",
        differs="An epoch is a pass over the graphs, the authors' fifty batches drawn at "
        "random; the learning rate does not halve every 50 epochs. Edge weights, "
        "which the authors have none of, weigh the sum.",
        tables=("graphs",),
    ),
    ModelEntry(
        "dgcnn",
        "Deep graph convolutional network with sort pooling",
        "explicit",
        "mgnni.models.dgcnn:DGCNN",
        equation="Z' = tanh(D^-1 (A + I) Z W), nodes sorted by the last channel, the first k "
        "read by 1-D convolutions",
        paper="Zhang et al., An End-to-End Deep Learning Architecture for Graph "
        "Classification, AAAI 2018",
        differs="k is an option and not found in the data. Graphs come in batches, the "
        "paper's one at a time, and the degree is not divided by the number of nodes "
        "where it is the feature. Ties in the last channel stay as the sort leaves "
        "them, as in the authors' code but not in the text.",
        tables=("graphs",),
    ),
    ModelEntry(
        "mlp",
        "Perceptron on the features alone",
        "floor",
        "mgnni.models.mlp:MLP",
        equation="H' = ReLU(H W + b)",
        paper="no graph; a floor in Zhu et al., Beyond Homophily in Graph Neural Networks, "
        "NeurIPS 2020",
        differs="nothing known",
        tables=(),
    ),
    ModelEntry(
        "linear",
        "Logistic regression on the features alone",
        "floor",
        "mgnni.models.linear:Linear",
        equation="X W + b",
        paper="no graph",
        differs="nothing known",
        tables=(),
    ),
)
