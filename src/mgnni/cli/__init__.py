"""The command line ``mgnni``. Commands call the library and contain no algorithms.

The modules of this package import nothing slow, so that ``mgnni --help`` responds immediately:
a command imports torch, matplotlib and others when it runs.
"""

from mgnni.cli.app import main as main
