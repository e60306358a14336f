import pytest

torch = pytest.importorskip("torch", reason="the `examples` extra is not installed")

from gpuyard.probe import payload  # noqa: E402

CPU = torch.device("cpu")
SIZE = 1 << 16


def test_a_payload_is_made_alike_at_both_ends() -> None:
    sent = payload.words(7, SIZE, CPU)
    assert sent.nbytes == SIZE
    assert payload.is_same(sent, payload.words(7, SIZE, CPU))


def test_a_payload_is_neither_the_one_before_nor_zeros() -> None:
    sent = payload.words(7, SIZE, CPU)
    assert not payload.is_same(sent, payload.words(8, SIZE, CPU))
    assert not payload.is_same(sent, torch.zeros_like(sent))
    assert int((sent == 0).sum()) <= 1, "zeros instead of any part of it would show"


def test_one_wrong_bit_is_seen() -> None:
    sent = payload.words(7, SIZE, CPU)
    sent[SIZE // 8] ^= 1
    assert not payload.is_same(sent, payload.words(7, SIZE, CPU))


@pytest.mark.parametrize("ranks", [2, 3, 8, 1024])
def test_the_total_is_the_exact_sum_of_all_terms(ranks: int) -> None:
    added = payload.terms(0, SIZE, CPU)
    for rank in range(1, ranks):
        added += payload.terms(rank, SIZE, CPU)
    assert payload.is_same(added, payload.total(ranks, SIZE, CPU))
    assert not payload.is_same(added, payload.total(ranks + 1, SIZE, CPU))
