"""Metrics in Prometheus' format. Each service owns a registry; nothing is global."""

from collections.abc import Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)


class Metrics:
    """A registry that hands out the same metric for the same name."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._made: dict[str, Counter | Gauge | Histogram] = {}

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:  # noqa: A002 - Prometheus' word
        return self._get(Counter, name, help, labels)

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Gauge:  # noqa: A002 - Prometheus' word
        return self._get(Gauge, name, help, labels)

    def histogram(self, name: str, help: str, labels: Sequence[str] = ()) -> Histogram:  # noqa: A002 - Prometheus' word
        return self._get(Histogram, name, help, labels)

    def render(self) -> bytes:
        """All metrics as Prometheus reads them."""
        return generate_latest(self._registry)

    def _get(self, kind: type[_Metric], name: str, text: str, labels: Sequence[str]) -> _Metric:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = kind(name, text, labels, registry=self._registry)
        assert isinstance(made, kind), f"{name} is already a {type(made).__name__}"
        return made
