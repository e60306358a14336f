import tomllib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.yard.endpoints import NATS, Endpoints
from gpuyard.yard.layout import Layout
from gpuyard.yard.nodes import Node
from gpuyard.yard.options import Options
from gpuyard.yard.settings import SERVICES, render_toml, service_settings

keys = st.text("abcxyz_", min_size=1, max_size=8)
plain = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8"), max_size=20)
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


@settings(deadline=None)  # a loaded machine may stop for a second
@given(st.dictionaries(keys, st.dictionaries(keys, values, max_size=4), max_size=4))
def test_toml_reads_back_as_it_was(tables: dict[str, dict[str, object]]) -> None:
    assert tomllib.loads(render_toml(tables)) == tables


def test_each_service_gets_what_it_needs() -> None:
    options = Options("/y", (Node("box"), Node("v100-1", "v100")), otlp_url="http://127.0.0.1:4318")
    endpoints = Endpoints("secret", {NATS: 1, "monitor": 2, "scheduler": 3, "executor": 4, "logger": 5})
    tables = service_settings(options, Layout(Path("/y")), endpoints)
    assert tables["bus"] == {"url": "nats://secret@127.0.0.1:1"}
    assert tables["telemetry"] == {"otlp_url": "http://127.0.0.1:4318"}
    assert tables["monitor"]["nodes"] == [
        {"id": "box", "capture": ""},
        {"id": "v100-1", "capture": "v100"},
    ]
    assert tables["executor"]["nodes"] == ["box", "v100-1"]
    assert tables["executor"]["dir"] == "/y/executor"
    assert tables["logger"]["dir"] == "/y/logger"
    assert [tables[name]["health_port"] for name in SERVICES] == [endpoints.ports[name] for name in SERVICES]
