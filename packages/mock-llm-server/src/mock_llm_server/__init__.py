"""A scripted, faithful, fault-injecting OpenAI-compatible server for testing agents.

with running({"scenarios": [...]}) as server:           # in a thread
    client = OpenAI(base_url=server.url + "/v1", api_key="any")

async with serve(Path("scenarios.json")) as server:     # in the current event loop
    ...
"""

from mock_llm_server.conversation import Conversation, StepMatch
from mock_llm_server.scenarios import ScenarioError, Script, load, parse
from mock_llm_server.server import MockServer, running, serve
from mock_llm_server.upstream import Upstream

__version__ = "0.1.0"

__all__ = [
    "Conversation",
    "MockServer",
    "ScenarioError",
    "Script",
    "StepMatch",
    "Upstream",
    "load",
    "parse",
    "running",
    "serve",
]
