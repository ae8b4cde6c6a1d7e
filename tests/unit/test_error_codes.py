"""If these fail, programs no longer recognize the errors they act on."""

from __future__ import annotations

import pickle

import pytest

from newel.agent.errors import HostUnavailable, NewelError, RateLimited, SessionInUse, StaleFile
from newel.app.model_resolver import NoModelConfigured, NoModelOnHost
from newel.client import CommandFailed, ProcessEnded
from newel.jobs.engine import JobCancelled, LeaseLost
from newel.review.model.file_review import ChoiceNeeded, UserEditConflict
from newel.review.tracking.change_recorder import FileTooLarge
from newel.review_jobs.errors import NoSuchJob, ReviewServiceError
from newel.terminal.rpc.protocol import RpcFailure
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


@pytest.mark.parametrize(
    "error",
    [
        RateLimited("Wait.", status=429, retry_after=2.0),
        SessionInUse("f5ccf73b0000", "in this process"),
        CommandFailed("prompt", RpcFailure("bad_request", "It is empty.")),
        ProcessEnded(1, "its last words", None),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_passes_from_one_process_to_another(error: NewelError) -> None:
    """A pool of processes breaks at a result that it cannot unpickle, and tells nothing of its cause."""
    received = pickle.loads(pickle.dumps(error))  # noqa: S301 — our own
    assert (type(received), str(received), vars(received)) == (type(error), str(error), vars(error))
