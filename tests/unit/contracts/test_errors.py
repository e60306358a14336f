import pytest

from gpuyard.contracts.errors import (
    Failure,
    Fault,
    GpuyardError,
    InvalidSpec,
    Refused,
    Unavailable,
    error_from,
)
from gpuyard.contracts.render import error_kinds


@pytest.mark.parametrize("kind", error_kinds())
def test_an_error_survives_the_wire(kind: type[GpuyardError]) -> None:
    error = kind("no such job", "Run `gpuyard ps`.", job="j1", tries=3)

    twin = error_from(error.to_failure())

    assert type(twin) is kind
    assert (twin.message, twin.hint, str(twin)) == ("no such job", "Run `gpuyard ps`.", "no such job")
    assert twin.details == {"job": "j1", "tries": "3"}
    assert error.to_failure().retryable == (kind is Unavailable)


def test_an_unknown_code_is_a_fault_that_keeps_its_words() -> None:
    error = error_from(Failure("quota_of_tomorrow", "too much", "Wait."))

    assert type(error) is Fault
    assert (error.message, error.hint) == ("too much", "Wait.")


def test_codes_and_exit_codes_are_those_documented() -> None:
    assert {kind.code: kind.exit_code for kind in error_kinds()} == {
        "invalid": 2,
        "not_found": 3,
        "refused": 4,
        "conflict": 5,
        "unavailable": 6,
        "fault": 7,
    }


def test_details_are_not_shared() -> None:
    failure = Refused("full", gpus=9).to_failure()

    error_from(failure).details["gpus"] = "1"

    assert failure.details == {"gpus": "9"}
    assert InvalidSpec("bad").details == {}
