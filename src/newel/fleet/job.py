"""A contract as a job of a fleet: all that a worker needs to run it on any machine."""

from __future__ import annotations

from typing import Final

import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import Wire
from newel.jobs.engine import is_job_id
from newel.permissions.approval import ApprovalMode
from newel.runs.models import Contract
from newel.text.json import decode_json

FLEET_CONTRACT: Final = "fleet_contract"
"""The kind of these jobs."""


class FleetJob(Wire, frozen=True, kw_only=True):
    """``fleet`` is the id of the run that the job belongs to, ``number`` its place in it, from 1. The folder begins as the commit ``ref``
    of the repository ``repo``, or as the snapshot ``start``; without either it is empty. ``values`` are those of the matrix's row.
    """

    fleet: str
    number: int
    contract: Contract
    session: str
    repo: str = ""
    ref: str = ""
    start: str = ""
    values: dict[str, str] = {}
    labels: list[str] = []
    approve: ApprovalMode = "auto"

    @property
    def key(self) -> str:
        """A job is submitted once, however often that is tried."""
        return f"{self.fleet}/{self.number}"


class ImpossibleJob(NewelError):
    """A job that no worker runs, as its submitter wants something of it that is not allowed."""


def check_session(job: FleetJob) -> None:
    """Raises ``ImpossibleJob`` unless the file of its conversation can be named by the session: a path would lead to another place."""
    if not is_job_id(job.session):
        raise ImpossibleJob(
            f"{job.session[:200]!r} is not a session ID: use at most 100 letters, digits, - and _. Submit the job again with another one."
        )


def read_job(params: bytes) -> FleetJob:
    """The job with these parameters, for lists. A submitter can send anything, so an unreadable job has the error as its contract."""
    try:
        return decode_json(params, FleetJob)
    except msgspec.MsgspecError as error:
        contract = Contract(text=f"This Newel cannot read this job: {error}.")
        return FleetJob(fleet="", number=0, contract=contract, session="")
