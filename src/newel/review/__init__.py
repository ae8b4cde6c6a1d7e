"""Every change is a hunk that can be kept, rejected or undone.

model          one file under review, as values and pure functions: file_review (base, hunks, layers), edits, proposal, merge,
               decisions, rebase, revert_applied, history; file_lines and file_kinds turn files into lines
store          the SQLite ledger, its schema and transactions, its garbage collection, and a watch on other processes
tracking       workspaces that record what an agent does: change_recorder, the log of pending effects, the isolated copy
save           writes accepted hunks to the disk, and updates the ledger from it; save_plans orders the writes
folders        folders that files imply, and those that go with the last file of a run
checkpoints    files before a run, and the rollback to them; revert computes it
project        the runs of a project, and how one is undone
decide         selects and decides pending hunks
serialize      JSON views
undo_notices   reports decisions and undos to the model
"""
