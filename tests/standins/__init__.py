"""Substitutes for programs and servers that tests cannot have, each with the facts that it imitates."""
