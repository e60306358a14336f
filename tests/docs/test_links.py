"""Links between pages lead to files that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "examples/*/*.md", "services/*/*.md", "deploy/**/*.md")
    for page in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_there_are_pages() -> None:
    assert ROOT / "docs" / "guides" / "backend.md" in PAGES
