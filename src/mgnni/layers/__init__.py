"""Layers: modules with one equation each, on a :class:`~mgnni.Propagation` or on plain tensors."""
