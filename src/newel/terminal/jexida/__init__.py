"""An agent for one host: a REPL of panels, where a model proposes shell commands and a person lets them run.

ports          what it needs of a host and of a model
conversation   the agent: prompts, window of history, session
reply          between the heart's messages and the protocol of answers and shell commands
streaming      the text of an answer while its JSON is still being written
proposals      the one tool, and the question whether it may run
renderer       events as panels; dress and boxes draw these
commands       what ``/name`` does
repl           the person
"""
