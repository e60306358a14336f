from typing import Annotated

import pytest
from msgspec import Meta

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.runtime.config import ServiceConfig, load, read_file, split_argv


class Wanted(ServiceConfig, frozen=True, kw_only=True):
    tick_s: Annotated[float, Meta(gt=0)] = 0.5
    nodes: tuple[str, ...] = ()
    name: str = "x"


def test_later_sources_win() -> None:
    table = {"tick_s": 1, "name": "table"}
    environment = {"GPUYARD_WANTED__NAME": "environment", "GPUYARD_OTHER__NAME": "other"}
    config = load(Wanted, "wanted", table=table, environment=environment, flags={"tick_s": "2.5"})
    assert (config.tick_s, config.name) == (2.5, "environment")


def test_lists_come_as_json() -> None:
    assert load(Wanted, "wanted", flags={"nodes": '["a", "b"]'}).nodes == ("a", "b")
    with pytest.raises(InvalidSpec, match="not JSON") as caught:
        load(Wanted, "wanted", flags={"nodes": "a,b"})
    assert '["a", "b"]' in caught.value.hint


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("table", {"tik_s": 1}),
        ("flags", {"tik_s": "1"}),
        ("environment", {"GPUYARD_WANTED__TIK_S": "1"}),
    ],
)
def test_unknown_keys_are_refused_naming_the_nearest(source: str, values: dict[str, object]) -> None:
    with pytest.raises(InvalidSpec, match="unknown key `tik_s`") as caught:
        load(Wanted, "wanted", **{source: values})  # type: ignore[arg-type]
    assert "tick_s" in caught.value.hint


def test_values_out_of_range_name_the_place() -> None:
    with pytest.raises(InvalidSpec, match=r"\[wanted\] `tick_s` is .-1.: it must be more than 0"):
        load(Wanted, "wanted", flags={"tick_s": "-1"})


def test_argv() -> None:
    assert split_argv(["--config", "f", "--tick-s=2", "--name", "n"]) == ("f", {"tick_s": "2", "name": "n"})
    with pytest.raises(InvalidSpec, match="wants a value"):
        split_argv(["--name"])
    with pytest.raises(InvalidSpec, match="unexpected argument"):
        split_argv(["name"])


def test_an_unreadable_file_is_named(tmp_path: object) -> None:
    with pytest.raises(InvalidSpec, match=r"/no/such\.toml"):
        read_file("/no/such.toml")
