"""Graphs of your own, from files or PyG objects, and predictions written to files.

The entry point is :func:`mgnni.data.tables.read.read_graphs`. Only tables need pyarrow.
"""
