"""The models of a scripted provider, as an agent asks for them."""

from __future__ import annotations

from newel.agent.ports import Model
from newel.providers.listed_models import ModelDetails


class ScriptedModels:
    """A ``newel.session.coding_agent.ModelAccess``. The first name is that of the model in use."""

    where = ""

    def __init__(self, *names: str, provider: str = "script") -> None:
        self._names = names
        self._provider = provider

    @property
    def model(self) -> Model:
        return self.describe(self._names[0])

    @property
    def small(self) -> Model:
        return self.model

    def describe(self, name: str) -> Model:
        return Model(name, self._provider)

    async def list_models(self) -> list[str]:
        return list(self._names)

    async def list_details(self) -> list[ModelDetails]:
        return [ModelDetails(name) for name in self._names]

    async def find_window(self, name: str) -> int | None:
        return None

    async def check_cost(self, model: Model) -> None:
        pass
