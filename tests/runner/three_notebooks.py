"""Three throw-away notebooks, the table of the first, and what a run says and leaves."""

import nbformat

from redlib import paths
from redlib.study.notebooks import Notebook
from redlib.study.stage import Stage

THREE = (Notebook("00_a", "?", ("numbers",)), Notebook("01_b", "?"), Notebook("02_c", "?", chapter="more"))
DRAW = """from redlib import paths
paths.write_bytes(paths.runs(profile) / "figures" / "curve.png", b"png")
"written: curve.png, absent.png\""""


def numbers(profile):
    """A table that depends on one field of the profile."""

    def make(stage, out):
        paths.write_text(out / "numbers.csv", f"rows,run\n{stage.config['rows']},r1\n")
        paths.write_json(out / "runs.json", {"r1": {"cpu": "a"}})

    return Stage("numbers", 1, {"rows": profile.task1.rows}, make, seconds=2, bytes=3000)


def run(runner, notebooks, **options):
    """The lines said, without the clock."""
    said = []
    runner.run(notebooks, say=lambda line: said.append(line.partition("] ")[2]), **options)
    return said


def outputs(path):
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return "".join(output.get("text", "") for cell in cells for output in cell.outputs)
