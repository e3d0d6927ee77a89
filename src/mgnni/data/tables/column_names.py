"""Default names of columns, compared without regard to case; the first one that exists is used."""

ID_NAMES = ("id", "node", "node_id", "name")
GRAPH_NAMES = ("graph", "graph_id")
LABEL_NAMES = ("label", "y", "class", "target")
SOURCE_NAMES = ("source", "src", "from", "u")
TARGET_NAMES = ("target", "dst", "to", "v")
WEIGHT_NAMES = ("weight", "w", "edge_weight")
MASK_NAMES = ("train_mask", "val_mask", "test_mask")
