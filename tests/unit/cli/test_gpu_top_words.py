import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.cli import gpu_top_words as words
from gpuyard.cli.gpu_top_words import ASCII, BLOCKS, Glyphs
from tests.unit.cli.gpus import GIB


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100"),
        ("Tesla V100-SXM2-32GB", "V100"),
        ("Tesla V100-SXM3-32GB", "V100"),
        ("Tesla P100-SXM2-16GB", "P100"),
        ("Tesla K80", "K80"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GB10", "GB10"),
        ("NVIDIA TITAN V", "TITAN V"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000"),
        ("NVIDIA", "NVIDIA"),
        ("Something New 3000", "Something New 3000"),
        ("", "?"),
    ],
)
def test_models_are_shortened(model: str, short: str) -> None:
    assert words.short_model(model) == short


def test_numbers() -> None:
    assert [words.percent(part) for part in (0.0, 0.004, 0.5, 1.0, None)] == [
        "0 %",
        "0 %",
        "50 %",
        "100 %",
        "?",
    ]
    assert words.memory(int(12.34 * GIB), 80 * GIB) == "12.3/80 GiB"
    assert words.memory(None, 80 * GIB) == "?/80 GiB"
    assert words.memory(0, None) == "0.0/? GiB"
    assert words.power(312.4, 700.0) == "312/700 W"
    assert words.power(312.4, None) == "312 W"
    assert words.power(None, 700.0) == "?/700 W"
    assert words.power(None, None) == "? W"
    assert [words.temperature(celsius) for celsius in (0.0, 64.6, None)] == ["0 °C", "65 °C", "?"]


def test_parts() -> None:
    assert words.part_of(1, 4) == 0.25
    assert words.part_of(9, 4) == 1.0
    assert words.part_of(None, 4) is None
    assert words.part_of(1, None) is None
    assert words.part_of(1, 0) is None


def test_bars() -> None:
    assert words.bar(0.5, 4) == "██  "
    assert words.bar(0.53, 4) == "██▏ "
    assert words.bar(1.0, 4) == "████"
    assert words.bar(0.0, 4) == words.bar(None, 4) == "    "
    assert words.bar(0.5, 4, ASCII) == "##  "


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 40), st.sampled_from([BLOCKS, ASCII]))
def test_a_bar_has_its_width_and_grows(low: float, high: float, width: int, glyphs: Glyphs) -> None:
    low, high = sorted((low, high))
    lower, higher = words.bar(low, width, glyphs), words.bar(high, width, glyphs)
    assert len(lower) == len(higher) == width
    assert [glyphs.bar.index(cell) for cell in lower] <= [glyphs.bar.index(cell) for cell in higher]


def test_curves() -> None:
    assert words.curve((0.0, 0.5, 1.0), 3) == "▁▅█"
    assert words.curve((0.0, None, 1.0), 5) == "  ▁ █"
    assert words.curve((1.0, 1.0, 0.0), 2) == "█▁"
    assert words.curve((), 2) == "  "
    assert words.curve((7.0, -1.0), 2, ASCII) == "@_"
