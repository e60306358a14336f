"""Searching all jobs; the searching itself is the client's."""

import shlex
from collections.abc import Callable
from typing import Any

import pytest

from gpuyard.client.aio import AsyncClient
from gpuyard.client.search import Found, Unasked
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.log import OUT, LogLine
from tests.unit.cli.conftest import Shell

Pages = Callable[..., list[dict[str, Any]]]


def lines(*texts: str) -> list[LogLine]:
    return [LogLine("train-a", 2, 1, seq, OUT, 4.0, text.encode()) for seq, text in enumerate(texts)]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Pages:
    """Let searches be answered with these pages, and tell what was asked."""

    def answer_with(*pages: Found) -> list[dict[str, Any]]:
        asked: list[dict[str, Any]] = []
        left = list(pages)

        async def search_logs(_: AsyncClient, pattern: str, **question: Any) -> Found:
            asked.append({"pattern": pattern, **question})
            return left.pop(0)

        monkeypatch.setattr(AsyncClient, "search_logs", search_logs)
        return asked

    return answer_with


def test_what_is_found_says_whose_it_is(shell: Shell, answering: Pages) -> None:
    asked = answering(Found(lines("a", "b"), "", [], 9))
    options = ("-i", "--rank", "1", "--stream", "out", "--label", "team=vision", "--since", "1750000000")
    result = shell("logs", "--all", "--grep", "x", *options)
    assert (result.code, result.out, result.err) == (0, "[train-a/2 1] a\n[train-a/2 1] b\n", "")
    (question,) = asked
    assert question == {
        "pattern": "x",
        "labels": {"team": "vision"},
        "ranks": {1},
        "stream": OUT,
        "since_s": 1_750_000_000.0,
        "until_s": None,
        "ignore_case": True,
        "limit": 1000,
        "cursor": "",
    }


def test_how_to_go_on_is_a_command_that_asks_the_same(shell: Shell, answering: Pages) -> None:
    asked = answering(Found(lines("a"), "c1", [], 9), Found([], "", [], 9))
    first = shell("logs", "--all", "--grep", "it's", "--since", "1h", "--limit", "1", "--label", "a=b")
    told = first.err.strip().partition(": ")[2]
    assert "1 line" in first.err
    second = shell(*shlex.split(told)[1:])
    assert second.code == 0
    assert asked[1] == asked[0] | {"cursor": "c1"}


def test_pages_in_which_nothing_was_found_are_passed_over(shell: Shell, answering: Pages) -> None:
    asked = answering(Found([], "c1", [], 9), Found(lines("a"), "c2", [], 9), Found(lines("b"), "c3", [], 9))
    result = shell("logs", "--all", "--grep", "x", "--limit", "2", "--no-prefix")
    assert result.out == "a\nb\n"
    assert [(each["limit"], each["cursor"]) for each in asked] == [(2, ""), (2, "c1"), (1, "c2")]
    assert "--cursor c3" in result.err


def test_that_nothing_was_found_is_said(shell: Shell, answering: Pages) -> None:
    answering(Found([], "", [], 9))
    result = shell("logs", "--all", "--grep", "x")
    assert (result.code, result.out, result.err) == (0, "", "No line was found.\n")


def test_json_ends_with_how_to_go_on(shell: Shell, answering: Pages) -> None:
    answering(Found(lines("a"), "c1", [], 9))
    line, page = shell("logs", "--all", "--grep", "x", "--limit", "1", "--json").json_lines
    assert (line["type"], line["text"]) == ("log", "a")
    assert page == {"type": "page", "cursor": "c1", "unsearched": {}}


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_what_could_not_be_searched_is_said(shell: Shell, answering: Pages, as_json: tuple[str, ...]) -> None:
    answering(Found(lines("a"), "", [Unasked("train-b", "no logger answers")], 9))
    result = shell("logs", "--all", "--grep", "x", *as_json)
    assert result.code == 6
    assert "train-b: no logger answers" in result.err
    assert "No line" not in result.err
    assert "train-a" in result.out


def test_a_cursor_that_is_none_is_refused(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    async def search_logs(*_: Any, **__: Any) -> Found:
        raise InvalidSpec("that is no cursor")

    monkeypatch.setattr(AsyncClient, "search_logs", search_logs)
    assert shell("logs", "--all", "--grep", "x", "--cursor", "y").code == 2
