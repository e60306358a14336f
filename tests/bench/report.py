"""docs/benchmarks.md from the measured figures."""

from typing import Any

_HEAD = """# Benchmarks

Written by `make bench`; nothing here is typed by hand. Each figure is the median of several runs, with the
least and the most beside it. The services, the NATS server and the load run on the same machine. Every
acknowledged request and record is on disk (`sync_interval: always`).

"""


def render(result: dict[str, Any]) -> str:
    machine = result["machine"]
    where = f"{machine['cores']} cores of {machine['cpu']}, Linux {machine['kernel']}"
    lines = [
        f"Measured {result['at']} on {where}, Python {machine['python']}, one simulated node of 8 GPUs.",
        "",
        "| figure | unit | median | least | most | runs | promised | holds |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    for figure in result["figures"]:
        holds = {True: "yes", False: "**no**", None: ""}[figure["holds"]]
        numbers = " | ".join(f"{figure[key]:.3g}" for key in ("median", "least", "most"))
        cells = (figure["name"], figure["unit"], numbers, figure["runs"], figure["promise"], holds)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return _HEAD + "\n".join(lines) + "\n"
