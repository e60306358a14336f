"""The program as it runs in a rank: on its own in a directory, in an environment that knows nothing of us."""

import ast
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import gpuyard.probe
from gpuyard.client.probe import Done, Finding, Group, Pair, Plan, Unfit, parse_line, shipped_program
from gpuyard.contracts.log import OUT, LogLine

FOLDER = Path(gpuyard.probe.__path__[0])


@pytest.fixture
async def shipped() -> AsyncIterator[Path]:
    async with shipped_program() as folder:
        yield folder


def run(folder: Path, gpus: str, *options: str, **environment: str) -> tuple[int, list[Finding]]:
    program = subprocess.run(
        [sys.executable, "-m", "probe", *options],
        cwd=folder,
        env=os.environ | {"GPUYARD_GPUS": gpus, "CUDA_VISIBLE_DEVICES": "", **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    texts = enumerate(program.stdout.splitlines())
    lines = [LogLine("j", 1, 0, seq, OUT, 1.0, text.encode()) for seq, text in texts]
    return program.returncode, [finding for line in lines if (finding := parse_line(line))]


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.name)
def test_it_imports_torch_and_the_standard_library_only(file: Path) -> None:
    known = sys.stdlib_module_names | {"torch"}
    for node in ast.walk(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        assert {name.partition(".")[0] for name in names} <= known


async def test_two_devices_are_measured_from_beginning_to_end(shipped: Path) -> None:
    pytest.importorskip("torch", reason="the `examples` extra is not installed")
    code, findings = run(shipped, "GPU-a,GPU-b", "--device", "cpu")
    assert code == 0
    plan, pair, group, done = findings
    assert plan == Plan(("GPU-a", "GPU-b"), (2,))
    assert isinstance(pair, Pair)
    assert (pair.a, pair.b, pair.is_sound, pair.p2p) == ("GPU-a", "GPU-b", True, None)
    assert min(pair.gb_s) > 0
    assert isinstance(group, Group)
    assert (group.gpus, group.is_sound) == (("GPU-a", "GPU-b"), True)
    assert group.gb_s > 0
    assert done == Done()


@pytest.mark.parametrize("gpus", ["", "GPU-a"])
async def test_one_gpu_has_no_link(shipped: Path, gpus: str) -> None:
    pytest.importorskip("torch", reason="the `examples` extra is not installed")
    code, (unfit,) = run(shipped, gpus, "--device", "cpu")
    assert code == 3
    assert isinstance(unfit, Unfit)
    assert "a link needs two" in unfit.message


async def test_gpus_that_torch_does_not_see_are_named(shipped: Path) -> None:
    pytest.importorskip("torch", reason="the `examples` extra is not installed")
    code, (unfit,) = run(shipped, "GPU-a,GPU-b")
    assert code == 3
    assert isinstance(unfit, Unfit)
    assert "sees no GPU here" in unfit.message


async def test_without_torch_it_says_what_to_install(shipped: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")")
    code, (unfit,) = run(shipped, "GPU-a,GPU-b", PYTHONPATH=str(tmp_path))
    assert code == 3
    assert isinstance(unfit, Unfit)
    assert f"torch can't be imported by {sys.executable}" in unfit.message
    assert "pip install torch" in unfit.hint
