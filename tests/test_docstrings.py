"""Rules of docstrings: everything public has one, and what takes arrays says of which shape.

Sources are read, not imported. A shape is written `(N, d)`, `(S, B, C)` or `(n,)`: sizes between commas, one of them a
letter, or a single size. What takes tensors of any shape says "any shape".
"""

import ast
import re
from functools import cache

import pytest

from redlib import paths
from redlib.commands import parser

FOLDER = paths.root() / "redlib"
TREES = {
    path.relative_to(FOLDER).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(FOLDER.rglob("*.py"))
}
ARRAY = re.compile(r"\b(Tensor|ndarray|ArrayLike)\b")
WORD = r"(?:\w+'?|\.\.\.?)"
SIZE = re.compile(rf"{WORD}(?: ?[-+*/ ] ?{WORD})?")
LETTER = re.compile(r"(?<!\w)[A-Zb-z](?:_\w+|')?(?!\w)")  # "a" is a word
by_source = pytest.mark.parametrize("path", TREES)


def states_shape(text):
    """Whether a docstring says the shape of something."""
    for inner in re.findall(r"\(([^()]*,[^()]*)\)", text):
        *sizes, last = (size.strip() for size in inner.split(","))
        sizes += [last] if last else []
        if all(map(SIZE.fullmatch, sizes)) and (not last or any(map(LETTER.search, sizes))):
            return True
    return "any shape" in " ".join(text.split())


def arrays(function):
    """Names of the arguments whose annotation mentions an array."""
    a = function.args
    every = [arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if arg and arg.annotation]
    return [arg.arg for arg in every if ARRAY.search(ast.unparse(arg.annotation))]


def named(kind, body, name=None):
    return [node for node in body if isinstance(node, kind) and name in (None, node.name)]


@cache
def origin(path, name):
    """Where a class that a module names is defined: beginning of a path of the library."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ImportFrom) and any(name in (alias.asname, alias.name) for alias in node.names):
            return node.module.replace(".", "/").removeprefix("redlib/")
    return path


@cache
def family(path, owner):
    """A class and those of the library that it inherits from, nearest first."""
    found = [owner]
    for base in owner.bases:
        name = ast.unparse(base)
        for other in (other for other in TREES if other.startswith(origin(path, name))):
            found += [one for made in named(ast.ClassDef, TREES[other].body, name) for one in family(other, made)]
    return found


def described(path, function, owner=None):
    """Where a function may be described: in its docstring; for a method also in that of the method that it overrides;
    for `forward` and `__call__`, which are what a class is for, also in that of the class."""
    texts = [ast.get_docstring(function)]
    for relative in family(path, owner) if owner else ():
        texts += [ast.get_docstring(method) for method in named(ast.FunctionDef, relative.body, function.name)]
        texts += [ast.get_docstring(relative)] if function.name in ("forward", "__call__") else []
    return "\n".join(filter(None, texts))


def public(path):
    """Public functions of a module without a class, and public methods with theirs."""
    functions = [(function, None) for function in named(ast.FunctionDef, TREES[path].body)]
    for owner in named(ast.ClassDef, TREES[path].body):
        if not owner.name.startswith("_"):
            functions += [(method, owner) for method in named(ast.FunctionDef, owner.body)]
    return [(f, owner) for f, owner in functions if f.name == "__call__" or not f.name.startswith("_")]


def is_command(node):
    """Whether a command calls it, whose help says what it does."""
    given = node.args.args if isinstance(node, ast.FunctionDef) else ()
    return [ast.unparse(arg.annotation) for arg in given if arg.annotation] == ["argparse.Namespace"]


def sets(method):
    """Whether it is the setter of a property, which says what it is."""
    return any(ast.unparse(decorator).endswith(".setter") for decorator in method.decorator_list)


@by_source
def test_every_public_function_and_class_has_a_docstring(path):
    made = named(ast.FunctionDef | ast.ClassDef, TREES[path].body)
    assert [
        node.name
        for node in made
        if not node.name.startswith("_") and not ast.get_docstring(node) and not is_command(node)
    ] == []


def test_every_command_has_its_help():
    commands = parser()._subparsers._group_actions[0]
    assert {action.dest for action in commands._choices_actions if action.help} == set(commands.choices)


@by_source
def test_every_public_method_and_property_has_a_docstring(path):
    methods = [(method, owner) for method, owner in public(path) if owner and not sets(method)]
    assert [f"{owner.name}.{method.name}" for method, owner in methods if not described(path, method, owner)] == []


@by_source
def test_every_public_function_with_array_arguments_states_shapes(path):
    silent = []
    for function, owner in public(path):
        if arrays(function) and not states_shape(described(path, function, owner)):
            silent.append(f"{owner.name}.{function.name}" if owner else function.name)
    assert silent == []


def test_a_method_inherits_the_shapes_of_what_it_overrides():
    (red,) = named(ast.ClassDef, TREES["models/methods.py"].body, "RED")
    assert [relative.name for relative in family("models/methods.py", red)] == ["RED", "Method"]
    (oracle,) = named(ast.ClassDef, TREES["models/executors.py"].body, "OracleOperator")
    assert [relative.name for relative in family("models/executors.py", oracle)] == ["OracleOperator", "RED", "Method"]


@pytest.mark.parametrize("annotation", ["Tensor", "np.ndarray | None", "Mapping[str, Tensor]", "'torch.Tensor'"])
def test_the_rule_knows_an_array(annotation):
    assert arrays(ast.parse(f"def f(a: int, x: {annotation}, b=1): ...").body[0]) == ["x"]


@pytest.mark.parametrize("text", ["x (N, d)", "h (S, B, d) -> logits (1, B, C)", "(n,)", "(rounds,)", "(..., V, K)"])
@pytest.mark.parametrize("more", ["", " (B, T + tokens)", " of (2,401) (the source, 4.4.3)"])
def test_the_rule_knows_a_shape(text, more):
    assert states_shape(f"Something, {text}.{more}")


@pytest.mark.parametrize("text", ["(K r, d)", "(B, n_j, d_j)", "(3 * L, G)", "(n, side, side)", "of any shape"])
def test_the_rule_knows_an_unusual_shape(text):
    assert states_shape(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all of (2,401)",
        "(the source, 4.4.3)",
        "(value, range)",
        "(a text, a token)",
        "(2-layer, linear)",
        "classifier(h + delta(h))",
        "(0, 1, 2, ...)",
        "(all, if none are named)",
        "(a distance, a calibration error)",
    ],
)
def test_the_rule_knows_what_is_no_shape(text):
    assert not states_shape(text)
