"""Links of every page and notebook lead somewhere, and the README's file tree says what is there.

Links to the web are not followed: they only have to be addresses.
"""

import json
import os
import re
from fnmatch import fnmatch
from functools import cache
from urllib.parse import unquote, urlsplit

import pytest
from test_house import README, ROOT, project_files

FILES = {path.relative_to(ROOT).as_posix() for path in project_files()}
FOLDERS = {"/".join(name.split("/")[:depth]) for name in FILES for depth in range(1, name.count("/") + 1)}
PAGES = sorted(name for name in FILES if name.endswith((".md", ".ipynb")))
OF_GIT = {".gitignore", ".gitattributes"}  # not for readers
WEB = re.compile(r"https?:[^\s<>\"'`)\]]*")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HOST = re.compile(r"([\w-]+\.)+[a-z]{2,}")


@cache
def text_of(page):
    """A page as Markdown; of a notebook its Markdown cells."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.endswith(".md"):
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


def prose(text):
    """Markdown without its code."""
    return re.sub(r"`+[^`]+`+", "", FENCED.sub("", text))


def targets(text):
    """What the links and images of a Markdown text lead to."""
    found = re.findall(r"\]\(\s*<?([^)\s>]*)[^)]*\)", prose(text))
    found += re.findall(r"^ {0,3}\[[^\]]+\]:\s*(\S+)", prose(text), re.MULTILINE)
    return found + re.findall(r"<[^>]*\b(?:href|src)=[\"']([^\"']*)", prose(text))


def anchors(page):
    """What a `#...` may name in a page: its headings as GitHub writes them, in notebooks as Jupyter does too."""
    headings = re.findall(r"^#{1,6} +(.+?) *#*$", FENCED.sub("", text_of(page)), re.MULTILINE)
    plain = [re.sub(r"[`*]", "", heading) for heading in headings]
    named = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}
    return named | ({heading.replace(" ", "-") for heading in plain} if page.endswith(".ipynb") else set())


def is_address(link):
    """Whether a link to the web is well formed."""
    try:
        parts = urlsplit(link)
        return parts.scheme in ("http", "https") and bool(HOST.fullmatch(parts.hostname or "")) and parts.port != 0
    except ValueError:
        return False


def leads_nowhere(page, link):
    """Whether a link of a page is neither an address nor a path to a file of the project, nor a heading there."""
    if urlsplit(link).scheme:
        return not is_address(link)
    path, _, anchor = unquote(link).partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if not anchor:
        return not path or target not in FILES | FOLDERS
    return target not in PAGES or anchor not in anchors(target)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page):
    assert [link for link in targets(text_of(page)) if leads_nowhere(page, link)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_address_is_well_formed(page):
    assert [link for link in WEB.findall(text_of(page)) if not is_address(link.rstrip(".,;:"))] == []


def test_the_rule_finds_every_way_of_linking():
    text = '[a](b.md) ![c](d.png "e") [![f](g.svg)](h.ipynb) <img src="i.png"> [j](#k)\n[l]: m.md\n`[n](o)` `p`[q](r)'
    assert targets(text) == ["b.md", "d.png", "g.svg", "h.ipynb", "#k", "r", "m.md", "i.png"]
    assert targets("```\n[a](b)\n```\nA value [0.1, 0.2] (c), f[0](d)") == ["d"]


@pytest.mark.parametrize(
    "link", ["data/README.md", "data", "data/README.md#splits", "#files", "https://a.org/b#c", "notebooks/../LICENSE"]
)
def test_the_rule_lets_what_is_there_pass(link):
    assert not leads_nowhere("README.md", link)


@pytest.mark.parametrize(
    "link",
    [
        *("", "#", "nothing.md", "data/cache", "../README.md", "/README.md", "#nowhere", "data/README.md#files"),
        *("http:/a.org", "https://", "https://nowhere", "https://a.org:b/", "file:///README.md", "LICENSE#mit"),
    ],
)
def test_the_rule_finds_what_is_not_there(link):
    assert leads_nowhere("README.md", link)


# ---- the file tree -----------------------------------------------------------------------------------------------


def tree(text):
    """Paths that a file tree names, one or more a line: an indented one lies in the folder above it, further ones lie
    where the first does."""
    found, above = [], ""
    for line in text.splitlines():
        first, *others = re.split(" {2,}", line.strip())[0].split(", ")
        if line.startswith(" "):
            first = above + first
        else:
            above = first
        folder = first[: first.rstrip("/").rfind("/") + 1]
        found += [path.rstrip("/") for path in (first, *(folder + other for other in others))]
    return found


TREE = tree(README.split("\n## Files\n")[1].split("```")[1].strip("\n"))


def test_the_file_tree_is_read_as_it_is_meant():
    text = "a/   first\n  b  in a\n  c/  in a\nd/e*, f   both in d\nG, H"
    assert tree(text) == ["a", "a/b", "a/c", "d/e*", "d/f", "G", "H"]


def test_every_path_of_the_file_tree_is_there():
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
    there = FILES | FOLDERS | {name.removesuffix(".py") for name in FILES} | set(ignored)
    assert [path for path in TREE if not any(fnmatch(name, path) for name in there)] == []


def test_the_file_tree_names_everything_at_the_top_and_every_folder_below_it():
    named = {*TREE, *(path.rpartition("/")[0] for path in TREE)}
    top = {name.partition("/")[0] for name in FILES} - OF_GIT
    assert sorted(top - named) == []
    assert sorted({folder for folder in FOLDERS if folder.count("/") == 1} - named) == []
