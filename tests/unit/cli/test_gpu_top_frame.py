from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpuyard.cli.gpu_top_columns import COLUMNS, DROPPED_FIRST, Extras, cut, fitting, total
from gpuyard.cli.gpu_top_frame import HELP, Line, Picture, Size, frame, page_of
from gpuyard.cli.gpu_top_rows import Row, Sort
from gpuyard.cli.gpu_top_state import State
from gpuyard.cli.gpu_top_words import ASCII
from gpuyard.contracts.hardware import Health
from tests.unit.cli.gpus import a_row, unknown_row

WIDE = Size(200, 30)
HELD = a_row("n1", 0, job="train-abc", owner="alice", free=False)
OUT = a_row("n1", 1, health=Health.OUT, health_reason="XID 79: fell off the bus", free=False)
FREE = a_row("n1", 2)
SILENT = unknown_row("n2", 0, job="train-xyz")


def text(line: Line) -> str:
    return "".join(span.text for span in line)


def drawn(*rows: Row, state: State | None = None, size: Size = WIDE, **more: Any) -> list[str]:
    picture = Picture(rows, {})._replace(**more)
    return [text(line).rstrip() for line in frame(picture, state or State(), size)]


def test_a_line_says_all_about_a_gpu() -> None:
    lines = drawn(HELD, curves={HELD.uuid: (0.0, None, 1.0)})
    assert lines[1].split() == [
        *("NODE", "GPU", "MODEL", "UTIL", "MEMORY", "POWER", "TEMP"),
        *("10", "MINUTES", "JOB", "OWNER", "HEALTH"),
    ]
    assert lines[2].split() == [
        *("n1", "0", "H100", "█████", "50", "%", "██▌", "20.0/80", "GiB", "350/700", "W", "60", "°C"),
        *("▁", "█", "train-abc", "alice", "ok"),
    ]


def test_what_is_unknown_is_a_question_mark_and_never_zero() -> None:
    line = drawn(SILENT)[2]
    assert line.split() == ["n2", "0", "?", "?", "?/?", "GiB", "?", "W", "?", "train-xyz", "silent"]
    assert line.count("0") == 1


def test_the_reason_has_the_rest_of_the_line() -> None:
    assert drawn(OUT)[2].endswith("out: XID 79: fell off the bus")
    narrow = drawn(OUT, size=Size(100, 10))[2]
    assert "out: " in narrow
    assert narrow.endswith("…")


def test_the_summary_counts_what_can_be_used() -> None:
    assert drawn(HELD, OUT, FREE, SILENT)[0] == "2 nodes, 4 GPUs: 1 held, 1 free, 1 out, 1 silent, 50 % busy"
    assert drawn(SILENT)[0] == "1 node, 1 GPU: 1 silent"
    assert drawn(FREE, notice="the message bus does not answer")[0].endswith(
        "the message bus does not answer"
    )


def test_an_empty_cluster_and_an_empty_choice_say_so() -> None:
    assert drawn()[2] == "No GPUs are known yet."
    assert drawn(HELD, state=State(text="bob"))[2] == "No GPU matches `bob`."
    assert drawn(HELD, state=State(free_only=True))[2] == "No free GPU now."
    assert drawn(HELD, state=State(free_only=True, text="bob"))[2] == "No free GPU matches `bob`."


def test_the_screen_is_filled_to_its_last_line() -> None:
    lines = drawn(FREE, state=State(sort=Sort.POWER, reverse=True, text="h100", free_only=True))
    assert len(lines) == WIDE.height
    assert lines[-1] == "1-1 of 1  sorted by power, reversed  filter `h100`  free only  ? help  q quit"
    assert drawn(FREE, state=State(has_help=True))[-1 - len(HELP) : -1] == list(HELP)
    assert drawn(FREE, state=State(is_typing=True, text="bo"))[-1] == "filter: bo"


def test_scrolling_shows_other_rows_under_the_same_header() -> None:
    rows = [a_row("n1", index) for index in range(20)]
    size = Size(120, 8)
    state = State(offset=5)
    assert page_of(state, size) == 5
    lines = drawn(*rows, state=state, size=size)
    assert [line.split()[1] for line in lines[2:7]] == ["5", "6", "7", "8", "9"]
    assert lines[-1].startswith("6-10 of 20")


def test_columns_stay_where_they_are_while_scrolling() -> None:
    rows = [a_row("n1", 0), a_row("a-long-name", 1, job="a-long-job")]
    first = drawn(*rows, state=State(text="n1"))[1]
    assert first == drawn(*rows, state=State(text="a-long"))[1]


def test_strangers_texts_are_harmless() -> None:
    row = a_row(
        owner="a\x1b[2Jb", health=Health.OUT, health_reason="\x1b]0;x\x07bad", model="NVIDIA\x1b[5m X"
    )
    assert "\x1b" not in "".join(drawn(row))


def test_without_a_curve_there_is_no_column_for_it() -> None:
    assert "10 MINUTES" not in drawn(HELD)[1]


def test_ascii_terminals_get_other_bars() -> None:
    assert "#####" in drawn(HELD, glyphs=ASCII)[2]


def test_styles_tell_conditions_apart() -> None:
    def style(row: Row) -> str:
        return frame(Picture((row,), {}), State(), WIDE)[2][-1].style

    styles = [style(row) for row in (HELD, OUT, SILENT, a_row(health=Health.FOREIGN))]
    assert len(set(styles)) == 4
    silent = frame(Picture((SILENT,), {}), State(), WIDE)[2]
    assert {span.style for span in silent} == {"dim"}


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 100, 120, 150, 200])
def test_narrow_screens_leave_out_the_least_needed(width: int) -> None:
    placed = [each.column.name for each in fitting([HELD, SILENT], Extras({"x": (1.0,)}), width)]
    left_out = [name for name in DROPPED_FIRST if name not in placed]
    assert left_out == list(DROPPED_FIRST[: len(left_out)])
    assert {"node", "gpu", "job", "health"} <= set(placed)
    assert total(fitting([HELD, SILENT], Extras({}), width)) <= width or len(left_out) == len(DROPPED_FIRST)


def test_every_column_that_can_be_left_out_exists() -> None:
    assert set(DROPPED_FIRST) < {column.name for column in COLUMNS}


@pytest.mark.parametrize(
    ("text", "width", "fits"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("名前だ", 4, "名 …"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("abc", -2, ""),
    ],
)
def test_cutting(text: str, width: int, fits: str) -> None:
    assert cut(text, width) == fits


@given(
    st.lists(
        st.builds(
            a_row,
            st.sampled_from(["n1", "a-rather-long-node-name-of-40-characters"]),
            st.integers(0, 1023),
            owner=st.none() | st.text(max_size=20),
            model=st.text(max_size=20),
            health_reason=st.text(max_size=60),
            utilisation=st.none() | st.floats(0, 1),
            memory_used_bytes=st.none() | st.integers(0, 2**42),
            power_w=st.none() | st.floats(0, 100000),
            job=st.none() | st.sampled_from(["t", "job-" * 12]),
            heard=st.booleans(),
        ),
        max_size=6,
    ),
    st.builds(Size, st.integers(1, 220), st.integers(1, 40)),
    st.builds(State, has_help=st.booleans(), is_typing=st.booleans(), offset=st.integers(0, 3)),
)
def test_a_frame_always_fits_its_screen(rows: list[Row], size: Size, state: State) -> None:
    lines = frame(Picture(rows, {}), state, size)
    assert len(lines) == size.height
    assert all(cell_len(text(line)) <= size.width for line in lines)
