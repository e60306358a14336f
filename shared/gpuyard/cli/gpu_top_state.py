"""What the viewer has chosen to see, and what each key does to it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuyard.cli.gpu_top_rows import Row, Sort, ordered, selected

SORT_KEYS = {
    "u": Sort.UTILISATION,
    "m": Sort.MEMORY,
    "p": Sort.POWER,
    "t": Sort.TEMPERATURE,
    "n": Sort.NODE,
    "j": Sort.JOB,
}


@dataclass(frozen=True, slots=True)
class State:
    """The view. `offset` rows are above the screen."""

    sort: Sort = Sort.NODE
    reverse: bool = False
    text: str = ""
    """Only rows that hold these words."""
    free_only: bool = False
    offset: int = 0
    is_typing: bool = False
    """Keys go into `text`."""
    text_before: str = ""
    """What `text` was before typing began."""
    has_help: bool = False
    is_over: bool = False


def chosen(rows: Sequence[Row], state: State) -> list[Row]:
    """The rows to see in the order to see them, all screens of them."""
    return ordered(selected(rows, state.text, free_only=state.free_only), state.sort, reverse=state.reverse)


def press(state: State, key: str, *, page: int, count: int) -> State:
    """The view after a key.

    Args:
        key: A character, or the name of a key as in `gpu_top_keys`.
        page: How many rows the screen shows.
        count: How many rows there are to show.

    """
    if state.is_typing:
        return _type(state, key)
    if key in _MOVES:
        return scrolled(state, _moved(state.offset, key, page, count), page=page, count=count)
    if key in SORT_KEYS:
        return replace(state, sort=SORT_KEYS[key], reverse=False, offset=0)
    return _choose(state, key)


def _choose(state: State, key: str) -> State:
    match key:
        case "r":
            return replace(state, reverse=not state.reverse, offset=0)
        case "f":
            return replace(state, free_only=not state.free_only, offset=0)
        case "/":
            return replace(state, is_typing=True, text_before=state.text)
        case "?" | "h":
            return replace(state, has_help=not state.has_help)
        case "escape":
            return replace(state, text="", offset=0)
        case "q":
            return replace(state, is_over=True)
    return state


def scrolled(state: State, offset: int, *, page: int, count: int) -> State:
    """The view from this row on, as far as there are rows to fill the screen."""
    return replace(state, offset=max(0, min(offset, count - page)))


_MOVES = ("up", "down", "page_up", "page_down", "home", "end")


def _moved(offset: int, key: str, page: int, count: int) -> int:
    match key:
        case "up":
            return offset - 1
        case "down":
            return offset + 1
        case "page_up":
            return offset - page
        case "page_down":
            return offset + page
        case "home":
            return 0
    return count


def _type(state: State, key: str) -> State:
    """Rows follow each letter; enter keeps the text, escape brings the one before back."""
    match key:
        case "enter":
            return replace(state, is_typing=False)
        case "escape":
            return replace(state, is_typing=False, text=state.text_before, offset=0)
        case "backspace":
            return replace(state, text=state.text[:-1], offset=0)
        case "clear":
            return replace(state, text="", offset=0)
    return replace(state, text=state.text + key, offset=0) if len(key) == 1 else state
