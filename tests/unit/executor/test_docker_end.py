"""What a container's end says of its rank."""

from dataclasses import replace
from typing import Any

import pytest

from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.container_end import ContainerView, Outage, end_of, parse_time, parse_view
from gpuyard_executor.core.rank import RankEnd

VIEW = ContainerView("exited", "abc", 3, started_at_s=10.0, ended_at_s=20.0)
KILLED = replace(VIEW, code=137)


def end(
    view: ContainerView = VIEW,
    *,
    words: bytes = b"",
    stopped_at_s: float | None = None,
    outage: Outage = Outage(),  # noqa: B008 - frozen
    is_rebooted: bool = False,
) -> RankEnd:
    return end_of(view, words, stopped_at_s, outage, is_rebooted=is_rebooted)


def test_a_view_is_read() -> None:
    state = {
        "Status": "exited",
        "ExitCode": 137,
        "OOMKilled": True,
        "Error": "",
        "StartedAt": "2026-11-21T05:50:39.505504427Z",
        "FinishedAt": "2026-11-21T05:50:40Z",
    }
    view = parse_view({"Id": "abc", "State": state})
    assert (view.code, view.oom_killed, view.is_over) == (137, True, True)
    assert view.started_at_s == pytest.approx(1795240239.505504)
    assert view.ended_at_s == 1795240240.0


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", ""])
def test_never_is_no_time(text: str) -> None:
    assert parse_time(text) is None


@pytest.mark.parametrize("fraction", ["", ".5", ".500000000", ".500000000999"])
def test_times_with_any_number_of_digits(fraction: str) -> None:
    assert parse_time(f"1970-01-01T00:00:01{fraction}Z") == (1.5 if fraction else 1.0)
    assert parse_time(f"1970-01-01T01:00:01{fraction}+01:00") == (1.5 if fraction else 1.0)


def test_an_exit_code_speaks_for_itself() -> None:
    assert end() == RankEnd(3, 20.0)


def test_out_of_memory() -> None:
    assert end(replace(KILLED, oom_killed=True)).cause is ExitCause.OOM


def test_a_child_out_of_memory_is_a_remark() -> None:
    ended = end(replace(VIEW, code=0, oom_killed=True))
    assert ended.cause is None
    assert "killed for using more memory" in ended.message


def test_what_ended_before_the_stop_was_not_stopped() -> None:
    assert not end(stopped_at_s=20.5).stopped
    assert end(stopped_at_s=19.5).stopped


def test_a_stopped_rank_is_not_blamed_on_anything_else() -> None:
    ended = end(KILLED, stopped_at_s=19.0, outage=Outage(15.0, 30.0))
    assert (ended.stopped, ended.cause) == (True, None)


@pytest.mark.parametrize(
    ("outage", "cause"),
    [
        (Outage(), None),
        (Outage(15.0, 30.0), ExitCause.NODE_LOST),
        (Outage(21.0, 30.0), None),
        (Outage(5.0, 15.0), None),
        (Outage(15.0), ExitCause.NODE_LOST),
        (Outage(21.0), None),
    ],
)
def test_killed_while_the_engine_was_away(outage: Outage, cause: ExitCause | None) -> None:
    assert end(KILLED, outage=outage).cause is cause


def test_an_exit_of_its_own_while_the_engine_was_away_stays_its_own() -> None:
    assert end(outage=Outage(15.0, 30.0)).cause is None


def test_the_machine_went_down() -> None:
    assert "machine was restarted" in end(KILLED, is_rebooted=True).message
    assert end(replace(KILLED, code=255)).cause is ExitCause.NODE_LOST


def test_what_the_launcher_says_is_why_it_did_not_start() -> None:
    ended = end(replace(VIEW, code=127), words=b"the image has no `env`\n")
    assert ended.cause is ExitCause.LAUNCH
    assert ended.message.endswith("the image has no `env`")


def test_a_view_without_times_or_code() -> None:
    raw: dict[str, Any] = {"Id": "abc", "State": {"Status": "created", "StartedAt": "0001-01-01T00:00:00Z"}}
    assert parse_view(raw) == ContainerView("created", "abc")
