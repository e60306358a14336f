from msgspec.structs import replace

from gpuyard.contracts.hardware import Fault, Gpu, Health, Host, Inventory
from gpuyard_monitor.core.changes import KINDS, changes, xid_event
from gpuyard_monitor.core.readings import Xid

HOST = Host(boot_id="b1", driver="580.1")
GPUS = (Gpu("g0", 0, "H100"), Gpu("g1", 1, "H100"))
BOX = Inventory("n1", 100.0, HOST, GPUS)
LOST = Fault("lost", "fell off the bus", 99.0)
ECC = Fault("ecc", "memory errors", 99.0)


def after(gpu: Gpu | None = None, **more: object) -> Inventory:
    gpus = (gpu, GPUS[1]) if gpu else GPUS
    return replace(BOX, at_s=200.0, **{"gpus": gpus, **more})


def out(*faults: Fault) -> Gpu:
    return replace(GPUS[0], health=Health.OUT, health_reason="because", faults=faults)


def kinds(before: Inventory, now: Inventory) -> list[tuple[str, str | None]]:
    events = changes(before, now)
    assert {event.kind for event in events} <= KINDS.keys()
    assert {event.at_s for event in events} <= {200.0}
    return [(event.kind, event.gpu) for event in events]


def test_nothing_happened() -> None:
    assert kinds(BOX, after()) == []
    assert kinds(after(out(ECC)), after(out(ECC))) == []


def test_faults_come_and_go() -> None:
    assert kinds(BOX, after(out(ECC))) == [("gpu_out", "g0")]
    assert kinds(BOX, after(out(LOST))) == [("gpu_lost", "g0")]
    assert kinds(after(out(LOST)), after(out(LOST, ECC))) == [("gpu_out", "g0")]
    assert kinds(after(out(LOST, ECC)), after(out(ECC))) == [("gpu_back", "g0")]
    assert kinds(after(out(LOST)), after()) == [("gpu_back", "g0"), ("gpu_ok", "g0")]
    assert changes(BOX, after(out(ECC)))[0].message == "GPU 0: memory errors"


def test_strangers_come_and_go() -> None:
    foreign = replace(GPUS[0], health=Health.FOREIGN, health_reason="used by python of bob")
    assert kinds(BOX, after(foreign)) == [("gpu_foreign", "g0")]
    assert kinds(after(foreign), after(replace(foreign, health_reason="used by another"))) == []
    assert kinds(after(foreign), after()) == [("gpu_ok", "g0")]
    assert changes(BOX, after(foreign))[0].message == "GPU 0: used by python of bob"


def test_hardware_comes_and_goes() -> None:
    assert kinds(BOX, after(gpus=GPUS[1:])) == [("gpu_removed", "g0")]
    assert kinds(replace(BOX, gpus=GPUS[1:]), after()) == [("gpu_added", "g0")]


def test_what_happens_to_the_node() -> None:
    assert kinds(BOX, after(host=replace(HOST, boot_id="b2"))) == [("booted", None)]
    assert kinds(BOX, after(host=replace(HOST, driver="590.2"))) == [("driver_changed", None)]
    assert kinds(BOX, after(host=replace(HOST, driver=""))) == []
    assert kinds(BOX, after(probed_at_s=150.0)) == [("probed", None)]
    assert kinds(after(probed_at_s=150.0), after(probed_at_s=150.0)) == []


def test_an_xid_says_what_follows() -> None:
    hard = xid_event("n1", Xid("g0", 79), 5.0, is_out=True)
    assert (hard.gpu, hard.message) == ("g0", "Xid 79: fell off the bus; the GPU goes out of service")
    assert xid_event("n1", Xid("g0", 13), 5.0, is_out=False).message.endswith("the GPU stays in service")
    nowhere = xid_event("n1", Xid(None, 79), 5.0, is_out=False)
    assert (nowhere.gpu, nowhere.kind) == (None, "xid")
    assert nowhere.message.endswith("does not say on which GPU")
