"""Time and memory on large graphs, estimated for one device, several, and stored terms."""
