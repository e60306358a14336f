import sys

from gpuyard_scheduler.main import main

sys.exit(main())
