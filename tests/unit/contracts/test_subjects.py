import re
from itertools import combinations
from pathlib import Path

import pytest

from gpuyard.contracts.log import PARTITIONS
from gpuyard.contracts.subjects import CHANNELS, FACT, JOB, LOG, LOGS_STREAM, STREAMS, TERM, Channel, Stream

ROOT = Path(__file__).parents[3]


def covers(wildcard: str, subject: str) -> bool:
    """Whether every subject that matches `subject` (a wildcard, too) matches `wildcard`."""
    want, have = wildcard.split("."), subject.split(".")
    if want[-1] == ">":
        return len(have) >= len(want) and covers(".".join(want[:-1]), ".".join(have[: len(want) - 1]))
    return len(want) == len(have) and all(w in ("*", h) for w, h in zip(want, have, strict=True))


def overlap(one: str, other: str) -> bool:
    """Whether some subject matches both wildcards."""
    a, b = one.split("."), other.split(".")
    for x, y in zip(a, b, strict=False):
        if ">" in (x, y):
            return True
        if "*" not in (x, y) and x != y:
            return False
    return len(a) == len(b)


@pytest.mark.parametrize("channel", [c for c in CHANNELS if c.stream], ids=lambda c: c.pattern)
def test_a_stream_covers_its_channels(channel: Channel) -> None:
    assert channel.stream in STREAMS
    if channel is not LOG:
        assert [s for s in channel.stream.subjects if covers(s, channel.all)]


def test_output_is_taken_in_the_partitions_that_are_read_and_in_no_other() -> None:
    for partition in range(PARTITIONS):
        assert [s for s in LOGS_STREAM.subjects if covers(s, LOG.some(partition=partition))]
    assert not [s for s in LOGS_STREAM.subjects if overlap(s, LOG.some(partition=PARTITIONS))]


@pytest.mark.parametrize("channel", [c for c in CHANNELS if not c.stream], ids=lambda c: c.pattern)
def test_no_stream_stores_a_channel_without_one(channel: Channel) -> None:
    assert not [s for stream in STREAMS for s in stream.subjects if overlap(s, channel.all)]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: s.name)
def test_a_stream_has_a_use_and_a_limit(stream: Stream) -> None:
    assert [channel for channel in CHANNELS if channel.stream is stream]
    assert stream.max_bytes > 0


def test_streams_do_not_overlap() -> None:
    subjects = [subject for stream in STREAMS for subject in stream.subjects]

    assert not [pair for pair in combinations(subjects, 2) if overlap(*pair)]


def test_channels_do_not_overlap() -> None:
    assert not [(a.pattern, b.pattern) for a, b in combinations(CHANNELS, 2) if overlap(a.all, b.all)]


def test_a_channel_makes_subjects_and_wildcards() -> None:
    assert LOG(partition=3, job="j1", attempt=2, rank=0) == "gpuyard.log.3.j1.2.0"
    assert LOG.all == "gpuyard.log.*.*.*.*"
    assert LOG.some(job="j1") == "gpuyard.log.*.j1.*.*"
    assert TERM() == TERM.all == TERM.some() == "gpuyard.state.term"


def test_a_channel_reads_ids_back() -> None:
    assert FACT.ids("gpuyard.fact.n1.j1") == {"node": "n1", "job": "j1"}
    assert JOB.ids(JOB(job="a-b")) == {"job": "a-b"}


def test_a_forgotten_id_is_an_error() -> None:
    with pytest.raises(KeyError):
        FACT(node="n1")


def test_nothing_else_names_a_subject() -> None:
    """Whoever needs a subject asks a channel, so that one file tells them all."""
    families = {channel.pattern.split(".")[1] for channel in CHANNELS}
    subject = re.compile(rf"[\"']gpuyard\.({'|'.join(sorted(families))})\b")
    code = [*ROOT.glob("shared/**/*.py"), *ROOT.glob("services/**/*.py")]

    naming = {path.name for path in code if subject.search(path.read_text(encoding="utf-8"))}

    assert naming == {"subjects.py"}
