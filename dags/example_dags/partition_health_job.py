"""The command line as spark-submit starts it: a file."""

import sys
from importlib.metadata import entry_points

(command,) = entry_points(group="console_scripts", name="partition-health")
sys.exit(command.load()())
