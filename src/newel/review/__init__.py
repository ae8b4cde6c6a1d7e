"""Every change is a hunk that can be kept, rejected or taken back.

ledger      one file under review: base, hunks, layers
edits       what is written: hunks come about, meet and grow
decisions   accept, reject, reopen, peel
bases       saved, changed on the disk, written to by an agent
rollback    back, after the save
history     the journal of it all, and undo
text        files as lines
"""
