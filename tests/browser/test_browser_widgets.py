"""Notebook 15 and the widgets of 17, 23 and 24 in JupyterLab, in a real browser: run, typed into, dragged, and read
back from the page.

Needs chromium and chromedriver on the PATH; nothing is installed or downloaded here.
"""

import re
from pathlib import Path

import pytest
from lab_page import CHAPTERS, MISSING, TRACE, wait

from redlib import config, study
from redlib.claims import sparse as sparse_claims
from redlib.explain import Intervention
from redlib.sparse.recommend import recommend, said
from redlib.study import explaining, nested, solving
from redlib.widgets import token_map

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra `test`)")
pytestmark = [
    pytest.mark.notebooks,
    pytest.mark.skipif(bool(MISSING), reason=f"no {' and no '.join(MISSING)} on the PATH"),
]
QUERY, OTHER = "What is 47 plus 38?", "What is 32 plus 19?"
CHAIN, LEAVING = "29 minus 11 minus 9 plus 15", "90 plus 20 minus 70"
PRICE = 3.6
TROUBLE = re.compile(r"Traceback|^\[[EC] |Exception|Error", re.MULTILINE)


def test_the_notebook_answers_in_a_browser_as_explain_does(lab, page, tmp_path):
    page.run_all(lambda: len(page.all(".red-verdict")) >= 4 and len(page.all(".red-pair-map svg")) == 1)
    explainer = explaining.explainer(config.load("smoke"))
    keys = webdriver.Keys

    typed = page.control(0, "question")
    for text in (OTHER, QUERY):
        typed.send_keys(keys.CONTROL, "a")
        typed.send_keys(text, keys.ENTER)
        e = explainer.explain(text)
        wait(lambda e=e: page.shows(0, e), 10, f"the inspector does not show what explain says of {text}")
    beside = [float(piece.text) for piece in page.all(".red-beside", page.panel(0))]
    assert beside == [0.02, 0.04, 0.14, 0.28, 0.52], "the weights that the source reports"
    assert len(page.all(".red-method", page.panel(0))) == len(e.methods)

    assert page.shows(1, e), "the sliders start as the router's weights, and showing them moves nothing"
    first, *others = page.all(".noUi-handle", page.panel(1))[1:]  # the temperature's is above them
    start = e.alpha
    first.send_keys(keys.ARROW_RIGHT * 5)
    wait(lambda: abs(page.weights(1)[0] - start[0]) > 0.03, 10, "the slider of the first weight does not move")
    moved = page.weights(1)
    assert sum(moved) == pytest.approx(1, abs=0.003)
    assert page.shows(1, explainer.explain(QUERY, intervention=Intervention(weights=moved)))
    drag = webdriver.ActionChains(page.driver).click_and_hold(first).move_by_offset(60, 0).release()
    drag.perform()
    wait(lambda: page.weights(1)[0] > moved[0] + 0.1, 10, "the slider of the first weight cannot be dragged")
    assert page.shows(1, explainer.explain(QUERY, intervention=Intervention(weights=page.weights(1))))
    assert len(others) >= explainer.labels.K - 1

    page.panel(1).find_element("xpath", ".//button[normalize-space()='copy as code']").click()
    told = page.all("[role=status]", page.panel(1))[-1]
    wait(lambda: told.text in ("copied", "press Ctrl+C"), 10, "nobody says whether the code was copied")

    second = page.all(".noUi-handle", page.panel(2))[0]
    before = page.weights(2)
    second.send_keys(keys.ARROW_RIGHT)
    wait(lambda: page.weights(2) != before, 10, "the boundary explorer does not move")

    grid = page.all(".red-pair-map", page.panel(3))[0]
    pair = [int(page.control(3, name).get_attribute("value")) for name in ("first", "second")]
    grid.send_keys(keys.ARROW_DOWN)
    e = explainer.explain(f"What is {pair[0] - 1} plus {pair[1]}?")
    wait(lambda: page.shows(3, e), 10, "the arrow keys do not move to another pair")
    webdriver.ActionChains(page.driver).move_to_element_with_offset(grid, 0, 0).click().perform()
    wait(lambda: not page.shows(3, e), 10, "a click does not explain another pair")
    pair = [int(page.control(3, name).get_attribute("value")) for name in ("first", "second")]
    assert page.shows(3, explainer.explain(f"What is {pair[0]} plus {pair[1]}?"))

    page.driver.execute_script("arguments[0].scrollIntoView()", page.panel(0))
    assert page.driver.save_screenshot(str(tmp_path / "inspector.png"))
    page.driver.execute_script("arguments[0].scrollIntoView()", page.panel(1))
    assert page.driver.save_screenshot(str(tmp_path / "what_if.png"))
    assert [entry for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert TROUBLE.findall(Path(lab[1]).read_text()) == []


@pytest.mark.parametrize("page", [TRACE], indirect=True)
def test_a_typed_chain_is_planned_and_executed_in_a_browser_as_solve_does(lab, page, tmp_path):
    solver = solving.solver(config.load("smoke"))  # trained here if it is not, before the notebook waits for it
    page.run_all(lambda: page.all(".red-solved"))
    typed, keys = page.driver.find_element("xpath", "//label[normalize-space()='chain']/..//input"), webdriver.Keys
    for text in (LEAVING, CHAIN):
        typed.send_keys(keys.CONTROL, "a")
        typed.send_keys(text, keys.ENTER)
        s = solver.solve(text)
        wait(lambda s=s: solved(page, s), 10, f"the trace does not show what solve says of {text}")
    for name in ("symbolic", "trained"):
        choice = "//label[normalize-space()='planner']/..//option[normalize-space()='{}']"
        page.driver.find_element("xpath", choice.format(name)).click()
        s = solver.solve(CHAIN, name)
        wait(lambda s=s: solved(page, s), 10, f"the trace does not show the {name} planner's program")
    typed.send_keys(keys.CONTROL, "a")
    typed.send_keys("7 times 3", keys.ENTER)
    wait(
        lambda: "unknown operator 'times'" in "".join(e.text for e in page.all("[role=alert]")), 10, "no error is said"
    )
    assert page.all(".red-solved") == []
    assert page.driver.save_screenshot(str(tmp_path / "trace.png"))
    assert [entry for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert TROUBLE.findall(Path(lab[1]).read_text()) == []


def solved(page, s):
    """Whether the trace on the page shows this solution: its lines, values, answer and flag."""
    lines, values = (page.texts(selector) for selector in (".red-line", ".red-step"))
    told = page.all(".red-solved")
    return (
        lines == [line for line, _ in s.lines]
        and [int(value.split()[0]) for value in values] == [step.said.value for step in s.trace]
        and told[0].get_attribute("data-answer") == str(s.answer)
        and told[0].get_attribute("data-outside") == str(int(s.out_of_domain))
    )


@pytest.mark.parametrize("page", [CHAPTERS], indirect=True)
def test_the_recommendation_and_the_token_map_follow_their_controls_in_a_browser(lab, page, tmp_path):
    p, keys = config.load("smoke"), webdriver.Keys
    options = sparse_claims.options(*(study.table(p, f"sparse_{name}") for name in ("quality", "serving")))
    maps = token_map.read_maps(study.table(p, "nested_maps"), nested.pictures(p)["images"])
    page.run_all(lambda: page.all(".red-recommendation") and page.all(".red-token-map"))
    price, batch, memory, budget = page.all(".noUi-handle")

    def recommends(size, hour):
        table = recommend(options, size, limit, hour)
        return page.texts(".red-recommendation") == [said(table, size, limit, hour)]

    limit, (few, many) = 1.2 * options["memory_bytes"].max() / 1e9, sorted(set(options["batch"]))
    wait(lambda: recommends(few, p.sparse.price), 10, "the first recommendation is not that of recommend")
    typed = page.all(".widget-readout")[0]
    typed.click()
    typed.send_keys(keys.CONTROL, "a")
    typed.send_keys(str(PRICE), keys.ENTER)
    wait(lambda: recommends(few, PRICE), 10, "a typed price does not change the recommendation")
    batch.send_keys(keys.ARROW_RIGHT)
    wait(lambda: recommends(many, PRICE), 10, "the slider of requests does not change the recommendation")
    memory.send_keys(keys.HOME)
    wait(lambda: "no model" in " ".join(page.texts(".red-recommendation")), 10, "the slider of memory changes nothing")
    price.send_keys(keys.HOME)
    refused = "a price per hour must be positive"
    wait(lambda: refused in " ".join(page.texts(".jp-OutputArea-output")), 10, "no error is said")
    assert page.texts(".red-recommendation") == []

    shares = nested.shape(p.nested).shares
    before = map_of(page, maps, 0, shares)
    assert before.budget == pytest.approx(0.3)
    budget.send_keys(keys.ARROW_RIGHT)
    wait(lambda: at_budget(page) > before.budget, 10, "the slider of the budget does not move")
    more = map_of(page, maps, 0, shares)
    page.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", budget)
    webdriver.ActionChains(page.driver).click_and_hold(budget).move_by_offset(90, 0).release().perform()
    wait(lambda: at_budget(page) > more.budget, 10, "the slider of the budget cannot be dragged")
    most = map_of(page, maps, 0, shares)
    assert before.flops < most.flops
    page.driver.find_element("xpath", "//label[normalize-space()='picture']/..//option[2]").click()
    assert map_of(page, maps, 1, shares).budget == most.budget
    assert page.driver.save_screenshot(str(tmp_path / "chapters.png"))
    assert [entry for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert TROUBLE.findall(Path(lab[1]).read_text()) == []


def at_budget(page):
    return float(page.driver.execute_script("return document.querySelector('.red-token-map').dataset.budget"))


def map_of(page, maps, picture, shares):
    """The map of that picture at the budget on the page, once the page shows it: its answer, and the same tokens at
    full width."""
    output = "document.querySelector('.red-token-map').closest('.jp-OutputArea-output')"
    places = "querySelectorAll('circle')].map(at => [at.getAttribute('cx'), at.getAttribute('cy')])"

    def shown():
        m = maps[picture, at_budget(page)]
        answer = re.sub("<[^>]+>", "", token_map.say(m))
        tokens = re.findall('<circle cx="([^"]+)" cy="([^"]+)"', token_map.draw_tokens(m, shares))
        found = [tuple(place) for place in page.driver.execute_script(f"return [...{output}.{places}")]
        return m if page.texts(".red-token-map") == [answer] and found == tokens else None

    return wait(shown, 10, f"picture {picture} is not shown as the table has it")
