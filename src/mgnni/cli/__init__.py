"""The command line ``mgnni``. Commands put the library's parts together and hold little logic.

What starts with every command imports nothing slow, so that ``mgnni --help`` answers at once:
torch, matplotlib and the like are imported by a command when it runs.
"""

from mgnni.cli.app import main as main
