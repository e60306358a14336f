"""Hypothesis strategies for contract structs, read off their field types and ranges."""

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import Struct, inspect
from msgspec.structs import replace

from gpuyard.contracts.hardware import Gpu, Inventory
from gpuyard.contracts.job import JobSpec, MetricRule, TaskSpec
from gpuyard.contracts.log_rule import LogRule

LARGEST = 2**64 - 1
SMALLEST = -(2**63)


@cache
def instances(kind: type[Struct]) -> SearchStrategy[Any]:
    """Any legal message of this type, every field given."""
    return _of(inspect.type_info(kind))


def _of(info: inspect.Type) -> SearchStrategy[Any]:
    return _STRATEGIES[type(info)](info)


def _struct(info: inspect.StructType) -> SearchStrategy[Any]:
    if info.cls is TaskSpec:
        return _tasks()
    fields = {field.name: _of(field.type) for field in info.fields}
    if info.cls is JobSpec:
        fields["tasks"] = st.lists(_tasks(), min_size=1, max_size=3).map(_named_apart)
    if info.cls is LogRule:
        fields["pattern"] = st.just("checkpoint .* is corrupt")
    if info.cls is MetricRule:
        fields["pattern"] = st.just("reward (?P<value>[-0-9.]+)")
    if info.cls is Inventory:
        fields["gpus"] = st.lists(
            _of(inspect.type_info(Gpu)), max_size=3, unique_by=lambda gpu: gpu.uuid
        ).map(tuple)
        fields["links"] = st.just(())
    return st.builds(info.cls, **fields)


def _named_apart(tasks: list[TaskSpec]) -> tuple[TaskSpec, ...]:
    return tuple(replace(task, name=f"task-{number}") for number, task in enumerate(tasks))


def _tasks() -> SearchStrategy[TaskSpec]:
    """Tasks whose GPUs can be divided between their ranks."""
    text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
    shapes = st.tuples(st.integers(1, 64), st.integers(0, 8), st.booleans())
    return st.builds(
        lambda command, shape, env: TaskSpec(
            tuple(command),
            gpus=shape[0] * shape[1],
            ranks=None if shape[2] and shape[1] else shape[0],
            env=env,
        ),
        st.lists(text, min_size=1, max_size=4).filter(lambda words: words[0]),
        shapes,
        st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True), text, max_size=3),
    )


def _text(info: inspect.StrType) -> SearchStrategy[str]:
    if info.pattern is None:
        return st.text(max_size=min(info.max_length or 20, 20))
    bare = info.pattern.removeprefix("^").removesuffix(r"(?!\n)").removesuffix("$")
    return st.from_regex(bare, fullmatch=True)


def _integer(info: inspect.IntType) -> SearchStrategy[int]:
    least = SMALLEST if info.ge is None else info.ge
    return st.integers(least, LARGEST if info.le is None else info.le)


def _number(info: inspect.FloatType) -> SearchStrategy[float]:
    least = info.gt if info.ge is None else info.ge
    return st.floats(least, info.le, exclude_min=info.gt is not None, allow_nan=False)


def _sequence(info: inspect.VarTupleType) -> SearchStrategy[tuple[Any, ...]]:
    most = max(info.min_length or 0, 3)
    return st.lists(_of(info.item_type), min_size=info.min_length or 0, max_size=most).map(tuple)


def _pair(info: inspect.TupleType) -> SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*map(_of, info.item_types))


_STRATEGIES: dict[type, Callable[[Any], SearchStrategy[Any]]] = {
    inspect.Metadata: lambda info: _of(info.type),
    inspect.StructType: _struct,
    inspect.UnionType: lambda info: st.one_of(*map(_of, info.types)),
    inspect.VarTupleType: _sequence,
    inspect.TupleType: _pair,
    inspect.DictType: lambda info: st.dictionaries(_of(info.key_type), _of(info.value_type), max_size=3),
    inspect.EnumType: lambda info: st.sampled_from(info.cls),
    inspect.LiteralType: lambda info: st.sampled_from(info.values),
    inspect.StrType: _text,
    inspect.BytesType: lambda info: st.binary(max_size=min(info.max_length or 40, 40)),
    inspect.IntType: _integer,
    inspect.FloatType: _number,
    inspect.BoolType: lambda _: st.booleans(),
    inspect.NoneType: lambda _: st.none(),
}
