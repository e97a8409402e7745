"""Makes `python -m ddp_lab` the command line."""

import sys

from ddp_lab.cli import main

sys.exit(main())
