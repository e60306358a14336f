"""The page about topology shows what the commands print."""

import re
from pathlib import Path

import pytest

from gpuyard.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "topology.md"
IMAGES = {
    "dgx-1.svg": "dgx1-p100-8gpu-collapsed-header",
    "nvswitch.svg": "dgx-h100-8gpu-10hca",
    "pcie.svg": "titanv-8gpu-pix-phb-sys",
}
EXAMPLES = re.findall(
    r"```console\n\$ gpuyard ([^\n]*)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
)


def test_every_picture_of_the_page_is_known_here() -> None:
    shown = re.findall(r"\(images/([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(IMAGES)


@pytest.mark.parametrize(("name", "capture"), IMAGES.items())
def test_pictures_are_current(name: str, capture: str, tmp_path: Path) -> None:
    drawn = tmp_path / name
    assert main(["topo", "--capture", capture, "--svg", str(drawn)]) == 0
    committed = PAGE.parent / "images" / name
    again = f"gpuyard topo --capture {capture} --svg docs/concepts/images/{name}"
    assert committed.read_bytes() == drawn.read_bytes(), f"stale: run `{again}`"


@pytest.mark.parametrize(("command", "output"), EXAMPLES)
def test_examples_are_current(command: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 0
    assert capsys.readouterr().out == output


def test_there_are_examples() -> None:
    assert EXAMPLES
