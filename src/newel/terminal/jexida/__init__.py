"""An agent for one host: a model proposes shell commands, and the user approves them. It runs on the REPL of ``newel``.

ports           what it needs of a host and of a model
agent           prompts, history window, session
reply_provider  converts between the heart's messages and the protocol of answers and shell commands
json_stream     the text of an answer while its JSON is still being written
shell_tool      the one tool, and the question whether it may run
renderer        events as panels; panels draws their frames
commands        what ``/name`` does
repl            the loop that reads the user's input
"""
