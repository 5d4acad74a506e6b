# What leaves the board's page: printed pages, also of an exported report and of a dark page, and the files of a chart.
# page.py runs these checks.
import base64
import csv
import os
import re
import subprocess
import tempfile
import time
import xml.etree.ElementTree
import zlib

from browser import LIMIT, find_chromium
from served import CHART, QUIET, check

# The line segments of each printed chart.
SEGMENTS = """[...document.querySelectorAll("main > section:not([hidden]) .card")].map((card) =>
    [...card.querySelectorAll(".plot > svg path")].map((path) => path.getAttribute("d").split("L").length - 1)
        .reduce((sum, count) => sum + count, 0))"""


def pdf_segments(data):
    """How many line segments a PDF draws: operators "x y l" of all its compressed streams."""
    count = 0
    for found in re.finditer(rb"stream\r?\n(.*?)endstream", data, re.S):
        try:
            count += len(re.findall(rb"[\d.-]+ [\d.-]+ l\n", zlib.decompress(found.group(1))))
        except zlib.error:
            pass
    return count


def print_pdf(browser):
    return base64.b64decode(browser.call("Page.printToPDF")["data"])


def test_print(browser):
    """Every chart is on paper, also those that were never on the screen, in the colours of a light page."""
    browser.emulate("dark")
    browser.wait("curves.colours?.dark && [...curves.charts.values()].some((chart) => !chart.isVisible)", "a dark page")
    browser.wait("[...curves.charts.values()].every((chart) => chart.loads.size > 0)", "charts out of sight")
    drawn = pdf_segments(print_pdf(browser))
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    browser.wait("document.querySelectorAll('.plot > svg').length === curves.charts.size", "a picture of each chart")
    segments = browser.evaluate(SEGMENTS)
    check(len(segments) >= 10 and min(segments) > 20, f"segments of printed charts: {segments}")
    # A PDF is written without segments that are shorter than a printer's dot.
    check(drawn > sum(segments) / 2, f"the PDF has {drawn} segments of {sum(segments)}")
    colour = "curves.charts.get('lm loss').series[0].colour"
    check(browser.evaluate(f"colourTable(false).includes({colour}) && !themeIsDark()"), "paper is light")
    names = browser.evaluate("getComputedStyle(byId('legend')).display + byId('legend').textContent")
    check(names.startswith("flex") and "llama-1b/baseline" in names, f"the names of the runs on paper: {names}")
    browser.call("Emulation.setEmulatedMedia", media="")
    browser.emulate("light")
    browser.wait("document.querySelectorAll('.plot > svg').length === 0 && curves.colours?.dark === false",
                 "the page as it was")
    check(browser.evaluate("document.documentElement.dataset.theme === undefined"), "the theme as it was")


def test_printed_report(path):
    """What `chromium --print-to-pdf` makes of an exported report, without anybody scrolling or waiting."""
    with tempfile.TemporaryDirectory() as folder:
        pdf = os.path.join(folder, "report.pdf")
        command = [find_chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + folder,
                   "--print-to-pdf=" + pdf, "file://" + path]
        subprocess.run(command, check=True, timeout=LIMIT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(pdf, "rb") as file:
            count = pdf_segments(file.read())
    check(count > 5000, f"a printed report has {count} segments of lines")


def download(browser, folder, ending):
    name = os.path.join(folder, "lm-loss." + ending)
    browser.evaluate(f"""{CHART}.element.querySelector('[popovertarget]').click(),
        [...byId('download').children].find((button) => button.textContent === '{ending.upper()}').click()""")
    end = time.monotonic() + LIMIT
    while not os.path.exists(name) and time.monotonic() < end:
        browser.receive(0.02)
    with open(name, "rb") as file:
        return file.read()


def test_files(browser, folder):
    """CSV with the points that are drawn, SVG and PNG of the chart."""
    os.makedirs(folder)
    browser.evaluate("stateChange({from: 995, to: 1005})")
    browser.wait(f"{QUIET} && {CHART}.series.length > 6 && {CHART}.series.every((series) => series.curve.isExact)",
                 "all values of a range")
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=folder)
    rows = list(csv.reader(download(browser, folder, "csv").decode().splitlines()))
    check(rows[0] == ["run", "curve", "step", "mean", "min", "max"], f"the head of the CSV: {rows[0]}")
    losses = [row for row in rows if row[:2] == ["gpt-345m/lr-6e-4", "lm loss"]]
    check([row[2] for row in losses] == [str(step) for step in range(995, 1006)], f"its steps: {losses[:2]}")
    check(all(row[3] == row[4] == row[5] and 1.5 < float(row[3]) < 5 for row in losses), "its values")
    validation = [row for row in rows if row[1] == "lm loss validation"]
    check({row[2] for row in validation} == {"1000"} and len(validation) == 6, f"the validation: {validation}")
    svg = xml.etree.ElementTree.fromstring(download(browser, folder, "svg"))
    texts = {node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")}
    check({"lm loss", "gpt-345m/lr-6e-4", "1000"} <= texts, f"texts of the picture: {texts}")
    png = download(browser, folder, "png")
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    check(png[:8] == b"\x89PNG\r\n\x1a\n" and width > 900 and height > 600, f"a PNG of {width} x {height}")
    check(browser.evaluate("!byId('download').matches(':popover-open')"), "the menu is closed")
    browser.evaluate("curvesReset()")
    browser.wait(QUIET, "the curves")
