"""Nobody writes a file past the atomic writer of `paths`: a rule on the sources, and what it finds."""

import ast
import re

import pytest
from test_house import by_source, room, tree_of

WRITES = {"write_text", "write_bytes", "savefig", "to_parquet", "to_feather", "to_pickle", "to_excel", "save_file"}
WRITES |= {
    "save_pretrained",
    "save_model",
    "tofile",
    "savez",
    "savetxt",
    "safe_serialization",
}
COPIES = {"copyfile", "copy", "copy2", "copytree", "move"}
WITH_A_PATH = {"to_csv", "to_json"}  # without one they return text
SAVERS = {"np", "numpy", "torch", "pickle", "json", "joblib"}  # whose `save` and `dump` write


def written_path(call):
    """The expression that says where a call writes, or None when it writes nothing."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    owner = function.value if isinstance(function, ast.Attribute) else None
    first = call.args[0] if call.args else None
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    if name in ("write_text", "write_bytes"):
        return owner
    if name == "save_file":
        return call.args[1] if len(call.args) > 1 else named.get("filename")
    if name in COPIES:
        return call.args[1] if len(call.args) > 1 else named.get("dst")
    if name in WRITES:
        return first or owner
    if name in WITH_A_PATH:
        return first or named.get("path_or_buf")
    if name in ("save", "dump") and isinstance(owner, ast.Name) and owner.id in SAVERS:
        return call.args[1] if name == "dump" or owner.id == "torch" else first
    if name == "open":
        modes = [arg.value for arg in [*call.args, *named.values()] if isinstance(arg, ast.Constant)]
        if any(
            isinstance(mode, str) and re.fullmatch(r"[rwxab+t]{1,3}", mode) and set(mode) & set("wxa+")
            for mode in modes
        ):
            return first if owner is None else owner
    return None


def root_name(expression):
    """`out` of `(out / "a").with_suffix(".b")`."""
    while expression is not None and not isinstance(expression, ast.Name):
        children = [getattr(expression, field, None) for field in ("left", "value", "func")]
        expression = next((child for child in children if child is not None), None)
    return expression.id if expression is not None else ""


def is_atomic(node):
    opened = [item.context_expr for item in node.items] if isinstance(node, ast.With) else []
    calls = [call.func for call in opened if isinstance(call, ast.Call)]
    return any(getattr(function, "attr", getattr(function, "id", "")).startswith("atomic_") for function in calls)


def stray_writes(tree):
    """Lines that write past the atomic writer.

    Allowed are `paths.write_*`, anything inside `with paths.atomic_*`, the folder `out` that a stage is given, and in a
    module with such a `with` the private functions that are given its folder.
    """
    atomic_module = any(is_atomic(node) for node in ast.walk(tree))
    stray = []

    def visit(node, safe, given):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            names = {argument.arg for argument in node.args.args}
            private = isinstance(node, ast.FunctionDef) and node.name.startswith("_") and atomic_module
            given = given | (names if private else names & {"out"})
        safe = safe or is_atomic(node)
        if isinstance(node, ast.Call) and not safe:
            target = written_path(node)
            if target is not None and root_name(target) not in {"paths", *given}:
                stray.append(node.lineno)
        for child in ast.iter_child_nodes(node):
            visit(child, safe, given)

    visit(tree, False, frozenset())
    return stray


@by_source
def test_nobody_writes_a_file_past_the_atomic_writer(path):
    if room(path) != "paths":
        assert stray_writes(tree_of(path)) == []


@pytest.mark.parametrize(
    "line",
    [
        "open(p, 'w')",
        "open(p, mode='ab')",
        "p.open('w')",
        "p.write_text('a')",
        "(p / 'a').write_bytes(b'')",
        "frame.to_csv(p)",
        "frame.to_csv(path_or_buf=p)",
        "frame.to_parquet(p)",
        "fig.savefig(p)",
        "np.save(p, a)",
        "torch.save(a, p)",
        "save_file(tensors, p)",
        "json.dump(a, f)",
        "model.save_pretrained(p)",
    ],
)
def test_the_rule_finds_every_way_of_writing(line):
    assert stray_writes(ast.parse(line)) == [1]
    assert stray_writes(ast.parse(f"def make(stage, p):\n    {line}")) == [2]
    assert stray_writes(ast.parse(f"with paths.atomic_file(x) as p:\n    {line}")) == []


@pytest.mark.parametrize(
    "line",
    [
        "open(p)",
        "open(p, 'rb')",
        "archive.open('w.txt')",
        "frame.to_csv(index=False)",
        "paths.write_text(p, 'a')",
        "np.load(p)",
        "def make(stage, out):\n    np.save(out / 'a.npy', a)",
        "results.save(p, 'a', frame)",
    ],
)
def test_the_rule_lets_reading_and_the_atomic_writer_pass(line):
    assert stray_writes(ast.parse(line)) == []
