"""The evaluation suite: tasks as data, runs of an agent on them, and what can be concluded from the results."""
