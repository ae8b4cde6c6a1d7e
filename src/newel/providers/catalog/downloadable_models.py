"""The models that ``newel models pull`` offers: GGUF files on Hugging Face, with the facts that a download is checked against.

An address names a revision of its repository, so its file never changes. The licences permit any use.
"""

from __future__ import annotations

from typing import Final

import msgspec

HUGGING_FACE: Final = "https://huggingface.co"


class DownloadableModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model in one file. ``name`` is Newel's short name; ``size`` is in bytes; ``sha256`` is in lower-case hexadecimal digits;
    ``licence`` is its SPDX identifier; ``context`` is the largest in tokens;
    ``parameters`` are those in total and, after an A, those that work on a token. ``memory`` is what the model takes with a
    context of 16,384 tokens, in gigabytes, rounded up.
    """

    name: str
    parameters: str
    licence: str
    repository: str
    revision: str
    file: str
    size: int
    sha256: str
    context: int
    memory: int
    note: str

    @property
    def path(self) -> str:
        """The path of the file's URL on Hugging Face or a mirror of it."""
        return f"/{self.repository}/resolve/{self.revision}/{self.file}"


DOWNLOADABLE: Final = (
    DownloadableModel(
        name="qwen2.5-coder-1.5b",
        parameters="1.5B",
        licence="Apache-2.0",
        repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        revision="f86cb2c1fa58255f8052cc32aeede1b7482d4361",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        context=32_768,
        memory=3,
        note="small tasks, one at a time, on any machine",
    ),
    DownloadableModel(
        name="qwen3-4b",
        parameters="4B",
        licence="Apache-2.0",
        repository="Qwen/Qwen3-4B-GGUF",
        revision="bc640142c66e1fdd12af0bd68f40445458f3869b",
        file="Qwen3-4B-Q4_K_M.gguf",
        size=2_497_280_256,
        sha256="7485fe6f11af29433bc51cab58009521f205840f5b4ae3a32fa7f92e8534fdf5",
        context=40_960,
        memory=6,
        note="uses tools and reasons, in little memory; for small tasks",
    ),
    DownloadableModel(
        name="qwen2.5-coder-7b",
        parameters="7B",
        licence="Apache-2.0",
        repository="Qwen/Qwen2.5-Coder-7B-Instruct-GGUF",
        revision="13fb94bfda8c8cf22497dc57b78f391a9acb426a",
        file="qwen2.5-coder-7b-instruct-q4_k_m.gguf",
        size=4_683_073_536,
        sha256="509287f78cb4d4cf6b3843734733b914b2c158e43e22a7f4bf5e963800894d3c",
        context=32_768,
        memory=7,
        note="writes good code for its size; weaker at using tools",
    ),
    DownloadableModel(
        name="qwen3-8b",
        parameters="8B",
        licence="Apache-2.0",
        repository="Qwen/Qwen3-8B-GGUF",
        revision="7c41481f57cb95916b40956ab2f0b139b296d974",
        file="Qwen3-8B-Q4_K_M.gguf",
        size=5_027_783_488,
        sha256="d98cdcbd03e17ce47681435b5150e34c1417f50b5c0019dd560e4882c5745785",
        context=40_960,
        memory=8,
        note="uses tools and reasons; the one to begin with on a machine of 16 GB",
    ),
    DownloadableModel(
        name="gpt-oss-20b",
        parameters="21B-A3.6B",
        licence="Apache-2.0",
        repository="ggml-org/gpt-oss-20b-GGUF",
        revision="e1dc459feff949ff451ce107337a2026daa80df8",
        file="gpt-oss-20b-mxfp4.gguf",
        size=12_109_566_560,
        sha256="be37a636aca0fc1aae0d32325f82f6b4d21495f06823b5fbc1898ae0303e9935",
        context=131_072,
        memory=14,
        note="uses tools and reasons; fast for its size; for 24 GB and more",
    ),
    DownloadableModel(
        name="qwen3-coder-30b",
        parameters="31B-A3.3B",
        licence="Apache-2.0",
        repository="unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF",
        revision="b17cb02dd882d5b6ab62fc777ad2995f19668350",
        file="Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf",
        size=18_556_689_568,
        sha256="fadc3e5f8d42bf7e894a785b05082e47daee4df26680389817e2093056f088ad",
        context=262_144,
        memory=21,
        note="trained for coding with tools; fast for its size; for 32 GB and more",
    ),
)
"""From the smallest to the largest."""
