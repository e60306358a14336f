import pytest

from gpuyard.contracts.job import JobState
from gpuyard_scheduler.core.states import TRANSITIONS, UnknownTransition, after


def test_every_state_is_in_the_table_and_only_ended_ones_lead_nowhere() -> None:
    assert set(TRANSITIONS) == set(JobState)
    assert {state for state, ways in TRANSITIONS.items() if not ways} == {
        state for state in JobState if state.is_final
    }


def test_what_the_table_does_not_know_raises() -> None:
    assert after(JobState.QUEUED, "placed") is JobState.STARTING
    with pytest.raises(UnknownTransition, match="a succeeded job can't be placed"):
        after(JobState.SUCCEEDED, "placed")
