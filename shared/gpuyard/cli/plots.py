"""Curves as a picture: the only place that imports matplotlib. One panel for each series, dark on white."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.cli.curves import Band, Curve, Panel, panels_of
from gpuyard.client.series import Series
from gpuyard.contracts.errors import InvalidSpec, Refused

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 30
PANEL_IN = (5.2, 3.0)
DPI = 130
INK, GRID, BAND, ALARM = "#222222", "#e4e4e4", "#2b6cb0", "#c53030"
COLOURS = ("#2b6cb0", "#dd6b20", "#2f855a", "#b83280", "#6b46c1", "#00838f", "#975a16", "#4a5568")
LEGEND_COLUMNS, LEGEND_ROW_PT, SHORT_NAME = 5, 11, 14


def draw(series: Sequence[Series], path: Path, title: str) -> int:
    """Draw all series into a file; returns how many curves.

    Raises:
        InvalidSpec: there are too many.
        Refused: matplotlib is not there, or the file can't be written.

    """
    panels = panels_of(series)
    if len(panels) > MOST_PANELS:
        raise InvalidSpec(
            f"{len(panels)} series are too many for a picture",
            "Choose some with --name, for example --name '*loss*'.",
        )
    figure = _figure(len(panels))
    figure.suptitle(_plain(title), fontsize=11, color=INK, x=0.01, ha="left")
    for axes, panel in zip(figure.axes, panels, strict=False):
        _fill(axes, panel)
    for axes in figure.axes[len(panels) :]:
        axes.set_visible(False)
    try:
        with warnings.catch_warnings():  # a sign without a glyph is drawn as a box: not worth a word
            warnings.simplefilter("ignore")
            figure.savefig(path, dpi=DPI, facecolor="white")
    except OSError as error:
        raise Refused(f"`{path}` can't be written: {error.strerror or error}") from error
    return sum(len(panel.curves) for panel in panels)


def _figure(panels: int) -> "Figure":
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - half a second, and only some have it
    except ImportError as error:
        raise Refused("drawing needs the package matplotlib", "pip install 'gpuyard[plots]'") from error
    columns = 1 if panels == 1 else 2 if panels <= 6 else 3
    rows = -(-panels // columns)
    wide = 1.5 if panels == 1 else 1.0
    figure = Figure(
        figsize=(PANEL_IN[0] * columns * wide, PANEL_IN[1] * rows * wide + 0.3), layout="constrained"
    )
    figure.subplots(rows, columns, squeeze=False)
    return figure


def _fill(axes: "Axes", panel: Panel) -> None:
    _dress(axes, panel)
    if panel.band is None:
        for index, curve in enumerate(panel.curves):
            colour = COLOURS[index % len(COLOURS)]
            _line(axes, curve, color=colour, linewidth=1.1, alpha=0.9, label=f"rank {curve.rank}")
    else:
        _fill_band(axes, panel, panel.band)
    _mark_bad(axes, panel)
    entries = len(axes.get_legend_handles_labels()[1])
    if entries > 1:
        # Above the curves, where it hides none of them; a long name goes above it.
        if len(panel.name) > SHORT_NAME:
            _title(axes, panel, pad=6 + LEGEND_ROW_PT * math.ceil(entries / LEGEND_COLUMNS))
        axes.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            borderaxespad=0.2,
            ncols=LEGEND_COLUMNS,
            frameon=False,
            fontsize=7,
            labelcolor=INK,
            handlelength=1.3,
            columnspacing=1.0,
        )


def _fill_band(axes: "Axes", panel: Panel, band: Band) -> None:
    style: dict[str, Any] = {"color": BAND, "linewidth": 0}
    axes.fill_between(
        band.xs, band.least, band.most, alpha=0.15, label=f"all {len(panel.curves)} ranks", **style
    )
    axes.fill_between(band.xs, band.lower, band.upper, alpha=0.4, label="middle half", **style)
    if panel.farthest is not None:
        label = f"rank {panel.farthest.rank}, farthest off"
        _line(axes, panel.farthest, color=COLOURS[1], linewidth=0.7, alpha=0.9, label=label)
    axes.plot(band.xs, band.middle, color=INK, linewidth=1.2, label="median")


def _dress(axes: "Axes", panel: Panel) -> None:
    _title(axes, panel, pad=6)
    axes.set_xlabel(panel.x_label, fontsize=8, color=INK)
    if panel.is_log:
        axes.set_yscale("log")
    axes.grid(visible=True, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, colors=INK, length=3)
    axes.margins(x=0.02)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _title(axes: "Axes", panel: Panel, *, pad: float) -> None:
    axes.set_title(_plain(panel.name), fontsize=10, loc="left", color=INK, fontweight="bold", pad=pad)


def _line(axes: "Axes", curve: Curve, **style: Any) -> None:
    """A single point would not be seen as a line."""
    axes.plot(curve.xs, curve.ys, marker="o" if len(curve.xs) < 3 else "", markersize=3.5, **style)


def _mark_bad(axes: "Axes", panel: Panel) -> None:
    """Crosses on the lower edge where a number was NaN or infinite."""
    bad_xs = [x for curve in panel.curves for x in curve.bad_xs]
    if bad_xs:
        axes.plot(
            bad_xs,
            [0.03] * len(bad_xs),
            transform=axes.get_xaxis_transform(),
            color=ALARM,
            linestyle="",
            marker="x",
            markersize=5,
            label="NaN or infinite",
        )


def _plain(text: str) -> str:
    """Dollar signs would be read as mathematics."""
    return text.replace("$", r"\$")
