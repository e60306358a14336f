from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the `examples` extra is not installed")

from gpuyard.client.probe import Pair, parse_line  # noqa: E402
from gpuyard.contracts.log import OUT, LogLine  # noqa: E402
from gpuyard.probe.devices import Device  # noqa: E402
from gpuyard.probe.effort import Effort  # noqa: E402
from gpuyard.probe.measurement import measure_pairs  # noqa: E402
from gpuyard.probe.pairs import WARM_UP, one_way  # noqa: E402

CPU = torch.device("cpu")
LITTLE = Effort((1 << 12, 1 << 16), (1 << 12,), 3)
COPIES = 2 * (WARM_UP + 3)
DEVICES = [Device(f"GPU-{letter}", CPU) for letter in "abc"]

Corrupt = Callable[[Any, Any], object]


def zeros(to: Any, _from: Any) -> object:
    return to.zero_()


def nothing(_to: Any, _from: Any) -> object:
    return None


def one_bit(to: Any, from_: Any) -> object:
    to.copy_(from_)
    to[-1] ^= 1 << 30
    return to


def half(to: Any, from_: Any) -> object:
    return to[: len(to) // 2].copy_(from_[: len(to) // 2])


def test_copies_between_host_tensors_have_a_rate_and_arrive() -> None:
    way = one_way(CPU, CPU, LITTLE)
    assert way.gb_s > 0
    assert (way.copies, way.wrong) == (COPIES, 0)


@pytest.mark.parametrize("copy", [zeros, nothing, one_bit, half])
def test_every_corrupted_copy_is_noticed(copy: Corrupt) -> None:
    assert one_way(CPU, CPU, LITTLE, copy).wrong == COPIES


def test_a_copy_that_fails_now_and_then_is_noticed() -> None:
    calls = []

    def flaky(to: Any, from_: Any) -> object:
        calls.append(len(to))
        return to.copy_(from_) if len(calls) % 5 else None

    assert one_way(CPU, CPU, LITTLE, flaky).wrong == len(calls) // 5 == 2


def test_each_pair_is_told_and_a_corrupted_one_has_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    calls = []

    def first_pair_corrupts(to: Any, from_: Any) -> object:
        calls.append(1)
        return None if len(calls) <= COPIES else to.copy_(from_)

    rates = measure_pairs(DEVICES, LITTLE, first_pair_corrupts)
    told = [parse_line(_line(text)) for text in capsys.readouterr().out.splitlines()]
    assert [(pair.a, pair.b, pair.wrong) for pair in told if isinstance(pair, Pair)] == [
        ("GPU-a", "GPU-b", (COPIES, 0)),
        ("GPU-a", "GPU-c", (0, 0)),
        ("GPU-b", "GPU-c", (0, 0)),
    ]
    assert rates[0, 1] == 0
    assert min(rates[0, 2], rates[1, 2]) > 0


def _line(text: str) -> LogLine:
    return LogLine("probe-n0-abc", 1, 0, 0, OUT, 1.0, text.encode())
