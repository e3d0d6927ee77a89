"""Datasets: graphs with features, labels and splits, and how models are evaluated on them."""
