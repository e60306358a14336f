"""What the driver's error numbers (Xids) mean for a GPU.

Source: NVIDIA, "Xid Errors", the catalogue and its recommended actions. A number that stands in neither table
is told as an event and changes nothing: taking GPUs away on a guess costs more than one failed job.
"""

HARDWARE = {
    48: "memory error that could not be corrected",
    54: "auxiliary power is not connected",
    62: "its micro-controller halted",
    63: "a memory row or page is to be replaced at the next reset",
    64: "a memory row or page could not be replaced",
    74: "NVLink error",
    79: "fell off the bus",
    92: "too many memory errors that had to be corrected",
    94: "memory error that could not be corrected, contained",
    95: "memory error that could not be corrected, not contained",
    110: "security fault",
    119: "its system processor does not answer",
    120: "its system processor failed",
    121: "chip-to-chip link error",
    140: "memory error that the driver could not recover from",
    143: "the driver could not start it",
    145: "NVLink error: remote link",
    149: "NVLink error: network link",
}
"""Faults of the GPU: it goes out of service."""

PROGRAM = {
    13: "a program did something illegal",
    31: "a program touched memory that is not its own",
    43: "a program's work was stopped",
    45: "a program ended while it was computing",
    68: "a program's video decoding failed",
    69: "a program did something illegal",
    109: "a program's work did not stop in time",
    137: "a program touched a peer's memory that is not its own",
}
"""Caused by programs: the GPU is fine."""


def meaning(number: int) -> str:
    """One phrase for people."""
    return HARDWARE.get(number) or PROGRAM.get(number) or "of no consequence here"
