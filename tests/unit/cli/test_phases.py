import pytest
from msgspec import structs

from gpuyard.cli.phases import Phases
from gpuyard.contracts.job import JobState
from tests.unit.cli.test_terminal import Screen
from tests.unit.client.fake_yard import PLACEMENT, a_job

QUEUED = a_job()
STARTING = structs.replace(QUEUED, state=JobState.STARTING, attempt=1, placement=PLACEMENT)
WIPE = "\r\x1b[2K"


@pytest.fixture(autouse=True)
def no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def test_on_a_terminal_a_phase_replaces_the_one_before() -> None:
    screen = Screen()
    phases = Phases(screen)
    phases.show(QUEUED, {})
    assert screen.getvalue() == "queued: waits for 2 free GPUs"
    phases.show(QUEUED, {})
    assert screen.getvalue() == "queued: waits for 2 free GPUs"
    phases.show(STARTING, {"GPU-a": 0, "GPU-d": 3})
    assert screen.getvalue().split(WIPE) == [
        "queued: waits for 2 free GPUs",
        "starting: on node dgx1-1: GPU 0, 3 (NV2 48 GB/s)\n",
    ]


def test_the_live_line_makes_room_for_output_once() -> None:
    screen = Screen()
    phases = Phases(screen)
    phases.show(QUEUED, {})
    phases.wipe()
    phases.wipe()
    assert screen.getvalue() == f"queued: waits for 2 free GPUs{WIPE}"
