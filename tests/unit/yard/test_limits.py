import resource

import pytest

from gpuyard.contracts.errors import Unavailable
from gpuyard.yard.limits import ENOUGH, raise_open_files, wanted_limit

UNLIMITED = -1


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [
        (1024, 1048576, ENOUGH),
        (1024, UNLIMITED, ENOUGH),
        (1024, 2048, 2048),
        (256, 256, 256),
        (65536, 65536, 65536),
        (UNLIMITED, UNLIMITED, ENOUGH),
    ],
)
def test_the_limit_is_raised_as_far_as_needed(soft: int, hard: int, wanted: int) -> None:
    assert wanted_limit(soft, hard) == wanted


def test_too_few_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 512))
    with pytest.raises(Unavailable, match="only 512 files") as error:
        raise_open_files()
    assert "ulimit -n" in error.value.hint
