"""Datasets: graphs with features, labels and splits; they know no model."""
