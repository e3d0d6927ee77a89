"""A person's own graph, from files or from PyG objects: read, described, and predictions written.

Start at :func:`mgnni.data.tables.read.read_graphs`. Only tables need pyarrow.
"""
