"""Result tables: tidy CSV with intervals, each row with the run that made it.

`save` / `load` a table of a folder, `pick` / `select` rows or fail by name, `table` shows rows against columns,
`compare` sets two result sets against each other, `provenance` says where a number comes from.
"""

from redlib.results.compare import compare
from redlib.results.provenance import provenance, record_run, resolve
from redlib.results.show import pick, select, table
from redlib.results.tidy import EXTRA_COLUMNS, KEY, load, read, save, validate, write, write_csv

__all__ = [
    "EXTRA_COLUMNS",
    "KEY",
    "compare",
    "load",
    "pick",
    "provenance",
    "read",
    "record_run",
    "resolve",
    "save",
    "select",
    "table",
    "validate",
    "write",
    "write_csv",
]
