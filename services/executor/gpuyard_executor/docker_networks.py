"""The networks of gangs: a bridge for each gang of several ranks on a node, where they find each other.

Nothing leaves it, and the machine itself has no address on it: so a rank reaches neither other gangs nor the
machine's services, and the subnet can't clash with the machine's routes. A rank alone needs no network.
"""

import asyncio
from collections.abc import Collection

from gpuyard.contracts.errors import Refused
from gpuyard_executor.core.container import GANG_LABEL, HOME_LABEL, ContainerRules, labels_of
from gpuyard_executor.core.rank import GangKey
from gpuyard_executor.core.subnets import subnets
from gpuyard_executor.docker_api import DockerApi


class DockerNetworks:
    def __init__(self, api: DockerApi, rules: ContainerRules, pool: str, prefix: str) -> None:
        self._api = api
        self._rules = rules
        self._pool = pool
        self._prefix = prefix
        self._making = asyncio.Lock()

    async def ensure(self, gang: GangKey, ranks: int) -> str:
        """Make the gang's network unless it is there; returns its name, empty if it needs none."""
        if ranks == 1 and not self._rules.has_internet:
            return ""
        name = f"{self._prefix}{gang}"
        async with self._making:
            if await self._api.network(name) is None:
                await self._make(gang, name, ranks)
        return name

    async def release(self, gang: GangKey) -> None:
        """Remove the gang's network, unless somebody is still connected."""
        await self._api.remove_network(f"{self._prefix}{gang}")

    async def sweep(self, alive: Collection[GangKey]) -> None:
        """Remove the networks of gangs that are over."""
        names = {str(gang) for gang in alive}
        for network in await self._api.networks(f"{HOME_LABEL}={self._rules.home}"):
            if network["Labels"].get(GANG_LABEL) not in names:
                await self._api.remove_network(network["Name"])

    async def _make(self, gang: GangKey, name: str, ranks: int) -> None:
        reason = Refused(f"the pool {self._pool} is too small")
        for subnet in subnets(self._pool, str(gang), ranks):
            try:
                await self._api.create_network(self._body(gang, name, subnet))
            except Refused as error:
                reason = error
                if "overlap" not in error.message:
                    raise
            else:
                return
        raise reason

    def _body(self, gang: GangKey, name: str, subnet: str) -> dict[str, object]:
        closed = {"com.docker.network.bridge.inhibit_ipv4": "true"}
        return {
            "name": name,
            "driver": "bridge",
            "internal": not self._rules.has_internet,
            "options": {} if self._rules.has_internet else closed,
            "ipam": {"Driver": "default", "Config": [{"Subnet": subnet}]},
            "labels": labels_of(self._rules.home, gang),
            "check_duplicate": True,
        }
