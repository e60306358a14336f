import base64
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gpuyard.client.aio import AsyncClient
from gpuyard.client.export import FORMATS, Exported, Format
from gpuyard.contracts.errors import InvalidSpec, Refused
from gpuyard.contracts.job import Job
from gpuyard.contracts.log import ERR, OUT, LogBatch, LogChunk
from tests.unit.client.stored import StoredYard, stored_yard
from tests.unit.logger.batches import JOB, batch

HOSTILE = (b"plain", b"", "größer".encode(), b"\xff\x00\x1b[31m\r", b"tab\there", b"z" * 300_000)
AT_S = 1_700_000_000.25


async def hostile_job(yard: StoredYard) -> Job:
    chunks = tuple(LogChunk(ERR if n % 2 else OUT, AT_S, line + b"\n") for n, line in enumerate(HOSTILE))
    first = LogBatch(JOB, 1, 0, 0, len(HOSTILE), chunks, end=True)
    return await yard.add_job("hostile", 1.0, first, batch(0, 3, attempt=2, rank=1, at_s=AT_S), attempts=2)


async def test_plain_text_is_as_it_was_printed(tmp_path: Path) -> None:
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        job = await hostile_job(yard)
        exported = await client.export_logs(job, tmp_path / "all.txt")
        rows = [row.split(b"\t", 5) for row in (tmp_path / "all.txt").read_bytes().split(b"\n")[:-1]]
        assert [row[5] for row in rows] == [*HOSTILE, b"line 0", b"line 1", b"line 2"]
        assert rows[1][:5] == [b"1", b"0", b"err", b"1", b"2023-11-14T22:13:20.250000+00:00"]
        assert exported == Exported(9, sum(len(line) + 1 for line in HOSTILE) + 21)


async def test_json_lines_keep_every_byte(tmp_path: Path) -> None:
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        job = await hostile_job(yard)
        await client.export_logs(job.id, str(tmp_path / "all.jsonl"), "jsonl")
        rows = [json.loads(row) for row in (tmp_path / "all.jsonl").read_bytes().splitlines()]
        data = [
            base64.b64decode(row["text_base64"]) if "text_base64" in row else row["text"].encode()
            for row in rows
        ]
        assert data == [*HOSTILE, b"line 0", b"line 1", b"line 2"]
        assert [seq for seq, row in enumerate(rows) if "text_base64" in row] == [3]
        assert rows[0] == {
            "job": job.id, "attempt": 1, "rank": 0, "stream": "out", "seq": 0, "at_s": AT_S, "text": "plain",
        }  # fmt: skip


async def test_parquet_has_bytes_and_text(tmp_path: Path) -> None:
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        job = await hostile_job(yard)
        await client.export_logs(job, tmp_path / "all.parquet", "parquet")
        table = pq.read_table(tmp_path / "all.parquet")
        assert table["data"].to_pylist() == [*HOSTILE, b"line 0", b"line 1", b"line 2"]
        texts = table["text"].to_pylist()
        assert (texts[0], texts[2], texts[3]) == ("plain", "größer", None)
        assert table["stream"].to_pylist()[:3] == ["out", "err", "out"]
        assert table["at"][0].as_py().timestamp() == AT_S
        assert set(table["job"].to_pylist()) == {job.id}
        assert list(
            zip(*(table[name].to_pylist()[5:7] for name in ("attempt", "rank", "seq")), strict=True)
        ) == [
            (1, 0, 5),
            (2, 1, 0),
        ]


async def test_much_output_is_written_in_groups_as_it_comes(tmp_path: Path) -> None:
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        lines = b"".join(b"%08d" % n + b"x" * 1991 + b"\n" for n in range(100))
        batches = [
            LogBatch(JOB, 1, 0, first, first + 100, (LogChunk(OUT, AT_S, lines),))
            for first in range(0, 10_000, 100)
        ]
        job = await yard.add_job("long", 1.0, *batches)
        seen: list[Exported] = []
        exported = await client.export_logs(job, tmp_path / "all", "parquet", progress=seen.append)
        file = pq.ParquetFile(tmp_path / "all")
        assert (file.metadata.num_rows, exported.lines) == (10_000, 10_000)
        assert file.metadata.num_row_groups == 2
        assert seen == sorted(seen)
        assert (len(seen) > 10, seen[-1]) == (True, exported)


@pytest.mark.parametrize("form", FORMATS)
async def test_a_job_that_printed_nothing_makes_a_file_all_the_same(tmp_path: Path, form: Format) -> None:
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        job = await yard.add_job("silent", 1.0)
        assert await client.export_logs(job, tmp_path / "all", form) == Exported(0, 0)
        assert (tmp_path / "all").exists()


async def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        job = await hostile_job(yard)
        (tmp_path / "all.txt").write_text("old")

        def give_up(_so_far: Exported) -> None:
            raise KeyError

        with pytest.raises(KeyError):
            await client.export_logs(job, tmp_path / "all.txt", progress=give_up)
        with pytest.raises(Refused, match="can't be written"):
            await client.export_logs(job, tmp_path / "nowhere" / "all.txt")
        with pytest.raises(InvalidSpec, match="no format"):
            await client.export_logs(job, tmp_path / "all.txt", "xml")  # type: ignore[arg-type]
        assert [path.name for path in tmp_path.iterdir()] == ["all.txt"]
        assert (tmp_path / "all.txt").read_text() == "old"


async def test_without_pyarrow_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gpuyard.client.parquet", None)
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        job = await hostile_job(yard)
        with pytest.raises(Refused, match="parquet needs") as error:
            await client.export_logs(job, tmp_path / "all", "parquet")
        assert "gpuyard[parquet]" in error.value.hint
        assert list(tmp_path.iterdir()) == []
