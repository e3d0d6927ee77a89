"""``python -m mgnni``: the same as the command ``mgnni``."""

from mgnni.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
