"""Result tables: tidy CSV with intervals, each row with the run that made it.

`save` / `load` a table of a folder, `Folder` has all of them by name, `pick` / `select` rows or fail by name, `table`
shows rows against columns, `difference` and `standing` put rows in words, `compare` sets two result sets against each
other, `provenance` says where a number comes from.
"""

from redlib.results.compare import compare
from redlib.results.folder import Folder
from redlib.results.provenance import known_runs, provenance, record_run, resolve
from redlib.results.show import cell, pick, select, table
from redlib.results.tidy import EXTRA_COLUMNS, KEY, load, read, save, validate, write, write_csv
from redlib.results.words import difference, direction, listed, standing

__all__ = [
    "EXTRA_COLUMNS",
    "KEY",
    "Folder",
    "cell",
    "compare",
    "difference",
    "direction",
    "known_runs",
    "listed",
    "load",
    "pick",
    "provenance",
    "read",
    "record_run",
    "resolve",
    "save",
    "select",
    "standing",
    "table",
    "validate",
    "write",
    "write_csv",
]
