"""Jobs that propose changes, and the review of what they propose.

service            sessions, jobs, decisions, apply, checkpoints: what a client calls
runner             runs a job: the model reads, asks and proposes
event_recorder     writes agent events to the job's journal
propose            turns a model's edits into hunks of the ledger
overlay_workspace  the workspace as if all proposed changes were kept
journal, job_state the events of a job, and the state folded from them
trace_file         the format of a trace, its reader and its replay; tracing_engine writes traces
session_store      the sessions
retention          removes old jobs and sessions
file_reviews       decisions, edits and saves of files under review; splices turns typing into hunks
presenters         sessions and jobs as clients see them; overview, event_pages and file_browser list
apply, cancel, rerun    how a job ends, and starts again
checkpoints        checkpoints and rollbacks
schemas            requests and responses; validation checks requests
errors             errors, and their HTTP statuses
prompts            prompts for the model
dependencies, limits    what the service is built from, and its limits
"""
