"""Jobs that propose changes, and the review of what they propose.

service            wires the services, runs jobs for the worker, watches the ledger: start reading here
sessions, job_service, files, decisions, checkpoints, overview, file_browser    the services, one topic each
job_registry       the journals of live jobs; tells them about changes of their files
journal, job_state the events of a job, and the state reduced from them
runner             runs a job: the model reads, asks and proposes
event_recorder     writes the agent's events to the job's journal
propose            turns a model's edits into hunks of the ledger
overlay_workspace  the workspace with all proposed changes applied
apply, rerun       how a review ends, and how a job runs again on changed files
session_store, retention    stored sessions; deletion of old jobs and sessions
requests, responses, validation, presenters    the JSON of the API, its checks, and views of sessions and jobs
trace_file, traces the format of a trace, its reader and its replay; the export from the journal
errors, prompts, dependencies    errors and HTTP statuses; prompts; what the service is built from, and its limits
"""
