"""The one place where parts become a program. Nothing below it chooses what it works with.

parts       settings → server, model, tools, session, agent
terminal    the agent in a terminal, and without one
workbench   the agents of a folder in the browser, on the job engine
programs    what other programs call
"""
