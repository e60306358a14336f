import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard_logger.core.retention import (
    DAY_S,
    Disk,
    Marks,
    Output,
    Rule,
    excess_bytes,
    is_too_full,
    to_drop,
)

NOW_S = 1_000 * DAY_S
FOR_EVER = Rule({}, None, None)


def output(job: str, ended_days_ago: float | None = 0.0, size_bytes: int = 100, **labels: str) -> Output:
    ended_at_s = None if ended_days_ago is None else NOW_S - ended_days_ago * DAY_S
    return Output(job, ended_at_s or NOW_S, size_bytes, size_bytes, ended_at_s=ended_at_s, labels=labels)


def by_age(days: float, **labels: str) -> Rule:
    return Rule(labels, days * DAY_S, None)


def by_size(size_bytes: int, **labels: str) -> Rule:
    return Rule(labels, None, size_bytes)


def dropped(outputs: list[Output], *rules: Rule, disk_bytes: int = 0) -> list[str]:
    return list(to_drop(outputs, rules, NOW_S, disk_bytes))


def test_without_rules_everything_is_kept_for_ever() -> None:
    assert dropped([output("a", 900.0), output("b", None)]) == []


def test_output_goes_when_its_job_ended_long_enough_ago() -> None:
    outputs = [output("old", 31.0), output("older", 40.0), output("young", 29.0), output("runs", None)]
    assert dropped(outputs, by_age(30.0)) == ["older", "old"]


def test_lines_that_came_after_the_end_count() -> None:
    late = output("late", 40.0)._replace(last_at_s=NOW_S - DAY_S)
    assert dropped([late], by_age(30.0)) == []


def test_pinned_output_stays() -> None:
    pinned = output("a", 40.0)._replace(is_pinned=True)
    assert dropped([pinned], by_age(30.0), disk_bytes=10**9) == []
    assert dropped([pinned, output("b", 1.0)], by_size(150)) == ["b"]


def test_the_first_rule_that_fits_holds() -> None:
    outputs = [output("a", 40.0, team="x"), output("b", 40.0, team="y"), output("c", 40.0)]
    assert dropped(outputs, by_age(30.0, team="x")) == ["a"]
    assert dropped(outputs, by_age(50.0, team="x"), by_age(30.0)) == ["b", "c"]
    assert dropped(outputs, FOR_EVER, by_age(30.0)) == []


def test_a_share_is_kept_by_letting_the_oldest_go() -> None:
    outputs = [output("a", 3.0, 100), output("b", 2.0, 100), output("c", 1.0, 100), output("d", None, 100)]
    assert dropped(outputs, by_size(400)) == []
    assert dropped(outputs, by_size(300)) == ["a"]
    assert dropped(outputs, by_size(150)) == ["a", "b", "c"]


def test_what_age_takes_counts_for_the_share_too() -> None:
    outputs = [output("a", 40.0), output("b", 2.0), output("c", 1.0)]
    assert dropped(outputs, Rule({}, 30 * DAY_S, 200)) == ["a"]


def test_room_is_made_by_what_lies_on_this_disk() -> None:
    elsewhere = output("far", 9.0)._replace(local_bytes=0)
    outputs = [elsewhere, output("a", 3.0), output("b", 2.0), output("c", 1.0)]
    assert dropped(outputs, disk_bytes=101) == ["a", "b"]
    assert dropped(outputs, by_age(2.5), disk_bytes=101) == ["far", "a", "b"]


def test_the_reason_is_told() -> None:
    reasons = to_drop([output("a", 40.0)], [by_age(30.0)], NOW_S, 0)
    assert reasons == {"a": "kept for 30 days after its end"}


jobs = st.lists(
    st.builds(
        Output,
        job=st.uuids().map(str),
        last_at_s=st.floats(0, NOW_S),
        size_bytes=st.integers(0, 1000),
        local_bytes=st.integers(0, 1000),
        is_pinned=st.booleans(),
        ended_at_s=st.none() | st.floats(0, NOW_S),
        labels=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
    ),
    max_size=20,
    unique_by=lambda each: each.job,
)
rules = st.lists(
    st.builds(
        Rule,
        st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=1),
        st.none() | st.floats(1, NOW_S),
        st.none() | st.integers(1, 5000),
    ),
    max_size=3,
)


@given(jobs, rules, st.integers(0, 10_000))
@settings(max_examples=200, deadline=None)
def test_only_what_may_go_goes_and_no_more_than_must(
    outputs: list[Output], table: list[Rule], disk_bytes: int
) -> None:
    chosen = to_drop(outputs, table, NOW_S, disk_bytes)
    by_job = {each.job: each for each in outputs}
    gone = [by_job[job] for job in chosen]
    left = [each for each in outputs if each.job not in chosen]
    assert all(each.may_go for each in gone)
    freed_bytes = sum(each.local_bytes for each in gone)
    if freed_bytes < disk_bytes:
        assert not [each for each in left if each.may_go and each.local_bytes]
    for_room = [each for each in gone if "disk" in chosen[each.job]]
    if for_room:
        assert freed_bytes - for_room[-1].local_bytes < disk_bytes
    if not table:
        assert [each.over_at_s for each in gone] == sorted(each.over_at_s for each in gone)


MARKS = Marks(store_share=0.5, free_share=0.1, free_bytes=50)


@pytest.mark.parametrize(
    ("disk", "excess", "too_full"),
    [
        (Disk(1000, 900, 100, 0), 0, False),
        (Disk(1000, 300, 600, 0), 100, False),
        (Disk(1000, 300, 600, 100), 0, False),
        (Disk(1000, 30, 100, 0), 20, True),
        (Disk(1000, 30, 100, 20), 0, False),
        (Disk(1000, 11, 100, 90), 0, True),
        (Disk(100, 8, 10, 0), 2, True),
    ],
    ids=["room", "over share", "leaving", "nearly full", "soon free", "no room to shift", "small disk"],
)
def test_how_full_a_disk_is(disk: Disk, excess: int, too_full: bool) -> None:
    assert excess_bytes(disk, MARKS) == excess
    assert is_too_full(disk, MARKS) is too_full
