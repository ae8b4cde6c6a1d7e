"""Jobs that propose changes, and the review of what they propose.

desk        what a client talks to: sessions, jobs, decisions, apply, checkpoints
work        a job carried out: the model reads, asks and proposes
proposing   its edits become hunks of the ledger
staged      the workspace as it would be if all that is proposed were kept
journal     what happened in a job, kept by the engine
fold        what a job has come to: the fold of its journal
sessions    the sessions, kept
upkeep      what is forgotten, and when
files       decisions, edits and saves of files under review
payloads    what goes over the wire
errors      what can be wrong, and which HTTP status says so
prompts     what the model is told
"""
