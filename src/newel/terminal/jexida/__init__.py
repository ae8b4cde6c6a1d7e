"""An agent for one host: a REPL of panels, where a model proposes shell commands and the user approves them.

ports           what it needs of a host and of a model
agent           prompts, history window, session
reply_provider  converts between the heart's messages and the protocol of answers and shell commands
json_stream     the text of an answer while its JSON is still being written
shell_tool      the one tool, and the question whether it may run
renderer        events as panels, drawn by panel_style and panels
commands        what ``/name`` does
repl            the loop that reads the user's input
"""
