"""The composition root. Nothing below it chooses what it works with.

agent_factory   settings to server, model, tools, session, agent
terminal        the agent in a terminal, and without one
web_server      the agents of a folder in the browser, on the job engine
api             the Python interface for other programs
"""
