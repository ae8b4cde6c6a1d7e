"""The parser of all command lines."""

from __future__ import annotations

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong and in another where to look, instead of all options."""

    def error(self, message: str) -> NoReturn:
        from newel.cli.suggestions import usage_words

        words = usage_words(self.prog, message, list(self._option_string_actions))
        self.exit(2, f"{self.prog}: {words}\nTry `{self.prog} --help`.\n")
