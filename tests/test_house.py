"""Rules of the house: who imports whom, who writes files, what lies where, and that the README says what is there."""

import ast
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from redlib import bench, paths
from redlib.commands import parser
from redlib.study.answers import WAITING
from redlib.study.notebooks import NOTEBOOKS
from redlib.study.readme import CLAIMS_END, CLAIMS_START, END, MAP_END, MAP_START, START

ROOT = paths.root()
ROOMS = (  # an earlier room never imports a later one
    *("config", "paths", "expressions", "phrasing", "programs", "datasets", "backbone", "packing", "features"),
    *("models", "training", "modules", "decomposer", "execution", "evaluation", "routing", "probes", "statistics"),
    *("cost", "sparse", "nested", "explain", "widgets", "results", "claims", "figures", "study"),
    *("bench", "sweep", "commands", "__main__"),
)
ALLOWED = {("evaluation", "statistics"), ("routing", "statistics"), ("bench", "sparse")}
ENTRIES = {
    *("README.md", "environment.yml", "pyproject.toml", "Makefile", "LICENSE", "NOTICE", "CITATION.cff"),
    *(".gitignore", ".gitattributes", ".ci", "notebooks", "redlib", "figures", "data", "tests"),
}
PROVIDED = {
    "nbclient": "papermill",
    "traitlets": "ipykernel",
    "jupyter_client": "ipykernel",
    "tokenizers": "transformers",
}
NAMES = {"sklearn": "scikit-learn", "PIL": "pillow"}  # where a package and its import differ
SOURCES = sorted((ROOT / "redlib").rglob("*.py"))
by_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "redlib")))


def room(path):
    return path.relative_to(ROOT / "redlib").parts[0].removesuffix(".py")


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree):
    """Dotted names of what is imported anywhere in a module, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def project_files():
    """Files of the checkout that git knows or would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in sorted(set(listed)) if (ROOT / name).is_file()]


@by_source
def test_a_room_imports_earlier_rooms_only(path):
    own = room(path)
    if own == "__init__":
        assert list(imports(tree_of(path))) == []
        return
    assert own in ROOMS, f"{own} is no room; the rooms are {', '.join(ROOMS)}"
    for name in imports(tree_of(path)):
        package, _, rest = name.partition(".")
        if package != "redlib":
            continue
        other = rest.partition(".")[0]
        assert other in ROOMS, name
        if other != own and (own, other) not in ALLOWED:
            assert ROOMS.index(other) < ROOMS.index(own), f"{own} imports the later room {other}"


@by_source
def test_what_a_room_imports_is_a_declared_dependency(path):
    project = pyproject()["project"]
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *extras["bench"], *extras["cluster"]]
    declared = {re.match(r"[\w-]+", line).group().lower() for line in listed}
    for name in imports(tree_of(path)):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top != "redlib":
            package = PROVIDED.get(top, NAMES.get(top, top)).lower()
            assert package in declared or package.replace("_", "-") in declared, f"{top} is not declared"


@by_source
def test_a_file_is_one_subject_with_a_docstring_and_at_most_300_lines(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    assert ast.get_docstring(ast.parse(text)), "says what the room is for"


# ---- writing -----------------------------------------------------------------------------------------------------

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


# ---- the project's files -----------------------------------------------------------------------------------------


def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_top_level_holds_what_was_agreed_and_nothing_else():
    assert {path.relative_to(ROOT).parts[0] for path in project_files()} <= ENTRIES


def test_no_file_is_large():
    assert [path for path in project_files() if path.stat().st_size > 30_000_000] == []


def test_no_file_names_a_place_that_readers_do_not_have():
    places = ["/" + "work/", "/" + "root/", ".." + "/shared", "/." + "library"]
    for path in project_files():
        if path.suffix not in (".ipynb", ".png"):
            text = path.read_text(encoding="utf-8", errors="replace")
            assert [place for place in places if place in text] == [], path.name


def test_dependencies_stand_in_pyproject_alone():
    others = {"setup.py", "setup.cfg", "Pipfile", "requirements.txt", "environment.yaml", "conda.yml", "poetry.lock"}
    names = {path.name for path in project_files()}
    assert not names & others
    assert not [name for name in names if name.startswith("requirements")]


def test_environment_yml_is_python_pip_and_the_project_with_its_extras():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["dependencies"][:2] == ["python=3.11", "pip"]
    (pip,) = environment["dependencies"][2]["pip"]
    extras = re.fullmatch(r"-e \.\[([\w,]+)\]", pip).group(1).split(",")
    assert set(extras) <= set(pyproject()["project"]["optional-dependencies"])


def test_the_citation_names_the_project_and_its_source():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == pyproject()["project"]["version"]
    assert citation["license"] == pyproject()["project"]["license"] == "MIT"
    assert "Residual Expert Decomposition" in citation["references"][0]["title"]


def test_every_bad_thing_is_said_once_by_strict_settings():
    options = pyproject()["tool"]["pytest"]["ini_options"]
    assert options["filterwarnings"][0] == "error"
    assert "--strict-markers" in options["addopts"]


# ---- the README --------------------------------------------------------------------------------------------------

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_maps_every_notebook_with_its_question():
    rows = re.findall(r"^\| `(\d\d_\w+)` \| ([^|]+) \| ([^|]+) \|$", README, re.MULTILINE)
    assert [row[:2] for row in rows] == [(notebook.name, notebook.question) for notebook in NOTEBOOKS]
    assert all(said == WAITING or said.endswith(".") for _, _, said in rows)


def test_the_readme_lists_every_room_once_and_in_order():
    listed = re.findall(r"^  (\w+) {2,}\S", README, re.MULTILINE)
    there = [name for name in ROOMS[:-1] if any(room(path) == name for path in SOURCES)]
    assert listed == there


@pytest.mark.parametrize(("start", "end"), [(START, END), (CLAIMS_START, CLAIMS_END), (MAP_START, MAP_END)])
def test_the_readme_has_the_markers_of_its_computed_tables_once(start, end):
    assert README.count(start) == README.count(end) == 1
    assert README.index(start) < README.index(end)


def test_every_command_of_the_readme_exists():
    commands = parser()._subparsers._group_actions[0].choices
    named = set(re.findall(r"python -m redlib (\w+)", README))
    assert named <= set(commands)
    assert set(commands) <= named
    benches = re.search(r"redlib bench NAME +# (.*)", README).group(1).split(", ")
    assert benches == list(bench.BENCHES)
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    typed = re.sub(r"<!-- (\w+):start -->.*?<!-- \1:end -->", "", README, flags=re.DOTALL)  # answers are prose
    assert set(re.findall(r"`?make (\w+)", typed)) - {"PYTHON"} <= targets
