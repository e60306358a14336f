import sys

from gpuyard_monitor.main import main

sys.exit(main())
