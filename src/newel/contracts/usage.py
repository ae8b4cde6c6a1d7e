"""Counts what the judges of contracts have used: a session has the agent's own requests, the journal those of its judge."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from newel.contracts.contract_job import CONTRACT, ContractParams
from newel.contracts.run_index import journals
from newel.jobs.engine import EngineError
from newel.jobs.queries import events_of_kind
from newel.jobs.sqlite import open_reader
from newel.runs.run_events import Evaluation, decode
from newel.session.usage.report import RequestUsage, Tally

_EVALUATION: Final = b'{"type":"evaluation"'


async def count_judges(home: Path, tally: Tally) -> None:
    """Count the verdicts in all journals. One that cannot be read becomes a problem and is left out."""
    for folder in journals(home, None):
        try:
            async with open_reader(folder) as reader:
                rows = await reader.query(partial(events_of_kind, kind=CONTRACT, beginning=_EVALUATION))
            for params, data in rows:
                _count(msgspec.json.decode(params, type=ContractParams), decode(data), tally)
        except (EngineError, msgspec.DecodeError) as error:
            tally.add_problem(f"{folder}: left out: {error}")


def _count(params: ContractParams, verdict: object, tally: Tally) -> None:
    is_asked_for = tally.query.project in {None, params.folder}
    if isinstance(verdict, Evaluation) and is_asked_for and tally.wants(verdict.timestamp):
        used = RequestUsage(verdict.usage, verdict.cost, None)
        tally.count_request(params.folder, verdict.model, verdict.timestamp, used)
