import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.ids import GPU_ID_PATTERN, is_id, job_id, slug


@pytest.mark.parametrize("text", ["a", "0", "node-7", "a-", "a" * 63])
def test_legal(text: str) -> None:
    assert is_id(text)


@pytest.mark.parametrize("text", ["", "-a", "A", "a_b", "a.b", "a/b", "a*", ">", "a\0", "a\n", "ä", "a" * 64])
def test_illegal(text: str) -> None:
    assert not is_id(text)


@given(st.text(max_size=200))
def test_any_text_has_a_legal_slug(text: str) -> None:
    assert is_id(slug(text))
    assert slug(slug(text)) == slug(text)


def test_slug_keeps_what_it_can() -> None:
    assert slug("My Model, v2.1 (final).py") == "my-model-v2-1-final-py"
    assert slug("***") == "job"


@given(st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True), st.text(max_size=80), st.integers(6, 20))
def test_a_job_id_is_legal_and_repeatable(name: str, request_id: str, digits: int) -> None:
    made = job_id(name, request_id, digits)

    assert is_id(made)
    assert made == job_id(name, request_id, digits)
    assert made.startswith(name[:40].rstrip("-"))


def test_requests_get_different_job_ids() -> None:
    assert len({job_id("digits", f"request-{number}") for number in range(1000)}) == 1000


def test_longer_job_ids_begin_with_the_shorter() -> None:
    assert job_id("digits", "r1", 10).startswith(job_id("digits", "r1", 6))


@pytest.mark.parametrize(
    "uuid",
    ["GPU-8f3c1c5e-4f0e-11ee-be56-0242ac120002", "MIG-GPU-8f3c1c5e-4f0e-11ee-be56-0242ac120002/1/0"],
)
def test_gpu_ids_of_nvml(uuid: str) -> None:
    assert re.match(GPU_ID_PATTERN, uuid)
