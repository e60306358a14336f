"""Numbers in tables as YOLO prints them: names in a heading, values in the rows below."""

import re

from gpuyard.contracts.series import EPOCH, Number

Columns = tuple[str, ...]
"""What stands below `Epoch`, from left to right."""

_HEADING = re.compile(rb"\s*Epoch\s+(gpu_mem\s+[\w \t/.@()-]+?)\s*$", re.IGNORECASE)
_ROW = re.compile(rb"\s*(\d+)/(\d+)((?:\s+\d+(?:\.\d*)?(?:e[+-]\d+)?[GM]?){2,}):?(?=\s|$)", re.IGNORECASE)
_NO_MEASUREMENTS = frozenset({"instances", "size", "targets", "labels", "img_size"})


def columns_of(line: bytes) -> Columns:
    """The names in a heading; none if the line is no heading."""
    heading = _HEADING.match(line)
    return tuple(heading[1].decode().lower().split()) if heading else ()


def parse_row(line: bytes, columns: Columns) -> list[Number]:
    """The numbers in a row of the table; none if the line is no row."""
    row = _ROW.match(line)
    if row is None:
        return []
    values = row[3].decode().rstrip(":").split()
    cells = zip(columns, values, strict=False)
    return [
        Number(EPOCH, float(row[1]), float(row[2])),
        *(Number(name, float(value.rstrip("GMgm"))) for name, value in cells if name not in _NO_MEASUREMENTS),
    ]
