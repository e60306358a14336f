"""docs/concepts/health.md says what the tables in the code say.

`python -m tests.unit.monitor.test_health_page` prints what belongs into the page.
"""

from pathlib import Path

from gpuyard_monitor.core import xids
from gpuyard_monitor.core.changes import KINDS
from gpuyard_monitor.core.rules import RULES

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "health.md"


def tables() -> dict[str, str]:
    """Every table of the page, by what it is about."""
    rules = ((f"`{rule.name}`", rule.sets, rule.clears, rule.remedy) for rule in RULES)
    return {
        "rules": _table(("rule", "what sets it", "what clears it", "what to do"), *rules),
        "hardware": _table(("Xid", "meaning"), *((str(at), text) for at, text in xids.HARDWARE.items())),
        "programs": _table(("Xid", "meaning"), *((str(at), text) for at, text in xids.PROGRAM.items())),
        "events": _table(("kind", "meaning"), *((f"`{kind}`", text) for kind, text in KINDS.items())),
    }


def _table(*rows: tuple[str, ...]) -> str:
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join((head, "|" + "---|" * len(rows[0]), *rest))


def test_the_page_holds_every_table_as_it_is() -> None:
    page = PAGE.read_text()
    assert [name for name, table in tables().items() if f"\n\n{table}\n\n" not in page + "\n"] == []


if __name__ == "__main__":
    print("\n\n".join(tables().values()))
