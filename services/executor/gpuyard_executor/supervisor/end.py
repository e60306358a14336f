"""The last line of a rank's record."""

import json
import os
import time
from typing import Any

from gpuyard_executor.supervisor.files import write_all

NO_ROOM_MS = 200


def write_end(record: int, end: dict[str, Any]) -> None:
    """Put the end on disk, however long that has no room. The line begins anew: a try may be torn."""
    line = b"\n" + json.dumps(end).encode() + b"\n"
    while True:
        try:
            write_all(record, line)
            os.fsync(record)
        except OSError:
            time.sleep(NO_ROOM_MS / 1000)
        else:
            return
