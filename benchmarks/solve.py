"""Time every solver at the same error: the same as ``mgnni bench solve``.

python benchmarks/solve.py                 the table, stored in runs/bench
python benchmarks/solve.py --device cuda   takes the options of ``mgnni bench``
"""

import sys

from mgnni.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "solve", *sys.argv[1:]]))
