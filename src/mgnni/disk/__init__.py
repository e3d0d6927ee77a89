"""Graphs and sweeps in memory-mapped files, for graphs that do not fit into memory."""
