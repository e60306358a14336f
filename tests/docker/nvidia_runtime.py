"""A stand-in for NVIDIA's OCI runtime: gives containers device files for the GPUs they were promised.

Like the real one it believes the variable NVIDIA_VISIBLE_DEVICES in the container's description. Every GPU is
a device file `/dev/nvidia-UUID`, really the null device. What it was asked for it writes down.
"""

import json
import os
import sys
from pathlib import Path

_NULL_DEVICE = (1, 3)
MISSING = "GPU-missing"
"""A UUID that this runtime does not know, as when a GPU fell off the bus."""


def install(path: Path, log: Path) -> None:
    """Make it a program that an engine can use as a runtime."""
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        f"from tests.docker.nvidia_runtime import main\nmain({str(log)!r})\n"
    )
    path.chmod(0o755)


def main(log: str) -> None:
    arguments = sys.argv[1:]
    if "create" in arguments:
        bundle, words = (Path(arguments[arguments.index(name) + 1]) for name in ("--bundle", "--log"))
        try:
            _inject(bundle / "config.json", Path(log))
        except LookupError as error:
            words.write_text(json.dumps({"level": "error", "msg": str(error)}))
            sys.exit(1)
    os.execvp("runc", ["runc", *arguments])


def _inject(path: Path, log: Path) -> None:
    config = json.loads(path.read_text())
    variables = dict(variable.partition("=")[::2] for variable in config["process"]["env"])
    wanted = variables.get("NVIDIA_VISIBLE_DEVICES", "")
    with log.open("a") as file:
        file.write(f"{config.get('hostname')} {wanted}\n")
    gpus = [gpu for gpu in wanted.split(",") if gpu not in ("", "void", "none")]
    if MISSING in gpus:
        raise LookupError(f"nvidia-container-cli: device error: {MISSING}: unknown device")
    linux = config["linux"]
    for gpu in gpus:
        device = {
            "path": f"/dev/nvidia-{gpu}",
            "type": "c",
            "major": _NULL_DEVICE[0],
            "minor": _NULL_DEVICE[1],
        }
        linux.setdefault("devices", []).append(device | {"fileMode": 0o666, "uid": 0, "gid": 0})
    path.write_text(json.dumps(config))
