"""Rules of the house: who imports whom, what lies where and how large, and that the README says what is there."""

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
TESTS = sorted((ROOT / "tests").rglob("*.py"))
by_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "redlib")))
by_file = pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=lambda path: str(path.relative_to(ROOT)))
in_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")


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


@by_file
def test_a_file_is_one_subject_in_at_most_300_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300


@by_source
def test_a_file_has_a_docstring(path):
    assert ast.get_docstring(tree_of(path)), "says what the room is for"


# ---- the project's files -----------------------------------------------------------------------------------------


def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_top_level_holds_what_was_agreed_and_nothing_else():
    assert {path.relative_to(ROOT).parts[0] for path in project_files()} <= ENTRIES


@in_git
def test_a_checkout_is_below_150_mb_and_no_file_of_it_over_30():
    sizes = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in project_files()}
    assert [name for name, size in sizes.items() if size > 30_000_000] == []
    assert sum(sizes.values()) < 150_000_000


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
