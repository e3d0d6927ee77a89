"""The operators of exported models: ``import mgnni.serve`` before :func:`torch.export.load`.

It imports torch and the solvers, but no models, no training, no data and no PyTorch Geometric.
"""

import mgnni.graph.custom_ops
import mgnni.implicit.custom_ops
import mgnni.implicit.normalized_gram  # noqa: F401 (they register the ops)
