"""Models: implicit and explicit graph neural networks, and the catalog of their names."""
