# Takes the pictures of the board in docs/pictures: computed runs (make_runs.py), served by the real program, in a real
# Chromium, on a desktop and a phone, light and dark.
# usage: pictures.py BEVATRON FOLDER [--all] [--only TEXT]    --all takes every view in both themes, to look at; --only
#        takes those with TEXT in their names
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

from browser import Browser, find_chromium
from make_runs import make_runs
from served import DRAWN, QUIET, Board

RUN = "stateChange({view: '%s', run: board.runs.find((run) => run.name.endsWith('lr-3e-4')).id})"
HOVER = """(() => { const chart = [...curves.charts.values()][0]; const box = chart.plotElement.getBoundingClientRect();
    curvesHover(chart, chart.view.xScale.from(%s), {clientX: box.left + %s, clientY: box.top + 120}); })()"""
DETAILS = "curves.marks.length > 20 && " + QUIET

# name, device, theme, what is done before the picture, what is waited for; the first ones are those of the documents
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844, "scale": 2, "touch": True}
DOCUMENTS = [
    ("board-desktop-light", DESKTOP, "light", "stateChange({smooth: 0.35});" + HOVER % (250, 250), DETAILS),
    ("board-desktop-dark", DESKTOP, "dark", "stateChange({smooth: 0.35, clip: true})", DETAILS),
    ("board-phone-light", PHONE, "light", "stateChange({smooth: 0.35})", DETAILS),
    ("board-phone-dark", PHONE, "dark", "drawerSet(true)", QUIET),
    ("board-ranks", DESKTOP, "light", RUN % "ranks", "document.querySelector('.ranks tbody tr')"),
]
OTHERS = [
    ("run", RUN % "run", "document.querySelector('[data-name=log] pre')"),
    ("compare", "stateChange({view: 'compare'})", "document.querySelectorAll('.compare tbody').length > 1"),
    ("ranks", RUN % "ranks", "document.querySelector('.ranks tbody tr')"),
    ("one-rank", RUN % "ranks" + "; stateChange({rank: 13})", "document.querySelector('[data-name=rank] canvas')"),
    ("big", "stateChange({big: 'lm loss', logAll: true, from: 1000, to: 1500});" + HOVER % (300, 300), DETAILS),
    ("time", "stateChange({x: 'time'})", QUIET),
    ("drawer", "drawerSet(true)", QUIET),
    ("help", "byId('shortcuts').showModal()", QUIET),
    ("table", "[...curves.charts.values()][0].toggleTable()", QUIET),
    ("end", "scrollTo(0, 1e6)", QUIET),
]


def every_view():
    for theme in ("light", "dark"):
        for device, name in ((DESKTOP, "desktop"), (PHONE, "phone")):
            for view, action, ready in OTHERS:
                yield (f"{name}-{theme}-{view}", device, theme, action, ready)


def take(url, folder, picture):
    name, device, theme, action, ready = picture
    with Browser(theme=theme, **device) as browser:
        browser.open(url)
        browser.wait(DRAWN + " && " + QUIET, "the curves")
        browser.evaluate(action)
        browser.wait(ready, name)
        browser.evaluate("new Promise((done) => setTimeout(done, 300))")
        path = os.path.join(folder, name + ".png")
        browser.picture(path)
        if shutil.which("pngquant"):  # a quarter of the bytes, and no difference that one sees
            subprocess.run(["pngquant", "80", "--nofs", "--speed", "1", "--strip", "--force", "--output", path, path],
                           check=True)
        print(f"{path}: {os.path.getsize(path) // 1024} KiB")
        if browser.problems:
            print(f"{name}: the page has problems: {browser.problems[:3]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bevatron")
    parser.add_argument("folder")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if not find_chromium():
        sys.exit("pictures.py: there is no Chromium; run tools/install_packages board, or set CHROMIUM")
    os.makedirs(options.folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="board-") as parent:
        runs = os.path.join(parent, "runs")
        make_runs(runs)
        with Board(options.bevatron, runs) as board:
            for picture in DOCUMENTS + (list(every_view()) if options.all else []):
                if options.only in picture[0]:
                    take(board.url, options.folder, picture)


if __name__ == "__main__":
    main()
