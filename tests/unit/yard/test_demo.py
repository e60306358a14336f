import importlib.util
from pathlib import Path

import pytest

from gpuyard.contracts.errors import NotFound, Unavailable
from gpuyard.yard import demo
from gpuyard.yard.demo import EXAMPLE, DemoFailed, check_example_packages, find_example, judged
from gpuyard.yard.layout import Layout

LAYOUT = Layout(Path("/y"))
BOTH = b"[0] rank 0 epoch 1\n[1] rank 1 epoch 1\n"


def test_a_good_result_is_accepted() -> None:
    assert judged(BOTH + b"[0] test accuracy: 0.978\n", LAYOUT) == 0.978


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (BOTH, "did not print its test accuracy"),
        (BOTH + b"[0] test accuracy: 0.949\n", "below 0.95"),
        (BOTH + b"[0] test accuracy: 0.99\n[0] test accuracy: 0.31\n", "0.31"),
        (b"[0] test accuracy: 0.978\n", "rank 1"),
        (b"", "rank 0"),
    ],
)
def test_anything_else_fails_and_says_where_to_look(output: bytes, words: str) -> None:
    with pytest.raises(DemoFailed, match=words) as error:
        judged(output, LAYOUT)
    assert "/y/logs" in error.value.hint
    assert error.value.exit_code == 1


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else name)
    with pytest.raises(Unavailable, match="needs torch, not") as error:
        check_example_packages()
    assert "make setup" in error.value.hint


def test_the_example_here_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    beside_the_sources = find_example()
    assert beside_the_sources.is_absolute()
    (tmp_path / EXAMPLE).parent.mkdir(parents=True)
    (tmp_path / EXAMPLE).touch()
    assert find_example() == EXAMPLE


def test_without_the_example_there_is_no_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "EXAMPLE", Path("no") / "such.toml")
    with pytest.raises(NotFound, match=r"no/such\.toml"):
        find_example()
