"""Models in GGUF files, served by llama.cpp in a process of its own. Needs the extra ``local``."""
