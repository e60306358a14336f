import csv
import json
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.cli import plots
from gpuyard.cli.curves import MOST_POINTS, panels_of
from gpuyard.cli.metrics import figure
from gpuyard.cli.progress import told
from gpuyard.cli.sparkline import BAD, BLOCKS, sparkline
from gpuyard.client.progress import JobProgress
from gpuyard.client.series import Point, Series
from gpuyard.contracts.errors import Failure, InvalidSpec
from gpuyard.contracts.job import JobState
from gpuyard.contracts.series import Number, SeriesChunk, SeriesPage, render_row
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import FakeYard, a_job, a_spec

PNG = b"\x89PNG\r\n\x1a\n"


def chunk(rank: int, step: int, **numbers: float) -> SeriesChunk:
    found = [Number("step", step, 10), *(Number(name, value) for name, value in numbers.items())]
    return SeriesChunk(rank, 100.0 + step, render_row(step, found))


async def training(yard: FakeYard, *, bad: bool = False) -> None:
    job = await yard.start(await yard.record(a_job(a_spec("train", gpus=2)), "queued"))
    chunks = [
        chunk(rank, step, loss=math.nan if bad and rank and step > 3 else 1 / (step + rank + 1), lr=1e-5)
        for rank in range(2)
        for step in range(5)
    ]
    yard.series[job.id] = SeriesPage(1, tuple(chunks))


async def broken(yard: FakeYard) -> None:
    await training(yard, bad=True)


async def silent(yard: FakeYard) -> None:
    await yard.start(await yard.record(a_job(a_spec("train", gpus=2)), "queued"))


async def unreadable(yard: FakeYard) -> None:
    await silent(yard)
    (job,) = yard.jobs
    yard.series[job] = Failure("unavailable", "the logger can't read its store", retryable=True)


def test_a_table_with_a_row_for_each_series(shell: Shell) -> None:
    result = shell("metrics", "train", prepare=training)
    assert result.code == 0
    header, loss, lr, step = result.out.splitlines()
    assert header.split() == ["NAME", "LAST", "MIN", "MAX", "MEAN", "POINTS", "RANKS", "CURVE"]
    assert loss.split()[:7] == ["loss", "0.2", "0.16667", "1", "0.37333", "10", "0-1"]
    assert lr.split()[:5] == ["lr", *["1.000e-05"] * 4]
    assert step.split()[0] == "step"
    assert loss.split()[-1][0] == BLOCKS[-1]


def test_nan_is_told_below_the_table(shell: Shell) -> None:
    result = shell("metrics", "train", prepare=broken)
    assert "loss was nan at step 4 in rank 1; 1 such points" in result.out


def test_only_what_is_wanted(shell: Shell) -> None:
    views = shell("metrics", "train", "--json", "--name", "L*", prepare=training).json_lines
    assert [(view["name"], view["rank"]) for view in views] == [
        ("loss", 0),
        ("loss", 1),
        ("lr", 0),
        ("lr", 1),
    ]
    assert views[0] == {
        "type": "metric",
        "job": views[0]["job"],
        "attempt": 1,
        "name": "loss",
        "rank": 0,
        "points": 5,
        "last": 0.2,
        "min": 0.2,
        "max": 1.0,
        "mean": pytest.approx(0.45667, abs=1e-5),
        "bad_points": 0,
        "last_step": 4.0,
        "last_at_s": 104.0,
    }


def test_json_has_no_nan(shell: Shell) -> None:
    views = shell("metrics", "train", "--json", "--name", "loss", prepare=broken).json_lines
    assert (views[1]["last"], views[1]["bad_points"]) == (None, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["train", "--name", "nothing"], 3, "no series `nothing`"),
        (["train", "--rank", "5"], 3, "no rank 5"),
        (["train", "--rank", "x"], 2, "not a list of ranks"),
        (["train", "--attempt", "0"], 2, "at least 1"),
        (["train", "--attempt", "7"], 3, "no attempt 7"),
        (["train", "--plot", "x.gif"], 2, ".png or .svg"),
        (["train", "--plot", "/no/such/x.png"], 2, "no directory"),
        (["train", "--export", "x.xls"], 2, ".csv, .jsonl, .parquet"),
        (["train", "--export", "/no/such/x.csv"], 2, "no directory"),
        (["train", "--plot", "x.png", "--export", "x.csv"], 2, "exclude each other"),
        (["other"], 3, "no job `other`"),
    ],
)
def test_wrong_input_is_told(shell: Shell, arguments: list[str], code: int, words: str) -> None:
    result = shell("metrics", *arguments, prepare=training)
    assert (result.code, result.out) == (code, "")
    assert words in result.err


def test_a_job_that_prints_no_numbers(shell: Shell) -> None:
    result = shell("metrics", "train", prepare=silent)
    assert result.code == 3
    assert "no numbers were found" in result.err
    assert "[[metrics]]" in result.err


def test_a_store_that_can_not_be_read(shell: Shell) -> None:
    result = shell("metrics", "train", prepare=unreadable)
    assert result.code == 6
    assert "can't read its store" in result.err


# Files


def test_csv(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    result = shell("metrics", "train", "--export", str(path), prepare=broken)
    assert (result.code, result.out) == (0, "")
    assert "30 points written" in result.err
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["name"] for row in rows[:3]] == ["step", "loss", "lr"]
    assert (rows[1]["rank"], rows[1]["step"], rows[1]["value"], rows[1]["at_s"]) == (
        "0",
        "0.0",
        "1.0",
        "100.0",
    )
    assert rows[-2]["value"] == "nan"
    assert [file.name for file in tmp_path.iterdir()] == ["points.csv"]


def test_json_lines(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    shell("metrics", "train", "--export", str(path), "--name", "loss", prepare=broken)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 10
    assert (rows[0]["step"], rows[0]["value"], rows[0]["seq"], rows[0]["attempt"]) == (0, 1.0, 0, 1)
    assert rows[-1]["value"] == "nan"


@pytest.mark.parametrize("prepare", [broken, silent])
def test_parquet(shell: Shell, tmp_path: Path, prepare: object) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "points.parquet"
    shell("metrics", "train", "--export", str(path), prepare=prepare)  # type: ignore[arg-type]
    table = parquet.read_table(path).to_pylist()
    assert len(table) == (30 if prepare is broken else 0)
    assert all(row["name"] and row["job"].startswith("train-") for row in table)


def test_a_disk_that_refuses_leaves_nothing(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "points.csv").mkdir()
    result = shell("metrics", "train", "--export", str(tmp_path / "points.csv"), prepare=training)
    assert result.code == 4
    assert "can't be written" in result.err
    assert [file.name for file in tmp_path.iterdir()] == ["points.csv"]


# Pictures


def curve(name: str, rank: int, values: list[float], *, stepless: bool = False) -> Series:
    series = Series(name, rank)
    for n, value in enumerate(values):
        series.add(Point(name, rank, None if stepless else float(n), value, 100.0 + n, n))
    return series


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture(shell: Shell, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curves.{ending}"
    result = shell("metrics", "train", "--plot", str(path), prepare=broken)
    assert (result.code, result.out) == (0, "")
    assert "4 curves drawn" in result.err
    data = path.read_bytes()
    if ending == "png":
        assert data.startswith(PNG)
        assert len(data) > 10_000
    else:
        assert ElementTree.fromstring(data).tag.endswith("svg")


def test_many_ranks_and_odd_names_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    series = [curve("loss$_{x", rank, [math.inf, 2.0, 1.0 + rank]) for rank in range(64)]
    series += [curve("one", 0, [5.0]), curve("bad", 0, [math.nan]), curve("bad", 1, [math.nan])]
    assert plots.draw(series, tmp_path / "x.png", "a $title\n") == 67
    with pytest.raises(InvalidSpec, match="too many"):
        plots.draw([curve(f"n{n}", 0, [1.0]) for n in range(99)], tmp_path / "y.png", "t")


def test_panels_stand_in_a_telling_order() -> None:
    names = ["zeta", "accuracy", "val_loss", "step", "loss", "epoch"]
    assert [panel.name for panel in panels_of([curve(name, 0, [1.0]) for name in names])] == [
        "loss",
        "val_loss",
        "accuracy",
        "zeta",
    ]
    assert [panel.name for panel in panels_of([curve("step", 0, [1.0, 2.0])])] == ["step"]
    assert panels_of([]) == []


def test_time_is_the_axis_where_there_are_no_steps() -> None:
    (panel,) = panels_of([curve("loss", 0, [1.0] * 200, stepless=True)])
    assert (panel.x_label, panel.curves[0].xs[60]) == ("time (min)", 1.0)
    (panel,) = panels_of([curve("loss", 0, [1.0] * 50, stepless=True)])
    assert (panel.x_label, panel.curves[0].xs[-1]) == ("time (s)", 49.0)


def test_a_long_curve_keeps_its_peaks() -> None:
    values = [0.0] * 50_000
    values[31_415], values[27_182] = 9.0, -9.0
    (panel,) = panels_of([curve("loss", 0, values)])
    assert len(panel.curves[0].ys) <= MOST_POINTS + 2
    assert (max(panel.curves[0].ys), min(panel.curves[0].ys)) == (9.0, -9.0)


def test_decades_ask_for_a_logarithmic_axis() -> None:
    assert panels_of([curve("lr", 0, [1e-3, 1e-7])])[0].is_log
    assert not panels_of([curve("lr", 0, [1e-3, 0.0])])[0].is_log
    assert not panels_of([curve("lr", 0, [math.nan])])[0].is_log


def test_many_ranks_are_a_band_and_the_farthest_is_named() -> None:
    few = [curve("loss", rank, [1.0, 1.0]) for rank in range(8)]
    assert panels_of(few)[0].band is None
    many = [curve("loss", rank, [rank, rank * 2.0]) for rank in range(11)] + [curve("loss", 99, [50.0, 0.0])]
    (panel,) = panels_of(many)
    assert panel.band is not None
    assert panel.farthest is not None
    assert panel.farthest.rank == 99
    assert (panel.band.xs, panel.band.least, panel.band.most) == ([0.0, 1.0], [0.0, 0.0], [50.0, 20.0])
    assert panel.band.middle[0] == 5.5


@given(st.lists(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=700), min_size=11, max_size=13))
def test_a_band_is_in_order(values: list[list[float]]) -> None:
    (panel,) = panels_of([curve("x", rank, own) for rank, own in enumerate(values)])
    band = panel.band
    assert band is not None
    assert band.xs == sorted(band.xs)
    for least, lower, middle, upper, most in zip(
        band.least, band.lower, band.middle, band.upper, band.most, strict=True
    ):
        assert least <= lower + 1e-3 <= middle + 2e-3 <= upper + 3e-3 <= most + 4e-3


# Words


@pytest.mark.parametrize(
    ("values", "width", "drawn"),
    [
        ([], 5, ""),
        ([1.0], 5, "▄"),
        ([1.0, 1.0], 5, "▄▄"),
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, BLOCKS),
        ([0, 0, 7, 7], 2, "▁█"),
        ([0, math.nan, 1], 3, f"▁{BAD}█"),
        ([math.inf], 3, BAD),
    ],
)
def test_a_curve_in_a_line(values: list[float], width: int, drawn: str) -> None:
    assert sparkline(values, width) == drawn


@given(st.lists(st.floats(), max_size=100), st.integers(1, 30))
def test_any_curve_fits_in_its_line(values: list[float], width: int) -> None:
    drawn = sparkline(values, width)
    assert len(drawn) == min(width, len(values))
    assert set(drawn) <= {*BLOCKS, BAD}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "-"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (0.0, "0"),
        (124928.0, "124928"),
        (0.123456789, "0.12346"),
        (1e-5, "1.000e-05"),
        (86545.25, "86545"),
        (123456.78, "123456.8"),
        (1e300, "1.000e+300"),
    ],
)
def test_figures(value: float | None, words: str) -> None:
    assert figure(value) == words


RUNNING = a_job()


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (
            JobProgress(0, 0, 0.45, step=450, steps=1000, left_s=720),
            "45 % (step 450/1000), about 12 min left",
        ),
        (JobProgress(0, 0, 0.05, step=5, steps=100), "5.0 % (step 5/100)"),
        (JobProgress(0, 0, 0.0, step=0, steps=100), "0 % (step 0/100)"),
        (JobProgress(0, 0, 0.25, step=5, steps=10, epoch=3, epochs=10), "25 % (epoch 3/10, step 5/10)"),
        (JobProgress(0, 0, None, step=450, steps=1000, epoch=5), "epoch 5, step 450/1000 of it"),
        (JobProgress(0, 0, 0.45), "45 %"),
        (JobProgress(0, 0, 0.999, left_s=0.2), "99 %, about done"),
        (JobProgress(0, -300, 0.45, step=45, steps=100), "45 % (step 45/100), nothing new for 5 min"),
        (JobProgress(0, 0, 0.1, step=0.5, steps=5), "10 % (step 0.5/5)"),
    ],
)
def test_progress_in_words(progress: JobProgress, words: str) -> None:
    assert told(progress, RUNNING, now_s=0.0) == words


def test_show_tells_how_far_a_job_is(shell: Shell) -> None:
    result = shell("show", "train", prepare=training)
    (line,) = [line for line in result.out.splitlines() if line.startswith("  progress")]
    assert "40 % (step 4/10), nothing new for" in line
    view = shell("show", "train", "--json", prepare=training).json
    assert (view["progress"]["fraction"], view["progress"]["steps"], view["progress"]["left_s"]) == (
        0.4,
        10,
        None,
    )


def test_show_of_a_job_that_ended_well_is_at_the_end(shell: Shell) -> None:
    async def ended(yard: FakeYard) -> None:
        await training(yard)
        (job,) = yard.jobs.values()
        await yard.end(job)

    assert "progress   100 % (step 4/10)\n" in shell("show", "train", prepare=ended).out


def test_show_of_a_job_that_failed_stays_where_it_was(shell: Shell) -> None:
    async def failed(yard: FakeYard) -> None:
        await training(yard)
        (job,) = yard.jobs.values()
        await yard.end(job, JobState.FAILED)

    assert "progress   40 % (step 4/10)\n" in shell("show", "train", prepare=failed).out


@pytest.mark.parametrize("prepare", [silent, unreadable])
def test_show_without_progress(shell: Shell, prepare: object) -> None:
    result = shell("show", "train", prepare=prepare)  # type: ignore[arg-type]
    assert result.code == 0
    assert "progress" not in result.out
