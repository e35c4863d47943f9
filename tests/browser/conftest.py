"""A JupyterLab, and a browser that shows one of its notebooks."""

import os
import shutil
import socket
import subprocess
import sys

import nbformat
import pytest
from lab_page import ALONE, BROWSER, DRIVER, NOTEBOOK, SETTINGS, Page, answers, wait

from redlib import paths


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab with a copy of the notebook, those of ALONE and settings of its own: (address of what it is asked to
    open, file of its log and its kernels')."""
    home = tmp_path_factory.mktemp("lab")
    (home / "work").mkdir()
    shutil.copy(paths.root() / "notebooks" / NOTEBOOK, home / "work")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"}}
    for name, cells in ALONE.items():
        alone = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=kernel)
        (home / "work" / name).write_text(nbformat.writes(alone))
    for name, text in SETTINGS.items():
        file = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces"}
    own |= {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime"}
    environment = os.environ | {name: str(home / folder) for name, folder in own.items()} | {"REDLIB_PROFILE": "smoke"}
    options = {
        "ServerApp.port": port,
        "ServerApp.token": "lab",
        "ServerApp.root_dir": home / "work",
        "ServerApp.allow_root": True,
        "LabApp.expose_app_in_browser": True,
    }
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", *(f"--{k}={v}" for k, v in options.items())]
    log = home / "log.txt"
    with log.open("w") as out:
        server = subprocess.Popen(command, cwd=home, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait(lambda: answers(f"http://127.0.0.1:{port}/api?token=lab"), 60, "JupyterLab does not start")
        yield f"http://127.0.0.1:{port}/lab/tree/{{}}?token=lab&reset", log
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@pytest.fixture
def page(request, lab, tmp_path):
    from selenium import webdriver  # without it the tests are skipped before this

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1500,1400"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path / 'browser'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.get(lab[0].format(getattr(request, "param", NOTEBOOK)))
    try:
        yield Page(driver)
    finally:
        driver.quit()
