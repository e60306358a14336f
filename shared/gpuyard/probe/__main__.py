"""Entry point inside the rank: `python -m probe --device cuda`."""

import argparse
import os
import sys

from . import report

UNFIT = 3


def main() -> int:
    """Measure; the exit code is 3 where that is impossible."""
    parser = argparse.ArgumentParser(prog="probe", description="Measure the links between this rank's GPUs.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    try:
        _measure(options.device, is_quick=options.quick)
    except report.Unfit as reason:
        report.tell("unfit", message=reason.message, hint=reason.hint)
        return UNFIT
    return 0


def _measure(kind: str, *, is_quick: bool) -> None:
    try:
        import torch  # noqa: F401, PLC0415 - whether it can be had is the question
    except (ImportError, OSError) as error:  # OSError: a library that it needs is missing
        raise report.Unfit(
            f"torch can't be imported by {sys.executable}: {error}",
            "Install it where the job runs: `pip install torch`.",
        ) from error
    from . import measurement  # noqa: PLC0415 - it imports torch

    gpus = [gpu for gpu in os.environ.get("GPUYARD_GPUS", "").split(",") if gpu]
    measurement.measure(kind, gpus, is_quick=is_quick)


if __name__ == "__main__":
    sys.exit(main())
