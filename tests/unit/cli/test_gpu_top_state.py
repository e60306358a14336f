import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.cli.gpu_top_rows import Sort
from gpuyard.cli.gpu_top_state import SORT_KEYS, State, chosen, press, scrolled
from tests.unit.cli.gpus import a_row, unknown_row

KEYS = [
    *"umpntjrf/?hqx é5",
    "up",
    "down",
    "page_up",
    "page_down",
    "home",
    "end",
    "escape",
    "enter",
    "backspace",
    "clear",
]


def pressed(*keys: str, state: State | None = None, page: int = 10, count: int = 100) -> State:
    state = state or State()
    for key in keys:
        state = press(state, key, page=page, count=count)
    return state


@pytest.mark.parametrize(("key", "sort"), SORT_KEYS.items())
def test_a_letter_sorts_from_the_top(key: str, sort: Sort) -> None:
    before = State(reverse=True, offset=7)
    assert pressed(key, state=before) == State(sort=sort)


def test_r_turns_the_order_and_back() -> None:
    assert pressed("u", "r") == State(sort=Sort.UTILISATION, reverse=True)
    assert pressed("u", "r", "r") == State(sort=Sort.UTILISATION)


@pytest.mark.parametrize(
    ("keys", "offset"),
    [
        (("down", "down", "up"), 1),
        (("up",), 0),
        (("page_down",), 10),
        (("page_down", "page_down", "page_up"), 10),
        (("end",), 90),
        (("end", "down", "page_down"), 90),
        (("end", "home"), 0),
        (("end", "up"), 89),
    ],
)
def test_scrolling_stays_within_the_rows(keys: tuple[str, ...], offset: int) -> None:
    assert pressed(*keys).offset == offset


def test_few_rows_do_not_scroll() -> None:
    assert pressed("down", "end", "page_down", count=5).offset == 0


def test_fewer_rows_than_before_bring_the_view_back() -> None:
    assert scrolled(State(offset=90), 90, page=10, count=12).offset == 2
    assert scrolled(State(offset=90), 90, page=10, count=0).offset == 0


def test_f_shows_what_is_free_and_all_again() -> None:
    assert pressed("f").free_only
    assert not pressed("f", "f").free_only
    assert pressed("down", "f").offset == 0


def test_help_comes_and_goes() -> None:
    assert pressed("?").has_help
    assert not pressed("?", "h").has_help


def test_q_ends_it() -> None:
    assert pressed("q").is_over
    assert not pressed("/", "q").is_over


def test_typing_a_filter() -> None:
    typing = pressed("/", "b", "q", "backspace", "o", "b")
    assert (typing.text, typing.is_typing) == ("bob", True)
    kept = pressed("enter", state=typing)
    assert (kept.text, kept.is_typing) == ("bob", False)
    assert pressed("escape", state=kept).text == ""
    assert pressed("/", "clear", "x", state=kept).text == "x"


def test_escape_while_typing_brings_back_what_was() -> None:
    before = pressed("/", "b", "enter", "/", "x", "y")
    assert before.text == "bxy"
    after = pressed("escape", state=before)
    assert (after.text, after.is_typing) == ("b", False)


def test_named_keys_type_nothing() -> None:
    assert pressed("/", "up", "page_down", "home").text == ""


@given(st.lists(st.sampled_from(KEYS), max_size=30), st.integers(1, 50), st.integers(0, 200))
def test_whatever_is_pressed_the_view_stays_on_the_rows(keys: list[str], page: int, count: int) -> None:
    state = State()
    for key in keys:
        state = press(state, key, page=page, count=count)
        assert 0 <= state.offset <= max(0, count - page)


@given(st.lists(st.sampled_from(KEYS), max_size=10))
def test_escape_and_q_always_lead_out(keys: list[str]) -> None:
    assert pressed(*keys, "escape", "escape", "q").is_over


def test_chosen_rows_are_filtered_and_ordered() -> None:
    rows = [a_row("n1", 0, utilisation=0.1), a_row("n1", 1, utilisation=0.9), unknown_row("n2", 0)]
    state = State(sort=Sort.UTILISATION, text="n1")
    assert [row.index for row in chosen(rows, state)] == [1, 0]
    assert chosen(rows, State(free_only=True, text="silent")) == []
