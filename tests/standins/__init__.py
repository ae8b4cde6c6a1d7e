"""Programs and servers that stand in for ones that tests cannot have, each with the facts that it copies."""
