"""The one place where pyarrow is imported; tables and predictions need it, nothing else does."""

from __future__ import annotations

from mgnni.errors import DataError

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.compute as pc  # type: ignore[import-untyped]
    import pyarrow.csv as csv  # type: ignore[import-untyped]
    import pyarrow.parquet as parquet  # type: ignore[import-untyped]
except ImportError as error:
    raise DataError(
        f"tables are read and written with pyarrow, which cannot be imported ({error}); "
        "install it with: pip install 'mgnni[files]'"
    ) from error

__all__ = ["csv", "pa", "parquet", "pc"]
