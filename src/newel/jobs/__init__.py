"""Runs that outlive their process: the engine, its journal, and what is done with them."""
