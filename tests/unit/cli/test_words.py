import pytest
from msgspec import structs

from gpuyard.cli import words
from gpuyard.contracts.job import Exit, ExitCause
from gpuyard.contracts.placement import PlacedLink, Placement, Slot
from tests.unit.client.fake_yard import PLACEMENT, a_job

INDEXES = {f"GPU-{letter}": index for index, letter in enumerate("abcd")}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.44, "0.4 s"),
        (12, "12 s"),
        (59.7, "1 min"),
        (184, "3 min 4 s"),
        (3600, "1 h"),
        (18120, "5 h 2 min"),
        (273600, "3 d 4 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


def test_a_place_in_words() -> None:
    assert words.place(PLACEMENT, INDEXES) == "node dgx1-1: GPU 0, 3 (NV2 48 GB/s)"


def test_gpus_without_a_known_index_are_named_by_uuid() -> None:
    assert words.place(PLACEMENT, {}) == "node dgx1-1: GPU GPU-a, GPU-d (NV2 48 GB/s)"


def test_several_nodes_and_links() -> None:
    placement = Placement(
        slots=(
            Slot(0, "main", "a", 0, 0, ("GPU-a", "GPU-b", "GPU-c")),
            Slot(1, "main", "b", 0, 1, ("GPU-d",)),
            Slot(2, "main", "c", 0, 2),
            Slot(3, "main", "c", 1, 2),
        ),
        links=(
            PlacedLink("a", "GPU-a", "GPU-c", "SYS", 8.5),
            PlacedLink("a", "GPU-a", "GPU-b", "NV2", 48.0),
            PlacedLink("a", "GPU-b", "GPU-c", "NV2", 48.0),
        ),
    )
    assert words.place(placement, INDEXES) == (
        "node a: GPU 0, 1, 2 (2 x NV2, SYS, slowest 8.5 GB/s); node b: GPU 3; node c: 2 ranks, no GPU"
    )


def test_an_unmeasured_link_has_no_bandwidth() -> None:
    unmeasured = tuple(structs.replace(link, gb_s=None) for link in PLACEMENT.links)
    assert words.place(structs.replace(PLACEMENT, links=unmeasured), INDEXES).endswith("GPU 0, 3 (NV2)")


def test_counts_and_sizes() -> None:
    assert [words.count(number, "rank") for number in range(3)] == ["no ranks", "1 rank", "2 ranks"]
    assert (words.size(None), words.size(3 << 29)) == ("?", "1.5 GiB")


@pytest.mark.parametrize(
    ("exit_", "text"),
    [
        (Exit(0), ""),
        (Exit(3), "exit code 3"),
        (Exit(None, ExitCause.CANCELLED, "cancelled on request"), "cancelled on request"),
        (Exit(3, rank=1), "rank 1 failed first: exit code 3"),
        (Exit(None, rank=1, node="n1"), "rank 1 on node n1 failed first"),
        (Exit(3, ExitCause.USER_ERROR, "it raised", 1, "n1"), "rank 1 on node n1 failed first: it raised"),
    ],
)
def test_endings(exit_: Exit, text: str) -> None:
    assert words.ending(structs.replace(a_job(), exit=exit_)) == text
