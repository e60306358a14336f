"""Golden bytes: every message as each release wrote it. They must decode for ever.

`python -m tests.unit.contracts.golden` writes those of the present version. A release's stay as they are.
"""

import tomllib
from pathlib import Path

from gpuyard.contracts.codec import encode
from tests.unit.contracts.examples import EXAMPLES

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "data" / "golden"


def present() -> Path:
    """Folder of the present version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return GOLDEN / str(project["version"])


def write() -> None:
    present().mkdir(parents=True, exist_ok=True)
    for message in EXAMPLES:
        (present() / f"{type(message).__name__}.msgpack").write_bytes(encode(message))


if __name__ == "__main__":
    write()
