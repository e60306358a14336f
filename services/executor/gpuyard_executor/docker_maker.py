"""Makes a rank's container: image, GPUs and network found first, or the reason why it can't be made."""

import asyncio
from collections.abc import Mapping
from typing import Any

from gpuyard.contracts.container_engine import (
    LIVE_RESTORE_FIX,
    EngineInfo,
    GpuAccess,
    choose_gpu_access,
    parse_info,
)
from gpuyard.contracts.errors import Conflict, NotFound, Refused
from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.container import ContainerPlace, ContainerRules, container_body
from gpuyard_executor.core.rank import RankPlan
from gpuyard_executor.docker_api import DockerApi
from gpuyard_executor.docker_networks import DockerNetworks

_LOADER = ("LD_PRELOAD=", "LD_AUDIT=")


class Unmakeable(Exception):
    """The container can't be made; another try would end the same way."""

    def __init__(self, cause: ExitCause, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message


class DockerMaker:
    def __init__(
        self, api: DockerApi, rules: ContainerRules, networks: DockerNetworks, default_image: str
    ) -> None:
        self._api = api
        self._rules = rules
        self._networks = networks
        self._default_image = default_image
        self._pulls: dict[str, asyncio.Lock] = {}

    async def make(self, name: str, plan: RankPlan, pipes: str) -> None:
        """Make the container in place of one that was left half made.

        Raises:
            Unmakeable: and why.
            Unavailable: the engine is away.

        """
        if plan.is_spread:
            raise Unmakeable(ExitCause.LAUNCH, "its gang is spread over several nodes, its network is not")
        info = parse_info(await self._api.info())
        image = await self._image(plan)
        try:
            network = await self._networks.ensure(plan.key.gang, plan.peers)
            place = ContainerPlace(image, pipes, network, info.memory_bytes, _access(plan, info))
            await self._create(name, container_body(plan, place, self._rules))
        except (Refused, NotFound) as error:
            raise Unmakeable(ExitCause.LAUNCH, f"its container can't be made: {error.message}") from error

    async def _create(self, name: str, body: dict[str, Any]) -> None:
        try:
            await self._api.create(name, body)
        except Conflict:
            await self._api.remove(name)
            await self._api.create(name, body)

    async def _image(self, plan: RankPlan) -> str:
        """The image's id, so that it can't become another one meanwhile."""
        wanted = plan.box.image or self._default_image
        if not wanted:
            raise Unmakeable(ExitCause.IMAGE, "it names no `image`, and this node has none of its own")
        found = await self._api.image(wanted) or await self._pulled(wanted)
        variables = found.get("Config", {}).get("Env") or ()
        if plan.gpus and any(variable.startswith(_LOADER) for variable in variables):
            message = f"the image `{wanted}` sets LD_PRELOAD or LD_AUDIT, which NVIDIA's runtime would obey"
            raise Unmakeable(ExitCause.IMAGE, message)
        return str(found["Id"])

    async def _pulled(self, wanted: str) -> Mapping[str, Any]:
        async with self._pulls.setdefault(wanted, asyncio.Lock()):
            found = await self._api.image(wanted)
            if found is None:
                try:
                    await self._api.pull(wanted)
                except (Refused, NotFound) as error:
                    message = f"the image `{wanted}` is not here and can't be pulled: {error.message}"
                    raise Unmakeable(ExitCause.IMAGE, message) from error
                found = await self._api.image(wanted)
        if found is None:
            raise Unmakeable(ExitCause.IMAGE, f"the image `{wanted}` was pulled, but is not here")
        return found


def _access(plan: RankPlan, info: EngineInfo) -> GpuAccess | None:
    if not plan.gpus:
        return None
    if not info.has_live_restore:
        message = f"a restart of the container engine would kill it: live-restore is off. {LIVE_RESTORE_FIX}"
        raise Unmakeable(ExitCause.LAUNCH, message)
    return choose_gpu_access(info)[0]
