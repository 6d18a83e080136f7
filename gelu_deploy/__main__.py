"""``python -m gelu_deploy`` is ``gelu-deploy``; it knows only the command line."""

from gelu_deploy.cli import run

run()
