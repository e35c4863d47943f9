"""The command line: `python -m redlib --help`.

A mistake of the caller is one sentence and exit code 2, a failed notebook or run exit code 1; `--debug` shows the
traceback. Whoever stops reading, as `| head` does, is no mistake: exit code 141, as of a program that SIGPIPE ends.
"""

import errno
import os
import shutil
import sys

from redlib import paths
from redlib.commands import parser
from redlib.commands.shown import existing, size


def sentence(error: BaseException) -> str:
    """What went wrong, for someone who did not write the code."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        free = size(shutil.disk_usage(existing(paths.cache())).free)
        where = f" at {error.filename}" if error.filename else ""
        what = f"the disk is full or a file may not grow further{where} ({free} free at {paths.cache()})"
        return f"{what}; make room or set REDLIB_CACHE to another disk"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {error.filename}" if error.filename else "")
    return str(error)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = parser().parse_args(arguments)
    try:
        args.call(args)
        print(end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left goes nowhere when the interpreter ends
        return 141
    except KeyboardInterrupt:
        print("interrupted; the same command continues where it stopped", file=sys.stderr)
        return 130
    except (ValueError, OSError, ArithmeticError, RuntimeError) as error:
        if args.debug:
            raise
        print(f"redlib: {sentence(error)}", file=sys.stderr)
        return 1 if type(error).__name__ in ("NotebookError", "SweepError") else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
