"""``python -m gelu_deploy`` is ``gelu-deploy``; it knows only the command line."""

import sys

from gelu_deploy.cli import main

sys.exit(main())
