"""The services' settings file, written by `gpuyard up`. Pure: values in, TOML text out."""

import json
from collections.abc import Mapping
from typing import Any

from gpuyard.yard.endpoints import Endpoints
from gpuyard.yard.layout import Layout
from gpuyard.yard.options import Options

SERVICES = ("logger", "monitor", "scheduler", "executor")
"""In the order of their start: whoever watches is there before something happens."""


def service_settings(options: Options, layout: Layout, endpoints: Endpoints) -> dict[str, dict[str, Any]]:
    """One table for each service and one for what they share."""
    nodes = [{"id": node.id, "capture": node.capture} for node in options.nodes]
    tables: dict[str, dict[str, Any]] = {
        "bus": {"url": endpoints.url},
        "telemetry": {"otlp_url": options.otlp_url},
        "monitor": {"nodes": nodes},
        "scheduler": {},
        "executor": {
            "nodes": [node.id for node in options.nodes],
            "dir": str(layout.data("executor")),
            "address": "127.0.0.1",
            "runtime": "process",
        },
        "logger": {"dir": str(layout.data("logger"))},
    }
    for name in SERVICES:
        tables[name]["health_port"] = endpoints.ports[name]
    return tables


def render_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Write tables of plain values as TOML."""
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in table.items())
        for name, table in tables.items()
    )


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    # TOML reads JSON's strings, numbers and booleans; only the delete character must be escaped as well.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
