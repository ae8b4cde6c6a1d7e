"""The tools of an agent that proposes changes instead of writing them: search, read, list, ask, propose."""

from __future__ import annotations

from newel.agent.ports import Tool
from newel.tools.review.base import ProjectLimits
from newel.tools.review.clarify_user import NO_USER_ANSWER, AskQuestion, ClarifyTool
from newel.tools.review.project_files import ListTool, ReadFileTool, SearchTool, Staged
from newel.tools.review.propose_edits import Propose, ProposedEdit, ProposeTool, lines_hash
from newel.workspace.port import Workspace

__all__ = [
    "NO_USER_ANSWER",
    "AskQuestion",
    "ProjectLimits",
    "Propose",
    "ProposedEdit",
    "Staged",
    "lines_hash",
    "project_tools",
]


def project_tools(
    workspace: Workspace,
    limits: ProjectLimits | None = None,
    *,
    ask: AskQuestion,
    propose: Propose,
    staged: Staged | None = None,
) -> list[Tool]:
    """The five tools on a workspace, in the order in which they are offered to a model.

    ``ask`` receives the model's questions, ``propose`` its valid edits. ``staged`` names the files whose content in the workspace
    differs from the host's disk, so that a search finds the right one.
    """
    bounds = limits or ProjectLimits()
    return [
        SearchTool(workspace, bounds, staged),
        ReadFileTool(workspace, bounds),
        ListTool(workspace, bounds),
        ClarifyTool(ask, bounds.max_question_characters),
        ProposeTool(workspace, bounds, propose),
    ]
