"""What tests of shipped modules share: a small profile, questions, and a copy to damage."""

from redlib import paths

SMALL = {
    "task1.rows": 250,
    "task1.seeds": {"text": 1, "structure": 1},
    "task1.source_seeds": {"structure": 1},
    "task2.definitions": {"operations": {"rows": 500, "seeds": {"structure": 1}}},
    "red_plus.task1.seeds": {"structure": 1},
    "decomposer.rows": 300,
    "decomposer.seeds": {"structure": 1},
    "decomposer.training.max_epochs": 1,
    "operations.domains": ["closed"],
    "operations.seeds": {"structure": 1},
}
CHAIN = "29 minus 11 minus 9 plus 15"
QUERIES = ["What is 47 plus 38?", "What is 40 plus 1?", "What is 18 plus 7 minus 3?"]


def copied(folder, tmp_path):
    """A copy to damage."""
    for file in folder.rglob("*"):
        if file.is_file():
            paths.write_bytes(tmp_path / "modules" / file.relative_to(folder), file.read_bytes())
    return tmp_path / "modules"
