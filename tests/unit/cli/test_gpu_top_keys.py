import asyncio
import os
import pty
import termios
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.cli.gpu_top_keys import KeyDecoder, pressed, single_keys

TYPED = [
    ("q", ["q"]),
    ("\x1b[A\x1b[B", ["up", "down"]),
    ("\x1bOA\x1bOB", ["up", "down"]),
    ("\x1b[5~\x1b[6~", ["page_up", "page_down"]),
    ("\x1b[H\x1b[F\x1b[1~\x1b[4~", ["home", "end", "home", "end"]),
    ("/bob\r", ["/", "b", "o", "b", "enter"]),
    ("a\x7f\x08\x15\n", ["a", "backspace", "backspace", "clear", "enter"]),
    ("é名", ["é", "名"]),
    ("\x1b[1;5C\x1b[15~x", ["x"]),  # Ctrl-Right, F5
    ("\x1bx", ["escape", "x"]),
    ("\x1b\x1b[A", ["escape", "up"]),
    ("\x00\x01\t", []),
]


@pytest.mark.parametrize(("typed", "keys"), TYPED)
def test_keys_are_named(typed: str, keys: list[str]) -> None:
    decoder = KeyDecoder()
    assert decoder.feed(typed.encode()) == keys
    assert not decoder.waits


@pytest.mark.parametrize(("typed", "keys"), TYPED)
def test_keys_that_come_byte_by_byte_are_the_same(typed: str, keys: list[str]) -> None:
    decoder = KeyDecoder()
    assert [key for byte in typed.encode() for key in decoder.feed(bytes((byte,)))] == keys


def test_a_lone_escape_is_a_key_once_nothing_follows() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"a\x1b") == ["a"]
    assert decoder.waits
    assert decoder.flush() == ["escape"]
    assert (decoder.waits, decoder.flush()) == (False, [])
    assert decoder.feed(b"[A") == ["[", "A"]


def test_half_a_key_is_no_more_than_an_escape() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b[5") == []
    assert decoder.flush() == ["escape"]


@given(st.lists(st.binary(max_size=12), max_size=6))
def test_nothing_that_is_typed_breaks_it(chunks: list[bytes]) -> None:
    decoder = KeyDecoder()
    for chunk in chunks:
        for key in (*decoder.feed(chunk), *decoder.flush()):
            assert key.isprintable()


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The person's end and the program's end."""
    person, program = pty.openpty()
    yield person, program
    os.close(person)
    os.close(program)


def test_the_terminal_is_given_back_as_it_was(terminal: tuple[int, int]) -> None:
    _, program = terminal
    before = termios.tcgetattr(program)
    with suppress(RuntimeError), single_keys(program):
        during = termios.tcgetattr(program)[3]
        raise RuntimeError("oops")
    assert not during & (termios.ECHO | termios.ICANON)
    assert during & termios.ISIG
    assert termios.tcgetattr(program) == before


async def test_keys_reach_the_program_one_by_one(terminal: tuple[int, int]) -> None:
    person, program = terminal
    keys: asyncio.Queue[str] = asyncio.Queue()
    with single_keys(program), pressed(program, keys.put_nowait):
        async with asyncio.timeout(30):
            os.write(person, b"u")
            assert await keys.get() == "u"
            os.write(person, b"\x1b")
            assert await keys.get() == "escape"
            os.write(person, b"\x1b[6~")
            assert await keys.get() == "page_down"


async def test_a_terminal_that_went_away_quits() -> None:
    person, program = pty.openpty()
    keys: asyncio.Queue[str] = asyncio.Queue()
    with pressed(program, keys.put_nowait):
        os.close(person)
        async with asyncio.timeout(30):
            assert await keys.get() == "q"
    os.close(program)
