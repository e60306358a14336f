from pathlib import Path

import pytest

from gpuyard.contracts.errors import InvalidSpec, NotFound
from gpuyard.topology import captures
from gpuyard.topology.capture import parse_capture
from gpuyard.topology.table_text import TopologyError

TWO = "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n"


@pytest.mark.parametrize("name", captures.names())
def test_every_shipped_capture_loads_with_its_source_and_model(name: str) -> None:
    capture = captures.load(name)
    assert capture.name == name
    assert capture.source
    assert capture.model.name
    assert capture.model.pcie


def test_a_good_selection_is_shipped() -> None:
    counts = {len(captures.load(name).topology.gpus) for name in captures.names()}
    assert {1, 2, 3, 4, 5, 6, 8, 16} <= counts


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("dgx-h100", "dgx-h100-8gpu-10hca"),
        ("azure-ndv2-v100-8gpus", "azure-ndv2-v100-8gpu"),
        ("6GPU-4plus2", "6gpu-4plus2"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(NotFound) as caught:
        captures.load(name)
    assert f"Did you mean `{nearest}`?" in caught.value.hint
    assert all(known in caught.value.hint for known in captures.names())


@pytest.mark.parametrize("name", ["", "zzzzzzzz", "no/such/file.txt", "a\x00b"])
def test_what_is_neither_name_nor_file_is_not_found(name: str) -> None:
    with pytest.raises(NotFound, match="no captured topology"):
        captures.load(name)


def test_a_folder_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="no ordinary file"):
        captures.load(str(tmp_path))


def test_a_file_works_as_well(tmp_path: Path) -> None:
    path = tmp_path / "my-box.txt"
    path.write_text("# 2x RTX 4090 under the desk\n" + TWO)
    capture = captures.load(str(path))
    assert (capture.name, capture.source) == ("my-box", "2x RTX 4090 under the desk")
    assert capture.model.name == "NVIDIA GeForce RTX 4090"


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "box.txt"
    path.write_text(TWO[:-12])
    with pytest.raises(TopologyError):
        captures.load(str(path))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_other_letters_around_the_matrix_do_no_harm(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "box.txt"
    path.write_bytes(f"# Köln, 2x RTX 4090\n{TWO}".encode(encoding))
    assert len(captures.load(str(path)).topology.gpus) == 2


@pytest.mark.parametrize("content", [b"\xff\xfe\x00GPU0", TWO.encode("utf-16"), bytes(range(256))])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "box.txt"
    path.write_bytes(content)
    with pytest.raises(TopologyError, match="header row"):
        captures.load(str(path))


def test_letters_that_are_no_text_inside_the_matrix_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "box.txt"
    path.write_bytes(TWO.encode().replace(b"PIX", b"PI\xff"))
    with pytest.raises(TopologyError, match="line 2"):
        captures.load(str(path))


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "box.txt"
    with path.open("wb") as file:
        file.truncate(1 << 32)
    with pytest.raises(TopologyError, match="bytes, so this is no topology"):
        captures.load(str(path))


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "box.txt"
    path.write_text(TWO)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InvalidSpec, match="can't read the topology"):
        captures.load(str(path))


@pytest.mark.timeout(20)
def test_a_first_line_without_end_is_no_trouble() -> None:
    assert (
        parse_capture("box", "# A100 " + "80 GB " * 600_000 + "\n" + TWO).model.name
        == "NVIDIA A100-SXM4-80GB"
    )


def test_a_name_that_no_terminal_could_show_is_made_one(tmp_path: Path) -> None:
    path = tmp_path / "b\x1b[31mo\udcffx.txt"
    path.write_text(TWO)
    name = captures.load(str(path)).name
    assert name.isprintable()
    assert name.encode()


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("# 2x RTX 3090\n# model: NVIDIA L40S (assumed)\n", "NVIDIA L40S"),
        ("# model: Fancy 9000\n", "Fancy 9000"),
        ("# some box\n", ""),
        ("", ""),
    ],
)
def test_a_model_line_wins_over_the_first_line(text: str, model: str) -> None:
    assert parse_capture("box", text + TWO).model.name == model
