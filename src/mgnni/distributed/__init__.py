"""One graph, or one training, over several processes."""
