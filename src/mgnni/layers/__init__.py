"""Layers: the equations of the models, convolutions, and what comes before and after them.

They act on a :class:`~mgnni.Propagation` or on plain tensors.
"""
