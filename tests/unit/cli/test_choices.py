from msgspec import structs

from gpuyard.cli import choices
from gpuyard.contracts.placement import Alternative
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import PLACEMENT, FakeYard, a_job, a_spec

INDEXES = {f"GPU-{letter}": index for index, letter in enumerate("abcd")}
REJECTED = (
    Alternative("dgx1-1", ("GPU-b", "GPU-a"), "its ring runs at 24.1 GB/s instead of 48.2", 24.1, 24.1),
    Alternative("far", ("GPU-x",), "its free GPUs reach 19 GB/s instead of 48.2 GB/s"),
)
EXPLAINED = structs.replace(PLACEMENT, bottleneck_gb_s=48.2, sum_gb_s=120.5, rejected=REJECTED)


def test_what_the_links_are_worth() -> None:
    assert (
        choices.worth(EXPLAINED)
        == "48.2 GB/s at the slowest link of the best ring, 120.5 GB/s over all links"
    )
    assert choices.worth(structs.replace(EXPLAINED, bottleneck_gb_s=None, sum_gb_s=None)) == ""


def test_what_was_not_taken() -> None:
    assert choices.not_taken(EXPLAINED, INDEXES) == [
        "node dgx1-1: GPU 0, 1: its ring runs at 24.1 GB/s instead of 48.2",
        "node far: GPU GPU-x: its free GPUs reach 19 GB/s instead of 48.2 GB/s",
    ]


def test_show_explains_the_choice(shell: Shell) -> None:
    async def explained(yard: FakeYard) -> None:
        await yard.add_node()
        queued = await yard.record(a_job(a_spec("train", gpus=2)), "queued")
        job = await yard.start(queued)
        await yard.record(structs.replace(job, placement=EXPLAINED), "running")

    out = shell("show", "train", prepare=explained).out
    assert "  links      48.2 GB/s at the slowest link" in out
    assert "  not taken  node dgx1-1: GPU 0, 1: its ring" in out
    (other, _) = shell("show", "train", "--json", prepare=explained).json["placement"]["rejected"]
    assert (other["gpus"], other["bottleneck_gb_s"]) == (["GPU-b", "GPU-a"], 24.1)
