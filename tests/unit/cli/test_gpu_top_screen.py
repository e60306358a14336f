import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.cli.gpu_top_columns import Span
from gpuyard.cli.gpu_top_frame import Line
from gpuyard.cli.gpu_top_screen import Screen
from gpuyard.cli.gpu_top_words import ASCII, BLOCKS
from tests.ptys import Display

LINES = st.lists(
    st.tuples(
        st.builds(Span, st.sampled_from(["", "ab", "x", "名"]), st.sampled_from(["", "red", "bold reverse"]))
    ),
    max_size=6,
)


class Paper(io.TextIOWrapper):
    """A terminal that keeps what is written on it."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._written = io.BytesIO()
        super().__init__(self._written, encoding=encoding)

    def isatty(self) -> bool:
        return True

    def taken(self) -> str:
        """What was written since the last time."""
        text = self._written.getvalue().decode(self.encoding)
        self._written.seek(0)
        self._written.truncate()
        return text


@pytest.fixture(autouse=True)
def colourful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def line(text: str, style: str = "") -> Line:
    return (Span(text, style),)


def test_only_lines_that_changed_are_written() -> None:
    paper = Paper()
    screen = Screen(paper)
    screen.draw([line("one"), line("two"), line("three")])
    written = paper.taken()
    assert all(word in written for word in ("one", "two", "three"))
    screen.draw([line("one"), line("TWO"), line("three")])
    written = paper.taken()
    assert "\x1b[2;1HTWO" in written
    assert "one" not in written
    screen.draw([line("one"), line("TWO"), line("three")])
    assert paper.taken() == ""
    screen.clear()
    paper.taken()
    screen.draw([line("one")])
    assert "one" in paper.taken()


@given(st.lists(LINES, min_size=1, max_size=5))
def test_however_it_came_about_the_terminal_shows_the_last_picture(pictures: list[list[Line]]) -> None:
    paper, display = Paper(), Display()
    screen = Screen(paper)
    for picture in pictures:
        screen.draw(picture)
        display.take(paper.taken())
    texts = ["".join(span.text for span in spans) for spans in pictures[-1]]
    assert "\n".join(display.lines).rstrip() == "\n".join(texts).rstrip()


def test_the_terminal_is_given_back_after_an_error() -> None:
    paper = Paper()
    with pytest.raises(RuntimeError), Screen(paper).taken():
        raise RuntimeError
    written = paper.taken()
    assert written.index("\x1b[?1049h") < written.index("\x1b[?1049l")
    assert written.index("\x1b[?25l") < written.index("\x1b[?25h")
    assert written.index("\x1b[?7l") < written.index("\x1b[?7h")


def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = Paper()
    Screen(paper).draw([line("hot", "red")])
    assert "\x1b[31m" in paper.taken()
    monkeypatch.setenv("NO_COLOR", "1")
    Screen(paper).draw([line("hot", "red")])
    assert "\x1b[31m" not in paper.taken()


def test_what_looks_like_markup_is_text() -> None:
    paper, display = Paper(), Display()
    Screen(paper).draw([line("[bold]x[/] :smile: 12")])
    display.take(paper.taken())
    assert display.lines == ["[bold]x[/] :smile: 12"]


def test_terminals_without_unicode_get_what_they_can_show() -> None:
    assert Screen(Paper()).glyphs is BLOCKS
    paper, display = Paper("ascii"), Display()
    screen = Screen(paper)
    assert screen.glyphs is ASCII
    screen.draw([line("72 °C out: it fell o… é")])
    display.take(paper.taken())
    assert display.lines == ["72  C out: it fell o~ ?"]
