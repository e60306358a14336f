"""`python -m gpuyard_logger --config FILE`."""

import sys

from gpuyard_logger.main import main

sys.exit(main())
