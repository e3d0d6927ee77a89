"""Time to a measured error for every solver: ``mgnni bench solve``, by the name of its table.

python benchmarks/solve.py                 the table, stored in runs/bench
python benchmarks/solve.py --device cuda   as any option of ``mgnni bench``
"""

import sys

from mgnni.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "solve", *sys.argv[1:]]))
