"""Finding a yard: which server to talk to, and how.

A yard's directory says everything: `yard.json` holds the server's address and secret token, and a lock on
`yard.lock` is held as long as `gpuyard up` runs there. The kernel drops the lock with the process, so that
what is left of a crashed yard is never taken for a running one.
"""

import fcntl
import os
import shlex
import struct
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from gpuyard.contracts.errors import GpuyardError, InvalidSpec, NotFound, Refused, Unavailable
from gpuyard.contracts.strict import check_keys

YARD_FILE = "yard.json"
LOCK_FILE = "yard.lock"
DEFAULT_DIR = ".gpuyard"
_FLOCK = "hhqqi"  # struct flock on 64-bit Linux: type, whence, start, length, pid


@dataclass(frozen=True)
class Address:
    """Where a yard is; `dir` is None if only the server's URL is known."""

    url: str
    dir: Path | None = None


class RunningService(Struct, frozen=True):
    """One process of a yard."""

    pid: int
    health_port: int | None = None


class YardFile(Struct, frozen=True):
    """What `gpuyard up` writes down once everything is ready."""

    url: str
    pid: int
    started_at_s: float
    services: dict[str, RunningService] = {}


class UserConfig(Struct, frozen=True):
    """The user's configuration: one of the two."""

    dir: str = ""
    url: str = ""


def find(dir: str | Path | None = None) -> Address:  # noqa: A002 - it is the flag's name
    """Find the yard that is meant, and make sure that it runs.

    Raises:
        NotFound: there is none.
        Unavailable: there is one, but it does not run.
        InvalidSpec: the user's configuration is wrong.

    """
    place = meant(dir)
    return Address(place) if isinstance(place, str) else address_of(place)


def meant(dir: str | Path | None = None) -> Path | str:  # noqa: A002 - it is the flag's name
    """The directory or the URL of the yard that is meant.

    That is `dir`, else GPUYARD_DIR, GPUYARD_URL, the yard in `.gpuyard` here or in the nearest parent
    directory that has one, or what the user's configuration says.

    Raises:
        NotFound: nothing says which.
        InvalidSpec: the user's configuration is wrong.

    """
    if named := dir or os.environ.get("GPUYARD_DIR"):
        return Path(named).absolute()
    if url := os.environ.get("GPUYARD_URL"):
        return url
    if nearest := _nearest(Path.cwd()):
        return nearest
    user = read_user_config(config_path(os.environ))
    if user.dir:
        return Path(user.dir).expanduser()
    if user.url:
        return user.url
    raise NotFound(
        "no yard found: no --dir, GPUYARD_DIR, GPUYARD_URL, .gpuyard here or above, or user configuration",
        "Start one here with `gpuyard up`, or name one with `--dir DIR`.",
    )


def _nearest(start: Path) -> Path | None:
    """As git does: in this directory, else upward. What belongs to someone else could send us anywhere."""
    candidates = (folder / DEFAULT_DIR for folder in (start, *start.parents))
    return next((folder for folder in candidates if _is_mine(folder) and is_yard(folder)), None)


def _is_mine(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def meant_or_here(dir: str | None) -> Path | str:  # noqa: A002 - it is the flag's name
    """The same, but where nothing says which, the directory that `gpuyard up` would use here."""
    try:
        return meant(dir)
    except NotFound:
        return Path(DEFAULT_DIR).absolute()


def is_yard(folder: Path) -> bool:
    """Whether a yard was ever started in a directory that we may look into."""
    try:
        return (folder / LOCK_FILE).exists()
    except OSError:
        return False


def address_of(folder: Path) -> Address:
    """The address of the yard in a directory.

    Raises:
        NotFound: no yard was ever started there.
        Unavailable: it does not run now, or is not ready yet.

    """
    start = f"Start it with `gpuyard up{dir_flag(folder)}`."
    holder = lock_holder(folder)
    yard = load(folder)
    if not is_yard(folder):
        raise NotFound(f"there is no yard in {folder}", start)
    if holder is None:
        raise Unavailable(f"the yard in {folder} is not running", start)
    if yard is None or yard.pid != holder:
        raise Unavailable(f"the yard in {folder} is still starting", "Try again in a moment.")
    return Address(yard.url, folder)


def dir_flag(folder: Path) -> str:
    """What to add to a command so that it means this yard; nothing where it is the default."""
    return "" if folder == Path(DEFAULT_DIR).absolute() else f" --dir {shlex.quote(str(folder))}"


def load(folder: Path) -> YardFile | None:
    """Read what `gpuyard up` wrote; None if it never got ready there."""
    path = folder / YARD_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=YardFile)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    except msgspec.MsgspecError as error:
        raise InvalidSpec(f"{path} is damaged: {error}", "Delete it and run `gpuyard up` again.") from error


def save(folder: Path, yard: YardFile) -> None:
    """Write it atomically, readable by its owner alone."""
    write_private(folder / YARD_FILE, msgspec.json.format(msgspec.json.encode(yard)))


def write_private(path: Path, data: bytes) -> None:
    """Replace a file in one step; only its owner can read it."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def lock_holder(folder: Path) -> int | None:
    """The pid of the `gpuyard up` that runs there; None if there is none. Only asks, never takes the lock.

    Never call it in the process that holds the lock: closing any descriptor of the file would drop it.
    """
    path = folder / LOCK_FILE
    try:
        with path.open("rb") as file:
            wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, wanted))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    return None if kind == fcntl.F_UNLCK else pid


def config_path(environment: Mapping[str, str]) -> Path:
    """Where the user's configuration is."""
    base = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "gpuyard" / "config.toml"


def read_user_config(path: Path) -> UserConfig:
    """Read the user's configuration; a missing file is an empty one."""
    try:
        table = tomllib.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return UserConfig()
    except OSError as error:
        raise _unreadable(path, error) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSpec(f"{path} is not TOML: {error}") from error
    try:
        check_keys(table, UserConfig)
        return msgspec.convert(table, UserConfig)
    except InvalidSpec as error:
        raise InvalidSpec(f"{path}: {error.message}", error.hint) from error
    except msgspec.ValidationError as error:
        raise InvalidSpec(f"{path}: {error}") from error


def _unreadable(path: Path, error: OSError) -> GpuyardError:
    return Refused(
        f"{path} can't be read: {error.strerror}", "A yard belongs to the user who started it; ask them."
    )
