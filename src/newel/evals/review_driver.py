"""Has a review job done as a user would have it: an instruction, answers to questions, decisions on hunks, a re-run after a conflict.

    python -m newel.evals.review_driver PLAN [OPTIONS of newel web]

``PLAN`` is a file with a ``ReviewPlan``. It starts a workbench in the working folder and uses its API. Standard output is like that of JSON
mode: a line for each event, and ``result`` lines at the end of each instruction.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from newel.agent.errors import NewelError
from newel.text.json import as_dict, as_list, as_str

SKIPPED: Final = "no_user_answer"
_PAUSED: Final = frozenset({"waiting_for_user", "awaiting_review", "completed", "failed"})
MOST_RERUNS: Final = 3
_POLL_S: Final = 0.05

MEANWHILE: Final = "meanwhile"
MEANWHILE_DONE: Final = "meanwhile.done"
"""Files beside the project: the driver makes the first for the process that has the sandbox to run the user's command, which writes its
exit code to the second.
"""


class ReviewPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``prompts`` are given one after another. ``answers`` are to questions, in their order; further ones are skipped. ``meanwhile``: once
    there is a first proposal, the user changes files; see ``MEANWHILE``. Hunks whose patch any of ``reject`` matches are rejected, the
    others accepted.
    """

    prompts: list[str]
    answers: list[str] = []
    meanwhile: bool = False
    reject: list[str] = []


class DriverError(NewelError):
    """The workbench could not be started, or refused a request."""


class _Api:
    """The API of a workbench, by the address that it prints."""

    def __init__(self, address: str) -> None:
        import httpx2

        place = urlsplit(address)
        token = place.fragment.removeprefix("token=")
        self._client = httpx2.Client(
            base_url=f"{place.scheme}://{place.netloc}/api/agent/",
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            trust_env=False,
        )

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return self._read(self._client.get(path, params=query))

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        return self._read(self._client.post(path, json=body))

    def _read(self, response: Any) -> dict[str, Any]:
        body = as_dict(response.json())
        if response.status_code >= 400:
            error = as_dict(body.get("error"))
            raise DriverError(f"{response.status_code} {error.get('code')}: {error.get('message')}")
        return body


class _Driver:
    def __init__(self, api: _Api, plan: ReviewPlan) -> None:
        self._api = api
        self._plan = plan
        self._answers = list(plan.answers)
        self._meanwhile = plan.meanwhile
        self._cursor = 0
        self._counts = dict.fromkeys(("proposed", "accepted", "conflicts", "questions"), 0)

    def run(self) -> None:
        session = self._api.post("sessions")["session_id"]
        for prompt in self._plan.prompts:
            began = time.monotonic()
            self._counts = dict.fromkeys(self._counts, 0)
            job = self._api.post("run", session_id=session, instruction=prompt)["job_id"]
            view = self._settle(job)
            _emit(
                type="result",
                text=as_str(view.get("summary")) or as_str(view.get("error")),
                reason="error" if view["status"] == "failed" else "done",
                duration=round((time.monotonic() - began) * 1000),
                review=self._counts,
                usage=view.get("usage"),
                cost=view.get("cost"),
            )

    def _settle(self, job: str) -> dict[str, Any]:
        """Follow a job to its end."""
        reruns = 0
        self._cursor = 0
        while True:
            view = self._until_paused(job)
            match view["status"]:
                case "waiting_for_user":
                    self._counts["questions"] += 1
                    answer = self._answers.pop(0) if self._answers else SKIPPED
                    self._api.post(
                        f"jobs/{job}/clarify", question_id=view["question"]["question_id"], answer=answer
                    )
                case "awaiting_review":
                    if self._meanwhile:
                        _ask_for_changes()
                        self._meanwhile = False
                    if self._decide(job, view) or reruns == MOST_RERUNS:
                        return self._until_paused(job)
                    reruns += 1
                    self._counts["conflicts"] += 1
                    first, job = job, as_str(self._api.post(f"jobs/{job}/rerun")["job_id"])
                    self._api.post("apply", session_id=view["session_id"], job_id=first, accepted_hunk_ids=[])
                    self._cursor = 0
                case _:
                    return view

    def _until_paused(self, job: str) -> dict[str, Any]:
        while True:
            page = self._api.get(f"jobs/{job}/events", cursor=self._cursor, wait=20)
            for event in as_list(page.get("events")):
                _emit(type="review_event", event=event)
            self._cursor = int(page["next_cursor"])
            if page["status"] in _PAUSED:
                return self._api.get(f"jobs/{job}")

    def _decide(self, job: str, view: dict[str, Any]) -> bool:
        """Accept or reject each hunk, and apply; False if a file has changed meanwhile."""
        hunks = list(_hunks(view))
        accepted = [
            as_str(hunk["hunk_id"]) for hunk in hunks if not self._is_rejected(as_str(hunk.get("patch")))
        ]
        self._counts["proposed"] += len(hunks)
        try:
            self._api.post("apply", session_id=view["session_id"], job_id=job, accepted_hunk_ids=accepted)
        except DriverError as error:
            if "conflict" not in str(error):
                raise
            return False
        self._counts["accepted"] += len(accepted)
        return True

    def _is_rejected(self, patch: str) -> bool:
        return any(re.search(pattern, patch, re.MULTILINE) for pattern in self._plan.reject)


def _ask_for_changes() -> None:
    Path("..", MEANWHILE).touch()
    done = Path("..", MEANWHILE_DONE)
    while not done.exists():
        time.sleep(_POLL_S)
    if (code := done.read_text(encoding="ascii")) != "0":
        raise DriverError(f"The command `meanwhile` of the task failed with {code}.")


def _hunks(view: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for file in as_list(as_dict(view.get("diff_bundle")).get("files")):
        for hunk in as_list(as_dict(file).get("hunks")):
            yield as_dict(hunk)


def _emit(**event: Any) -> None:
    sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    plan = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=ReviewPlan)
    command = [sys.executable, "-P", "-m", "newel", "web", "--port", "0", "--exit-with-stdin", *arguments[1:]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None  # noqa: S101 — as asked for
            address = next((line.strip() for line in server.stdout if "#token=" in line), "")
            if not address:
                raise DriverError("The workbench did not start.")
            _Driver(_Api(address), plan).run()
        except NewelError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        finally:
            server.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
