"""`python -m gpuyard` is `gpuyard`."""

import sys

from gpuyard.cli.main import main

sys.exit(main())
