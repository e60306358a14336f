from gpuyard.client.locate import RunningService
from gpuyard.yard.nodes import Node
from gpuyard.yard.outcome import RunningYard
from gpuyard.yard.summary import render_summary


def test_the_summary_says_what_runs_where_and_how_to_stop_it() -> None:
    services = {"nats-server": RunningService(11), "logger": RunningService(12, 20001)}
    text = render_summary(RunningYard("/my yard", 7, "127.0.0.1:20000", services), (Node("box"),), 1.84)
    assert text.splitlines() == [
        "Ready after 1.8 s in /my yard",
        "  nats-server  pid 11       127.0.0.1:20000",
        "  logger       pid 12       http://127.0.0.1:20001/readyz",
        "  nodes        box",
        "  logs         /my yard/logs",
        "Stop it with `gpuyard down --dir '/my yard'`.",
    ]
