import hashlib
import io
import os
import shutil
import socket
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.client import workdir
from gpuyard.client.workdir import pack, scan
from gpuyard.contracts.errors import InvalidSpec

names = st.text("abcXYZ.-_ é", min_size=1, max_size=8).filter(lambda name: name.strip(".") and name != "-")
trees = st.dictionaries(
    st.lists(names, min_size=1, max_size=3).map(tuple),
    st.tuples(st.binary(max_size=200), st.booleans()),
    max_size=6,
)
Tree = dict[tuple[str, ...], tuple[bytes, bool]]


def write(root: Path, tree: Tree, order: int, mtime_s: int) -> Path:
    """Lay out a tree; whatever a path collides with is left out, the same way for every order."""
    kept: Tree = {}
    for path in sorted(tree):
        if not any(path[:cut] in kept for cut in range(1, len(path))):
            kept[path] = tree[path]
    for path in sorted(kept, reverse=bool(order)):
        file = root.joinpath(*path)
        file.parent.mkdir(parents=True, exist_ok=True)
        data, is_executable = kept[path]
        file.write_bytes(data)
        file.chmod(0o751 if is_executable else 0o640)
        os.utime(file, (mtime_s, mtime_s))
    return root


@settings(max_examples=60, deadline=None)
@given(trees)
def test_equal_content_packs_to_equal_bytes_and_comes_back(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        packed = pack(write(Path(first), tree, 0, 1_000))
        assert packed == pack(write(Path(second), tree, 1, 2_000_000))
        with tempfile.TemporaryDirectory() as unpacked:
            unpack(packed.data, unpacked)
            assert pack(Path(unpacked)) == packed
            assert content(Path(unpacked)) == content(Path(first))


@settings(max_examples=30, deadline=None)
@given(trees.filter(bool))
def test_any_other_content_packs_to_another_name(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = write(Path(folder), tree, 0, 1_000)
        before = pack(root).name
        file = next(path for path in root.rglob("*") if path.is_file())
        file.write_bytes(file.read_bytes() + b"!")
        assert pack(root).name != before


def unpack(data: bytes, to: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(to, filter="data")


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def paths(root: Path) -> list[str]:
    return [entry.path for entry in scan(root)]


def test_the_name_is_the_hash_of_the_bytes(tmp_path: Path) -> None:
    packed = pack(tmp_path)
    assert packed.name == f"sha256-{hashlib.sha256(packed.data).hexdigest()}"


def test_links_inside_and_empty_directories_are_kept(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "latest").symlink_to("data")
    (tmp_path / "data" / "up").symlink_to("../train.py")
    (tmp_path / "train.py").write_text("print(1)")
    unpack(pack(tmp_path).data, str(tmp_path / "data"))
    assert (tmp_path / "data" / "latest").readlink() == Path("data")
    assert (tmp_path / "data" / "data" / "up").readlink() == Path("../train.py")


def test_what_no_job_needs_is_skipped(tmp_path: Path) -> None:
    for skipped in (
        ".git/a",
        ".venv/a",
        "x/__pycache__/a",
        ".gpuyard/a",
        ".demo/a",
        "x/node_modules/a",
        "x/b.pyc",
    ):
        file = tmp_path / skipped
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    (tmp_path / ".gitignore").write_text("")
    assert paths(tmp_path) == [".gitignore", "x"]


def test_a_yard_inside_stays_behind_whatever_its_name(tmp_path: Path) -> None:
    yard = tmp_path / "x" / "mine"
    yard.mkdir(parents=True)
    for name in ("yard.lock", "yard.json"):
        (yard / name).write_text("a secret token")
    assert paths(tmp_path) == ["x"]
    with pytest.raises(InvalidSpec, match="a yard's own directory"):
        pack(yard)


def test_the_ignore_file_is_obeyed(tmp_path: Path) -> None:
    for name in ("a.bin", "data/a.bin", "data/keep", "runs/1/log", "x/runs", "x/data/a", "keep"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    (tmp_path / ".gpuyardignore").write_text("# big things\n\n*.bin\n/runs/\nx/data\n")
    assert paths(tmp_path) == [
        ".gpuyardignore",
        "data",
        "data/keep",
        "keep",
        "x",
        "x/runs",
    ]


def test_bringing_files_back_is_not_supported_and_said_so(tmp_path: Path) -> None:
    (tmp_path / ".gpuyardignore").write_text("*.bin\n!keep.bin\n")
    with pytest.raises(InvalidSpec, match=r"!keep\.bin"):
        pack(tmp_path)


@pytest.mark.parametrize("target", ["/etc", "/etc/passwd", "..", "../other", "sub/../../other", "self"])
def test_links_that_leave_are_refused(tmp_path: Path, target: str) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "self").symlink_to(target)
    with pytest.raises(InvalidSpec, match="self` leads out"):
        pack(root)


def test_a_link_that_leaves_through_another_link_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "here").symlink_to("..")
    (root / "bad").symlink_to("sub/here/../outside")
    with pytest.raises(InvalidSpec, match="bad` leads out"):
        pack(root)


def test_sockets_and_pipes_are_refused_unless_ignored() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        root = Path(folder)
        listener.bind(str(root / "ctl"))
        os.mkfifo(root / "pipe")
        with pytest.raises(InvalidSpec, match="a socket, a pipe or a device"):
            pack(root)
        (root / ".gpuyardignore").write_text("ctl\npipe\n")
        assert paths(root) == [".gpuyardignore"]


def test_too_much_names_the_biggest(tmp_path: Path) -> None:
    for name, size_bytes in (("huge.bin", 200 << 20), ("big.bin", 100 << 20), ("small.txt", 5)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size_bytes)
    with pytest.raises(
        InvalidSpec, match=r"300 MiB.*`huge.bin` \(200 MiB\), `big.bin` \(100 MiB\)"
    ) as caught:
        pack(tmp_path)
    assert ".gpuyardignore" in caught.value.hint


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workdir, "MOST_ENTRIES", 3)
    for number in range(4):
        (tmp_path / str(number)).touch()
    with pytest.raises(InvalidSpec, match="more than 3"):
        pack(tmp_path)


@pytest.mark.parametrize("name", ["nothing", "a file"])
def test_what_is_no_directory_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "a file").touch()
    with pytest.raises(InvalidSpec, match=f"{name}` for the working directory"):
        pack(tmp_path / name)


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory of someone who is not root, and may not read everything in it."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    is_root = os.geteuid() == 0
    (root / "secret").write_text("x")
    (root / "closed").mkdir()
    (root / "secret").chmod(0)
    (root / "closed").chmod(0)
    if is_root:
        os.seteuid(65534)
    try:
        yield root
    finally:
        if is_root:
            os.seteuid(0)
        (root / "closed").chmod(0o700)
        shutil.rmtree(root)


def test_unreadable_files_and_directories_are_named(unprivileged: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"closed` .*Permission denied"):
        pack(unprivileged)


def test_an_unreadable_file_is_named(unprivileged: Path) -> None:
    if os.geteuid() == 65534:
        os.seteuid(0)
        (unprivileged / "closed").chmod(0o755)
        os.seteuid(65534)
    else:
        (unprivileged / "closed").chmod(0o755)
    with pytest.raises(InvalidSpec, match=r"secret` .*Permission denied"):
        pack(unprivileged)
