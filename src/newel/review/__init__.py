"""Every change is a hunk that can be kept, rejected or taken back.

One file under review, as values; each function makes the next one:

ledger         base, hunks, layers
text, paths    files as lines; names that are of the project
edits          what is written: hunks come about, meet and grow
proposal       a model's edits, in hunks that are easily read
staging        what was done to a copy of the file, as a proposal
decisions      accept, reject, reopen, peel
bases          saved, changed on the disk, written to by an agent
rollback       back, after the save
takeback       what a rollback makes of a file
history        the journal of it all, and undo
views, patches, deciding    as people and programs see it, and decide

A project:

store, tables  the ledger, kept
saving         between the ledger and the disk
checkpoints    how files were before a run, and the way back
runs           the runs of agents, and how one is taken back
folders        those that came with a run
purging, forgetting         what is too old goes

An agent at work:

recording      the workspace that records what is done there
recorder       what was before each effect, and what came of it
interrupted    effects that a killed process left half done
isolation      an agent that works in a copy
copy_recorder  what happens to the copy is proposed
"""
