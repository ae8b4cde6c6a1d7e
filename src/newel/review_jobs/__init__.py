"""Jobs that propose changes, and the review of what they propose.

service            wires the services, runs jobs for the worker, watches the ledger: start reading here
sessions, job_service, files, decisions, checkpoints, overview, file_browser    the services, one topic each
job_registry       the journals of live jobs; tells them about changes of their files
journal            the events of a job, and the state reduced from them
runner             runs a job: the model reads, asks and proposes; its prompts and events
propose            turns a model's edits into hunks of the ledger
overlay_workspace  the workspace with all proposed changes applied
apply              how a review ends
requests, responses    the JSON of the API
traces             the format of a trace, its export from the journal, its reader and its replay
errors, dependencies    errors and HTTP statuses; what the service is built from, and its limits
"""
