"""The monitor: one process that speaks for one or several nodes."""

import asyncio
from collections.abc import Sequence

from gpuyard.contracts.ids import slug
from gpuyard.runtime.service import Context
from gpuyard.topology import captures
from gpuyard_monitor import host
from gpuyard_monitor.answers import Answers
from gpuyard_monitor.config import MonitorConfig, NodeConfig
from gpuyard_monitor.core.watch import Watch
from gpuyard_monitor.held import HeldGpus
from gpuyard_monitor.intake import Intake
from gpuyard_monitor.machine import Machine
from gpuyard_monitor.node import Node, Source
from gpuyard_monitor.simulation import Simulation


class Monitor:
    """Runs every node. Ready while the bus knows the newest state of all of them."""

    def __init__(self, config: MonitorConfig, context: Context) -> None:
        """Load what is simulated.

        Raises:
            NotFound, TopologyError: a capture is unknown or damaged.

        """
        self._config = config
        self._context = context
        nodes = config.nodes or this_machine()
        self._held = {node.id: HeldGpus(context, node.id) for node in nodes}
        self._nodes = [self._node(node) for node in nodes]
        context.health.note("nodes", [node.id for node in nodes])

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for node in self._nodes:
                tasks.create_task(self._held[node.id].run())
                tasks.create_task(node.run())
                tasks.create_task(Answers(self._context, node).run())
                tasks.create_task(Intake(self._context, node).run())

    def _node(self, config: NodeConfig) -> Node:
        return Node(
            config.id,
            Watch(config.id, config.labels, self._config.tolerated, self._config.ignored_rules),
            self._source(config),
            self._held[config.id],
            self._context,
            sample_every_s=self._config.sample_every_s,
            inventory_every_s=self._config.inventory_every_s,
            on_change=self._report,
        )

    def _source(self, config: NodeConfig) -> Source:
        if not config.capture:
            return Machine(self._context.log)
        capture, held = captures.load(config.capture), self._held[config.id]
        return Simulation(capture, config.id, held, self._context.clock.now())

    def _report(self) -> None:
        unheard = next((node.unheard for node in self._nodes if node.unheard), "")
        if unheard:
            self._context.health.not_ready(unheard)
        else:
            self._context.health.ready()


def this_machine() -> Sequence[NodeConfig]:
    """The one node of a monitor that was told of none."""
    return (NodeConfig(slug(host.read_host().hostname)),)
