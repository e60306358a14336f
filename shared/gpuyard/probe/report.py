"""What the program says: one marked line of JSON for each finding, among whatever else is printed."""

import json

MARK = "gpuyard-probe "


class Unfit(Exception):
    """Nothing can be measured here."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def rounded(gb_s: float) -> float:
    """A figure without the digits that nobody measured; never 0 unless it is."""
    return float(f"{gb_s:.4g}")


def tell(kind: str, **facts: object) -> None:
    """Print one finding."""
    print(f"{MARK}{json.dumps({'type': kind, **facts})}", flush=True)
