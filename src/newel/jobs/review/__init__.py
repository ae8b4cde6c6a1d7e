"""Jobs that propose changes, and the review of what they propose.

desk        what a client talks to: sessions, jobs, decisions, apply, checkpoints
work        a job carried out: the model reads, asks and proposes
recorder    what the loop tells becomes the job's journal
proposing   its edits become hunks of the ledger
staged      the workspace as it would be if all that is proposed were kept
journal     what happened in a job, kept by the engine
fold        what a job has come to: the fold of its journal
trace       the trace of a job: its format, read and replayed
traced      an engine whose jobs leave traces
sessions    the sessions, kept
upkeep      what is forgotten, and when
files       decisions, edits and saves of files under review
splicing    what the user typed becomes hunks
showing     sessions and jobs as clients see them
overview    what there is to look at, in short
paging      the events of a job, page by page
applying    a review comes to its end
cancelling  a job that its user does not want any more
rerunning   a job run again on files that have changed
rollbacks   checkpoints, and the way back to them
payloads    what goes over the wire
requests    what clients send, checked
errors      what can be wrong, and which HTTP status says so
prompts     what the model is told
bench       the parts of it all
limits      the limits, in one place
"""
