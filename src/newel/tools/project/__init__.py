"""The tools of an agent that proposes and does not write: search, read, list, ask, propose."""
