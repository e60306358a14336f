import pytest
from msgspec.structs import replace

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.figures import Figures, GroupFigure, PairFigure
from gpuyard.contracts.hardware import Basis, Inventory, Link
from gpuyard.topology import captures
from gpuyard.topology.choice import choose
from gpuyard.topology.shape import shape_of
from gpuyard_monitor.core.figures import advice, check, handed_on, with_figures
from gpuyard_monitor.core.simulated import simulate

NOW_S = 1_700_000_000.0


def inventory(name: str = "azure-ndv2-v100-8gpu") -> Inventory:
    found = simulate(captures.load(name), "n1", NOW_S).hardware.found
    assert found
    return Inventory("n1", NOW_S, gpus=found.gpus, links=found.links)


def figures(of: Inventory, *pairs: tuple[int, int, float], at_s: float = NOW_S, node: str = "n1") -> Figures:
    measured = tuple(PairFigure(of.gpus[a].uuid, of.gpus[b].uuid, gb_s) for a, b, gb_s in pairs)
    return Figures(node, at_s, "probe-1", measured, (GroupFigure(2, 31.5),))


def link(of: Inventory, a: int, b: int) -> Link:
    return next(link for link in of.links if (link.a, link.b) == (a, b))


def test_measured_pairs_replace_the_tables_figures_whichever_way_they_are_named() -> None:
    before = inventory()
    after = with_figures(before, figures(before, (0, 1, 44.5), (7, 2, 8.25)))
    assert (link(after, 0, 1).gb_s, link(after, 0, 1).basis) == (44.5, Basis.MEASURED)
    assert (link(after, 2, 7).gb_s, link(after, 2, 7).basis) == (8.25, Basis.MEASURED)
    assert link(after, 0, 2) == link(before, 0, 2)
    assert (after.allreduce_gb_s, after.probed_at_s) == (((2, 31.5),), NOW_S)


def test_a_later_probe_adds_to_what_an_earlier_one_measured() -> None:
    box = inventory()
    once = with_figures(box, figures(box, (0, 1, 44.5)))
    later = Figures("n1", NOW_S + 9, "probe-2", figures(box, (0, 2, 20.0)).pairs, (GroupFigure(4, 30.0),))
    twice = with_figures(once, later)
    assert (link(twice, 0, 1).gb_s, link(twice, 0, 2).gb_s) == (44.5, 20.0)
    assert (twice.allreduce_gb_s, twice.probed_at_s) == (((2, 31.5), (4, 30.0)), NOW_S + 9)


def test_older_figures_change_nothing() -> None:
    box = inventory()
    once = with_figures(box, figures(box, (0, 1, 44.5)))
    assert with_figures(once, figures(box, (0, 1, 40.0), at_s=NOW_S - 1)) == once


def test_what_can_be_true_is_taken() -> None:
    box = inventory()
    check(figures(box, (0, 1, 44.5), (0, 7, 0.001)), box, NOW_S)
    unknown = replace(box, gpus=tuple(replace(gpu, model="something new") for gpu in box.gpus))
    check(figures(unknown, (0, 1, 60.0)), unknown, NOW_S)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (lambda box: figures(box, (0, 1, 44.5), node="n2"), "n2 came to n1"),
        (lambda box: Figures("n1", NOW_S, "p", (PairFigure("GPU-x", box.gpus[0].uuid, 1.0),)), "no two GPUs"),
        (lambda box: figures(box, (3, 3, 44.5)), "no two GPUs"),
        (lambda box: figures(box, (0, 1, 5000.0)), "that can't be"),
        (lambda box: figures(box, (0, 1, 44.5), at_s=NOW_S + 86_400), "future"),
        (lambda box: Figures("n1", NOW_S, "p", (), (GroupFigure(9, 1.0),)), "more GPUs than the 8"),
    ],
)
def test_what_cannot_be_true_is_refused(bad: object, says: str) -> None:
    box = inventory()
    assert callable(bad)
    with pytest.raises(InvalidSpec, match=says):
        check(bad(box), box, NOW_S)


def test_a_measured_link_is_no_yardstick_for_the_next_figure() -> None:
    box = inventory()
    slow = with_figures(box, figures(box, (0, 1, 0.5)))
    check(figures(slow, (0, 1, 44.5)), slow, NOW_S)


def test_what_was_measured_is_handed_on_to_the_same_hardware() -> None:
    box = inventory()
    measured = with_figures(box, figures(box, (0, 1, 44.5)))
    assert handed_on(measured, box) == measured
    assert handed_on(box, box) == box


def test_a_pair_whose_link_is_another_kind_loses_its_figure() -> None:
    box = inventory()
    measured = with_figures(box, figures(box, (0, 1, 44.5), (0, 2, 20.0)))
    changed = tuple(replace(each, nvlinks=1) if (each.a, each.b) == (0, 1) else each for each in box.links)
    after = handed_on(measured, replace(box, links=changed))
    assert link(after, 0, 1).basis is not Basis.MEASURED
    assert link(after, 0, 2).gb_s == 20.0
    assert after.allreduce_gb_s == ()


def test_another_model_loses_all_figures_of_that_gpu() -> None:
    box = inventory()
    measured = with_figures(box, figures(box, (0, 1, 44.5), (2, 3, 44.0)))
    gpus = (replace(box.gpus[0], model="NVIDIA H100"), *box.gpus[1:])
    after = handed_on(measured, replace(box, gpus=gpus))
    assert link(after, 0, 1).basis is not Basis.MEASURED
    assert link(after, 2, 3).gb_s == 44.0


def test_figures_follow_their_gpus_to_other_positions() -> None:
    box = inventory()
    measured = with_figures(box, figures(box, (0, 1, 44.5)))
    turned = replace(
        box,
        gpus=box.gpus[::-1],
        links=tuple(replace(each, a=7 - each.b, b=7 - each.a) for each in box.links),
    )
    assert link(handed_on(measured, turned), 6, 7).gb_s == 44.5


def test_other_hardware_gets_nothing() -> None:
    box, other = inventory(), inventory("8gpu-epyc-node-sys")
    measured = with_figures(box, figures(box, (0, 1, 44.5)))
    assert handed_on(measured, other) == other


def corrupted(box: Inventory, *pairs: tuple[int, int]) -> Inventory:
    """The box after a probe whose payloads arrived wrong between these GPUs."""
    found = tuple(PairFigure(box.gpus[a].uuid, box.gpus[b].uuid, 14.0, sound=False) for a, b in pairs)
    return with_figures(box, Figures("n1", NOW_S, "probe-1", found))


def test_a_link_that_corrupts_carries_nothing() -> None:
    box = corrupted(inventory(), (3, 0))
    assert link(box, 0, 3) == replace(link(inventory(), 0, 3), gb_s=0.0, p2p=False, basis=Basis.MEASURED)
    assert link(handed_on(box, inventory()), 0, 3) == link(box, 0, 3)
    assert link(box, 0, 1) == link(inventory(), 0, 1)


def test_a_link_that_corrupts_at_any_rate_is_believed() -> None:
    box = inventory()
    found = PairFigure(box.gpus[0].uuid, box.gpus[1].uuid, 90_000.0, sound=False)
    check(Figures("n1", NOW_S, "probe-1", (found,)), box, NOW_S)


def test_the_pairs_that_corrupt_are_named() -> None:
    assert advice(inventory()) == ""
    assert advice(corrupted(inventory(), (3, 0))).startswith("Copies between GPUs 0-3 arrive wrong: ")
    many = corrupted(inventory(), *((0, peer) for peer in range(1, 8)))
    assert "GPUs 0-1, 0-2, 0-3, 0-4 and 3 more pairs arrive" in advice(many)
    assert "`gpuyard probe n1`" in advice(many)


def test_a_link_that_corrupted_may_be_found_sound_at_its_full_rate() -> None:
    box = corrupted(inventory(), (0, 3))
    again = figures(box, (0, 3, 48.4), at_s=NOW_S + 1)
    check(again, box, NOW_S + 1)
    after = with_figures(box, again)
    assert link(after, 0, 3).gb_s == 48.4
    assert advice(after) == ""


def test_a_choice_goes_around_a_link_that_corrupts() -> None:
    box, free = inventory(), (0, 1, 3)
    best = choose(shape_of(box), free, 2)
    assert best
    a, b = pair = best.gpus
    broken = shape_of(corrupted(box, (a, b)))
    other = choose(broken, free, 2)
    assert other
    assert other.gpus != pair
    last = choose(broken, pair, 2)
    assert last
    assert last.bottleneck_gb_s == 0.0
