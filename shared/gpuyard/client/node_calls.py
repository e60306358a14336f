"""The part of the client that looks at nodes."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing

from gpuyard.bus.port import Bus
from gpuyard.client import history, inventories, node_events, nodes, probe
from gpuyard.client.node_events import RecordedNodeEvent
from gpuyard.client.node_view import NodeView
from gpuyard.contracts.figures import Figures
from gpuyard.contracts.hardware import Inventory
from gpuyard.contracts.history import History

Nodes = list[NodeView]
Inventories = list[Inventory]


class NodeCalls(ABC):
    """What can be asked and told about nodes."""

    _timeout_s: float

    @property
    @abstractmethod
    def _bus(self) -> Bus: ...

    async def nodes(self, *, sample_wait_s: float = nodes.SAMPLE_WAIT_S) -> Nodes:
        """Every known node with its GPUs, links, measurements and holders.

        Args:
            sample_wait_s: How long to listen for measurements; 0 leaves them out.

        """
        return await nodes.read(self._bus, sample_wait_s=sample_wait_s)

    async def inventories(self) -> Inventories:
        """What every known node is, sorted by name: its GPUs, links, network cards and labels."""
        return await inventories.read(self._bus)

    async def watch_nodes(self, *, every_s: float = 1.0) -> AsyncGenerator[Nodes, None]:
        """Every known node with its GPUs, again and again. A node that is not heard turns silent."""
        async with aclosing(nodes.watch(self._bus, every_s=every_s)) as views:
            async for view in views:
                yield view

    async def history(self, node: str, *, last_s: float = 600.0, step_s: float = 10.0) -> History:
        """What a node's monitor remembers of its GPUs.

        Args:
            node: The node's id.
            last_s: How far back; at most an hour.
            step_s: Each value is the average of so many seconds.

        Raises:
            InvalidSpec: that can't be a node, or these can't be times.
            Unavailable: its monitor does not answer.

        """
        return await history.ask(self._bus, node, last_s=last_s, step_s=step_s, timeout_s=self._timeout_s)

    async def node_events(
        self, node: str | None = None, *, after: int = 0, follow: bool = False
    ) -> AsyncGenerator[RecordedNodeEvent, None]:
        """What happened to one node or to all, in order.

        Args:
            node: The node's id; None for all.
            after: Go on behind the event with this `seq`.
            follow: Stay for what is to come, for ever.

        """
        async with aclosing(node_events.read(self._bus, node, after=after, live=follow)) as happened:
            async for event in happened:
                yield event

    async def store_figures(self, figures: Figures, *, timeout_s: float = 30.0) -> None:
        """Hand measured bandwidths to the node's monitor; returns when its inventory carries them.

        Raises:
            TimeoutError: they are on disk, but the monitor has not taken them in yet.

        """
        await probe.store(self._bus, figures, timeout_s=timeout_s)
