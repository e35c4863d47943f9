"""What JupyterLab is asked to open, and how its page is waited for and read."""

import shutil
import time
import urllib.request

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
MISSING = [name for name, found in (("chromium", BROWSER), ("chromedriver", DRIVER)) if not found]
NOTEBOOK, TRACE, CHAPTERS = "15_routing_inspector.ipynb", "trace.ipynb", "chapters.ipynb"
SHOWN = """from redlib import config
from redlib.study import solving
from redlib.widgets import ProgramTrace

ProgramTrace(solving.solver(config.load("smoke")), "3 plus 4")"""
RECOMMENDED = """from redlib import config, study
from redlib.claims import sparse
from redlib.widgets import RecommendationWidget

tables = (study.table(config.load("smoke"), f"sparse_{name}") for name in ("quality", "serving"))
RecommendationWidget(sparse.options(*tables))"""
MAPPED = """from redlib import config, study
from redlib.study import nested
from redlib.widgets import NestedMap

p = config.load("smoke")
NestedMap(study.table(p, "nested_maps"), nested.pictures(p)["images"])"""
ALONE = {TRACE: [SHOWN], CHAPTERS: [RECOMMENDED, MAPPED]}  # notebooks with the widgets of chapters, and nothing else
PATIENCE = 90  # seconds for the notebook to run
SETTINGS = {
    "notebook-extension/tracker": '{"windowingMode": "none"}',  # cells out of sight are on the page too
    "apputils-extension/notification": '{"fetchNews": "false", "checkForUpdates": false}',
}
PANEL = "document.querySelectorAll('.red-verdict')[arguments[0]].closest('.jp-OutputArea-output')"


def answers(address):
    try:
        with urllib.request.urlopen(address, timeout=5) as page:
            return page.status == 200
    except OSError:
        return False


def wait(done, seconds, otherwise):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = done()
        if found:
            return found
        time.sleep(0.1)
    pytest.fail(otherwise() if callable(otherwise) else otherwise)


class Page:
    """What is on the page, by the class names of the widgets' pieces."""

    def __init__(self, driver):
        self.driver = driver

    def run_all(self, shown):
        """Run all cells; `shown()` is true when the widgets are there."""
        ready = "return !!(window.jupyterapp && jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel)"
        wait(lambda: self.driver.execute_script(ready), 60, "the notebook does not open")
        self.driver.set_script_timeout(PATIENCE)
        run = "const done = arguments[0]; jupyterapp.commands.execute('notebook:run-all-cells').then(done, done)"
        self.driver.execute_async_script(run)
        wait(shown, 30, self.outputs)

    def outputs(self):
        return "the widgets do not appear; outputs: " + " | ".join(e.text for e in self.all(".jp-OutputArea-output"))

    def all(self, selector, inside=None):
        return (inside or self.driver).find_elements("css selector", selector)

    def texts(self, selector):
        """What the pieces say, read at one moment: a widget may replace them at the next."""
        read = "return [...document.querySelectorAll(arguments[0])].map(piece => piece.textContent)"
        return self.driver.execute_script(read, selector)

    def panel(self, number):
        """The output that holds the widget at that place."""
        return self.driver.execute_script(f"return {PANEL}", number)

    def control(self, number, description, kind="input"):
        found = f".//label[normalize-space()='{description}']/following-sibling::*/descendant-or-self::{kind}"
        return self.panel(number).find_element("xpath", found)

    def weights(self, number):
        read = f"return [...{PANEL}.querySelectorAll('.red-weight')].map(piece => piece.textContent)"
        return [float(text) for text in self.driver.execute_script(read, number)]

    def answer(self, number):
        return int(self.driver.execute_script(f"return {PANEL}.querySelector('.red-verdict').dataset.value", number))

    def shows(self, number, e):
        """Whether the panel at that place shows this explanation's weights and answer."""
        found = self.weights(number)
        return (
            self.answer(number) == e.answer.value
            and max(abs(a - b) for a, b in zip(found, e.alpha, strict=True)) < 6e-4  # three digits are shown
        )
