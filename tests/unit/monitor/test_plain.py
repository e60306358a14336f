import pytest

from gpuyard.topology.capture import parse_capture
from gpuyard_monitor.core.plain import plain
from gpuyard_monitor.core.simulated import simulate

MATRIX = """\
\tGPU0\tGPU1\tNIC0
GPU0\t X \tPIX\tPIX
GPU1\tPIX\t X \tPIX
NIC0\tPIX\tPIX\t X

NIC Legend:

  NIC0: mlx\u202e5_0
"""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("python3", "python3"),
        ("Prüfer 训练", "Prüfer 训练"),
        ("\x1b[2Jinit", "?[2Jinit"),
        ("a\x9b31mb", "a?31mb"),
        ("two\nlines\tand more", "two lines and more"),
        ("\u202eevil\u202c", "?evil?"),
        ("in\u200bvisible\ufeff", "in?visible?"),
        ("\u2066x\u2069\u2028y", "?x? y"),
        ("\ud800", "?"),
        ("", ""),
    ],
)
def test_what_a_terminal_would_obey_or_hide_is_replaced(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_text_of_a_capture_is_cleaned() -> None:
    capture = parse_capture("box", f"# model: GPU \x1b[31mred\n# rack \u202e4\n{MATRIX}")
    hardware = simulate(capture, "n1", 0.0).hardware
    assert hardware.found
    told = [
        hardware.source,
        *(gpu.model for gpu in hardware.found.gpus),
        *(n.name for n in hardware.found.nics),
    ]
    assert all(text.isprintable() for text in told), told
