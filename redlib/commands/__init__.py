"""The commands behind `python -m redlib`, a group a file: `running` and `sweeping` make things, `asking` asks."""

import argparse
from typing import NoReturn

from redlib.commands import asking, running, sweeping


class Parser(argparse.ArgumentParser):
    """Says a mistake in one sentence instead of after the usage."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence and exit with code 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def parser() -> Parser:
    """The commands and their options."""
    top = Parser(prog="redlib", description="A study of routed residual experts.")
    top.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = top.add_subparsers(dest="command", required=True)
    running.add(commands)
    asking.add(commands)
    sweeping.add(commands)
    return top
