"""Installs the substitute for the program ``ollama``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("ollama")


class OllamaProgram:
    """The substitute in ``folder``, which must be on the PATH. Its text documents the settings."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.path = folder / SOURCE.name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE, self.path)
        self.set(**settings)
        self._calls = folder / "ollama.calls"
        self._calls.touch()
        for each, mode in ((folder, 0o777), (folder / "ollama.json", 0o666), (self._calls, 0o666)):
            each.chmod(mode)  # another user may run it

    def set(self, **settings: Any) -> None:
        """Change the settings."""
        (self.folder / "ollama.json").write_text(json.dumps(settings))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls so far: ``argv``, and in ``seen`` the prompt of the model."""
        return [json.loads(line) for line in self._calls.read_text().split("\n") if line]

    @property
    def prompts(self) -> list[str]:
        """The prompts of the models, one per answer."""
        return [call["seen"] for call in self.calls if "seen" in call]
