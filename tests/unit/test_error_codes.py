"""If this fails, programs no longer recognize the error codes they act on."""

from __future__ import annotations

import pytest

from newel.agent.errors import HostUnavailable, NewelError, StaleFile
from newel.app.model_resolver import NoModelConfigured, NoModelOnHost
from newel.jobs.engine import JobCancelled, LeaseLost
from newel.review.model.file_review import ChoiceNeeded, UserEditConflict
from newel.review.tracking.change_recorder import FileTooLarge
from newel.review_jobs.errors import NoSuchJob, ReviewServiceError
from newel.terminal.rpc.requests import InvalidRpcRequest
from newel.workbench.tab_session import TabServiceError

CODES: dict[type[NewelError], str] = {
    NewelError: "newel_error",
    StaleFile: "stale_file",
    HostUnavailable: "host_gone",
    NoModelConfigured: "nothing_found",
    NoModelOnHost: "nothing_there",
    LeaseLost: "lost",
    JobCancelled: "cancelled",
    UserEditConflict: "contested",
    ChoiceNeeded: "needs_choice",
    FileTooLarge: "too_large",
    ReviewServiceError: "desk_error",
    NoSuchJob: "no_such_job",
    InvalidRpcRequest: "bad_request",
    TabServiceError: "board_error",
}


@pytest.mark.parametrize("error", CODES)
def test_a_code_does_not_depend_on_the_name_of_its_class(error: type[NewelError]) -> None:
    assert error.code == CODES[error]
