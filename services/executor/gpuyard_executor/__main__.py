import sys

from gpuyard_executor.main import main

sys.exit(main())
