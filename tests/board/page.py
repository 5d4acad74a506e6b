# The board in a real browser: opens, draws, follows a training run, zooms, overlays, smooths; logs no error, fetches
# nothing from outside, shows hostile text as text, and can be used without a mouse (access.py). Exit code 77 if there
# is no Chromium.
# usage: page.py BEVATRON FOLDER [--times]    FOLDER is empty and gets the runs; --times also measures first paint and
#        interaction with 100 runs, and fails if they are too slow (times.py): only for a machine that is otherwise idle
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time

from access import test_keyboard, test_looks, test_names, test_phone, test_rows
from browser import LIMIT, Browser, find_chromium
from make_runs import make_runs
from paper import print_pdf, test_files, test_print, test_printed_report
from served import CHART, DRAWN, QUIET, Board, check, failures
from times import test_times

HOSTILE = '<img src=x onerror="window.broken=1"> & </script><script>window.broken=1</script>'
MODEL = ["--mock-data", "--vocab-size", "97", "--num-layers", "1", "--hidden-size", "32", "--num-attention-heads", "2",
         "--seq-length", "32", "--max-position-embeddings", "32", "--micro-batch-size", "2", "--global-batch-size", "2",
         "--lr", "1e-3", "--log-interval", "1", "--device", "cpu", "--threads", "1"]


def plot_box(browser):
    return browser.evaluate(f"""(() => {{ const chart = {CHART}; const box = chart.plotElement.getBoundingClientRect();
        const {{left, right}} = chart.view.plot;
        return {{left: box.left + left, right: box.left + right, middle: box.top + box.height / 2}}; }})()""")


def hostile_run(folder):
    place = os.path.join(folder, "hostile", "<b>bold<img src=x onerror=alert(1)>")
    os.makedirs(place)
    lines = [{"kind": "run", "time": time.time() - 9000, "iteration": 0, "host": HOSTILE, "job": HOSTILE, "ranks": 1,
              "config": {HOSTILE: HOSTILE, "nested": {"a": [1, HOSTILE]}}}]
    lines += [{"kind": "train", "time": time.time() - 9000 + step, "iteration": step, "train_iters": 5,
               "losses": {"lm loss": 3 - step / 10, HOSTILE: 1.0}} for step in range(1, 6)]
    with open(os.path.join(place, "note.txt"), "w") as file:
        file.write(HOSTILE + "\n" + HOSTILE + "\n")
    lines += [{"kind": "sample", "time": time.time() - 8000, "iteration": 5, "prompt": HOSTILE, "text": HOSTILE},
              {"kind": "event", "time": time.time() - 8000, "iteration": 5, "event": "failed", "text": HOSTILE}]
    with open(os.path.join(place, "metrics.jsonl"), "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def test_opening(browser, url):
    browser.open(url)
    browser.wait(DRAWN, "the first curve")
    check(browser.wait("document.querySelectorAll('#run-list li').length", "the list of runs") == 7, "seven runs")
    browser.wait(QUIET, "all charts")
    check(browser.evaluate("curves.charts.size") >= 8, "a chart per tag")
    check(browser.evaluate(f"{CHART}.tag") == "lm loss", "the loss is the first chart")
    # Something was painted: pixels of the canvas that are not transparent, in more than two colours.
    colours = browser.evaluate(f"""(() => {{ const canvas = {CHART}.base; const data = canvas.getContext("2d")
        .getImageData(0, 0, canvas.width, canvas.height).data; const seen = new Set();
        for (let i = 0; i < data.length; i += 4)
            if (data[i + 3] > 200) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
        return seen.size; }})()""")
    check(colours > 5, f"curves of several colours are painted, not {colours}")
    states = browser.evaluate("[...document.querySelectorAll('#run-list .badge')].map((badge) => badge.textContent)")
    check({"live", "finished", "failed", "stopped", "lost"} <= set(states), f"all states are listed: {states}")
    browser.wait("curves.marks.some((mark) => mark.event === 'saved')", "marks of checkpoints")
    browser.wait("curves.marks.some((mark) => mark.event === 'started')", "marks of restarts")
    names = browser.evaluate(f"{CHART}.series.filter((series) => series.isBeside).map((series) => series.name)")
    check(len(names) == 6 and "llama-1b/baseline validation" in names, f"validation beside the training loss: {names}")
    check("circles: validation" in browser.evaluate(f"{CHART}.note.textContent"), "a note says which is which")
    check(browser.evaluate(f"(({{plot, yScale}}) => yScale.to(yScale.low) <= plot.bottom - 12)({CHART}.view)"),
          "marks cover no curve")
    spikes = browser.evaluate("curves.marks.filter((mark) => mark.event === 'spike').map(({name, x}) => [name, x])")
    check(sorted(name for name, _ in spikes) == ["gpt-345m/lr-1e-3", "ict/wikipedia-en"]
          and all(998 <= x <= 1003 for _, x in spikes), f"spikes of two runs are marked: {spikes}")


def test_zoom(browser):
    box = plot_box(browser)
    width = box["right"] - box["left"]
    browser.drag((box["left"] + width * 0.5, box["middle"]), (box["left"] + width * 0.55, box["middle"]))
    browser.wait("state.from !== null", "a zoom by dragging")
    browser.wait(QUIET, "the curves of the range")
    browser.wait(f"{CHART}.series.length > 0 && {CHART}.series.every((series) => series.curve.isExact)",
                 "every logged value of a small range")
    check("from=" in browser.evaluate("location.hash"), "the zoom is in the address")
    browser.double_click(box["left"] + width / 2, box["middle"])
    browser.wait("state.from === null", "a double click shows everything")
    browser.evaluate(f"{CHART}.plotElement.focus()")
    browser.mouse("mouseWheel", box["left"] + width / 2, box["middle"], deltaX=0, deltaY=-240)
    browser.wait("state.from !== null", "a zoom by the wheel")
    browser.key("0")
    browser.wait("state.from === null", "the key 0 shows everything")
    browser.key("+")
    browser.wait("state.from !== null", "a zoom by the keyboard")
    browser.key("ArrowRight")
    browser.wait("byId('announcements').textContent.startsWith('step')", "the crosshair told to a screen reader")
    check(not browser.evaluate("byId('tooltip').hidden"), "the crosshair shows values")
    browser.key("0")
    browser.wait("state.from === null", "the key 0")
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    y = box["middle"]
    left, right = box["left"] + width * 0.4, box["left"] + width * 0.6
    browser.touch("touchStart", [(left, y), (right, y)])
    for step in range(1, 5):
        browser.touch("touchMove", [(left - 15 * step, y), (right + 15 * step, y)])
    browser.touch("touchEnd", [])
    browser.wait("state.from !== null", "a zoom by two fingers")
    browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
    browser.evaluate("curvesReset()")
    browser.wait(QUIET, "the overview")


def test_drawing(browser):
    roughness = f"""(() => {{ const chart = {CHART}; const {{curve}} = chart.series[0];
        const values = chart.view.halfLife > 0 ? curveSmooth(curve, chart.view.halfLife) : curve.mean; let sum = 0;
        for (let i = curve.count >> 1; i < curve.count; i++) sum += Math.abs(values[i] - values[i - 1]);
        return sum; }})()"""
    before = browser.evaluate(roughness)
    browser.evaluate("document.activeElement.blur()")
    for _ in range(3):
        browser.key("s")
    browser.wait("state.smooth > 0.25 && " + QUIET, "smoothing")
    after = browser.evaluate(roughness)
    check(after < before / 2, f"smoothing makes a curve smoother: {before} to {after}")
    browser.key("l")
    browser.wait(f"state.logAll && {CHART}.view.yScale.isLog && {QUIET}", "a logarithmic axis")
    drawn = f"{CHART}.series.filter((series) => !series.isBeside).length"
    count = browser.evaluate(drawn)
    browser.evaluate("document.querySelector('#run-list input').click()")
    browser.wait(f"{drawn} === {count - 1}", "one run fewer")
    browser.evaluate("document.querySelector('#run-list input').click()")
    browser.wait(f"{drawn} === {count} && {QUIET}", "all runs again")
    for x, least in (("tokens", 1e6), ("time", 100), ("clock", 1e9), ("flops", 1e15), ("step", 1000)):
        browser.evaluate(f"stateChange({{x: '{x}'}})")
        browser.wait(f"curves.extent && curves.extent[1] > {least} && {QUIET} && {CHART}.series.length > 1", "x " + x)
        check(browser.evaluate(f"{CHART}.series.every((series) => series.curve.count > 1)"), "curves over " + x)
    browser.evaluate(f"{CHART}.toggleTable()")
    rows = browser.evaluate(f"{CHART}.tableElement.querySelectorAll('tbody tr').length")
    check(rows >= count, "a table of the chart")
    browser.evaluate(f"{CHART}.toggleTable()")
    browser.evaluate("stateChange({smooth: 0, logAll: false})")


SMOOTHED = ("[...curveSmooth(curveFromPoints(%s.map(([x, y]) => [x, y, y, y, y]), true, 0), 1)]"
            ".map((value) => Number.isNaN(value) ? null : Math.round(value * 1000) / 1000)")


SPIKES = ("curveSpikes(curveFromPoints([...Array(300).keys()].map((i) => [i, ...Array(4).fill(%s)]), true, 0))"
          ".map((spike) => spike.x)")


def test_functions(browser):
    """Numbers as text, ticks, smoothing and the state in the address, against values worked out by hand."""
    for expression, expected in (
            ("[0, 2.34567891, 0.00031, 412345.6, 2.5e18, null].map((v) => formatNumber(v))",
             ["0", "2.3457", "3.1e-4", "412,346", "2.5e18", "–"]),
            ("[3, 61, 3600, 90061, 0.4].map((v) => formatDuration(v))",
             ["3 s", "1 min 1 s", "1 h", "1 d 1 h", "0.4 s"]),
            ("[9999, 12000, 2.5e6, 3e9].map((v) => formatShort(v))", ["9999", "12k", "2.5M", "3B"]),
            ("formatBytes(61.5 * 2 ** 30)", "61.5 GiB"),
            ("ticksLinear(2.1, 11, 5)", [4, 6, 8, 10]), ("ticksLog(0.9, 12, 5)", [1, 2, 5, 10]),
            ("ticksLog(1e-6, 1, 4)", [1e-6, 1e-4, 1e-2, 1]),
            ("multiplesBetween(0, 3600, durationStep(700))", [0, 900, 1800, 2700, 3600]),
            # Far from the start each half-life halves the distance to a new level, and a gap counts as time.
            (SMOOTHED % "[[0, 0], [99, 0], [100, 8], [101, null], [102, 8]]", [0, 0, 4, None, 7]),
            # At the start the average follows at once: its half-life is a tenth of the distance so far.
            (SMOOTHED % "[[0, 0], [1, 8], [2, 8]]", [0, 7.75, 7.975]),
            (SPIKES % "i === 60 || i === 61 ? 9 : i > 150 ? 8 : 3 + (i % 2) / 10", [60, 151]),
            (SPIKES % "10 * Math.exp(-i / 20) + 2 + (i * 7919 % 10) / 50", []),
            ("markText({event: 'saved', text: 'saved x in 1 s'}) + ', ' + markText({event: 'nan', text: 'loss'})",
             "saved x in 1 s, nan: loss"),
            ("tagGroup('lm loss validation') + tagGroup('loss scale') + tagGroup('lm loss') + tagGroup('grad norm')",
             "ValidationOptimizerLossOptimizer"),
            ("tagGroup('lm loss vs samples') + tagGroup('layer/3')", "By sampleslayer"),
            ("stateText({...stateDefaults(), x: 'tokens', shown: ['ab', '12'], from: 1, to: 2.5, smooth: 0.3})",
             "#runs=ab%2C12&x=tokens&smooth=0.3&from=1&to=2.5"),
            ("['=1+1', 'a,b', 'a\"b', 'a b'].map(csvCell)", ["'=1+1", '"a,b"', '"a""b"', "a b"]),
            ("formatPlural(1, 'rank') + formatPlural(0, 'run')", "1 rank0 runs"),
            ("stateText({...stateDefaults(), shown: []})", "#runs=-")):
        value = browser.evaluate(expression)
        check(value == expected, f"{expression}: {value} instead of {expected}")


def test_views(browser):
    browser.evaluate("stateChange({view: 'run', run: board.runs.find((run) => run.name.endsWith('lr-3e-4')).id})")
    browser.wait("document.querySelector('[data-name=config] tbody tr')", "the configuration")
    text = browser.wait("document.querySelector('[data-name=log] pre')?.textContent", "the log")
    check("iteration" in text, "lines of the log")
    for part in ("samples", "events"):
        row = f"document.querySelector('[data-name={part}] li, [data-name={part}] tr')"
        check(browser.evaluate(row + " !== null"), part)
    # The hostile run has none of the usual settings.
    browser.evaluate("boardShow(boardShown().filter((id) => !board.byId.get(id).path.includes('<b>')))")
    browser.key("3")
    browser.wait("document.querySelectorAll('.compare thead th').length >= 7", "runs side by side")
    names = "[...document.querySelectorAll('.compare tbody:last-child th')].map((th) => th.textContent)"
    browser.wait(names + ".length > 0", "settings that differ")
    rows = browser.evaluate(names)
    check("lr" in rows and "weight_decay" not in rows, f"only settings that differ: {rows}")
    browser.key("4")
    browser.wait("document.querySelectorAll('.ranks tbody tr').length === 16", "a row per rank")
    check("rank 13" in browser.evaluate("document.querySelector('[data-name=slow]').textContent"), "the straggler")
    first = "document.querySelector('.ranks tbody tr')"
    check(re.match(r"13\s*node-12.*\+2\d\.\d %", browser.evaluate(first + ".textContent")), "the slowest rank is first")
    browser.evaluate(first + ".querySelector('a').click()")
    browser.wait("document.querySelector('[data-name=rank] canvas') !== null && location.hash.includes('rank=13')",
                 "the page of a rank")
    text = browser.evaluate("document.querySelector('[data-name=rank]').textContent")
    check("node-12" in text and "in 30 of 64 reports" in text, f"facts of a rank: {text}")
    browser.evaluate("history.back()")
    browser.wait("state.rank === null", "back to all ranks")
    browser.evaluate("history.back()")
    browser.wait("state.view === 'compare'", "the browser's way back")
    browser.key("?")
    browser.wait("byId('shortcuts').open", "the list of shortcuts")
    browser.key("Escape")
    browser.wait("!byId('shortcuts').open", "the list closed")
    browser.key("1")
    browser.wait("state.view === 'curves' && " + QUIET, "the curves")


def test_hostile(browser):
    browser.evaluate("stateChange({view: 'run', run: board.runs.find((run) => run.path.includes('<b>')).id})")
    browser.wait("document.querySelector('[data-name=config] tbody tr')", "the configuration of the hostile run")
    title = browser.evaluate("[document.querySelector('#view-run h2').firstChild.data, "
                             "document.querySelector('[data-name=note]').textContent]")
    check(title == [HOSTILE, HOSTILE], f"title and note of the hostile run: {title}")
    text = browser.evaluate("byId('view-run').textContent")
    check(text.count(HOSTILE) >= 5, "hostile text is shown as it is")
    check(browser.evaluate("window.broken === undefined && document.querySelector('main img, aside img') === null"),
          "hostile text is not HTML")
    browser.evaluate("stateChange({view: 'curves', run: ''})")
    browser.wait(QUIET, "the curves")


def test_live(browser, bevatron, folder):
    """A real training run appears by itself, its curve grows, and its end is seen."""
    browser.evaluate("stateChange({shown: null})")
    place = os.path.join(folder, "really", "training")
    with open(os.path.join(folder, "train.log"), "w") as log:
        train = subprocess.Popen([bevatron, "train", *MODEL, "--train-iters", "1000000", "--save", place, "--machine",
                                  "c7i.48xlarge"], stdout=log, stderr=subprocess.STDOUT)
    try:
        name = "board.runs.find((run) => run.name.includes('training'))"
        browser.wait(f"{name} && boardShown().includes({name}.id)", "the new run in the list")
        browser.wait(f"{name}.state === 'live'", "the new run is live")
        series = f"{CHART}.series.find((series) => series.id === {name}.id)?.curve"
        first = browser.wait(f"{series}?.count > 0 && {series}.x[{series}.count - 1]", "its curve")
        browser.wait(f"{series}.x[{series}.count - 1] > {first}", "its curve has grown")
        speed = "curves.charts.get('tokens per second')"
        browser.evaluate(f"{speed}.element.scrollIntoView()")
        browser.wait(f"{speed}.series.find((series) => series.id === {name}.id)?.planned > 1000 && "
                     f"{speed}.note.textContent.includes('planned')", "the planned speed beside the measured one")
        check(browser.evaluate("!curves.charts.has('planned tokens per second')"), "one chart of speeds")
        browser.wait(f"boardDetails({name}.id, () => null).value?.events.some(({{event}}) => event === 'planned')",
                     "the comparison among the events")
        check(browser.evaluate("!curves.marks.some(({event}) => event === 'planned')"), "no mark of the comparison")
        check(browser.evaluate(f"runFacts({name}).textContent.includes('Planned')"), "the planned speed on the page")
    finally:
        train.send_signal(signal.SIGTERM)
        train.wait(LIMIT)
    browser.wait(f"{name}.state === 'stopped'", "the run has stopped")
    check("stopped" in browser.evaluate(f"runsRows.get({name}.id).row.textContent"), "the list says that it stopped")


def test_one_rank(browser):
    browser.evaluate("stateChange({view: 'ranks', run: board.runs.find((run) => run.name.includes('training')).id})")
    browser.wait("document.querySelectorAll('.ranks tbody tr').length === 1", "the page of one rank")
    browser.wait("byId('ranks-age').textContent.startsWith('1 rank; ')", "one rank is not ranks")
    empty = browser.evaluate("[...document.querySelectorAll('#view-ranks .panel:not([hidden])')]"
                             ".filter((panel) => !panel.textContent.trim()).length")
    check(empty == 0, f"{empty} empty cards")
    browser.evaluate("stateChange({view: 'curves'})")
    group = "curves.charts.get('cpu cores')?.element.closest('section')?.getAttribute('aria-label')"
    check(browser.evaluate(group) == "System", "processors of a run")


def test_none(bevatron, folder):
    os.makedirs(folder)
    with Board(bevatron, folder) as board, Browser() as browser:
        browser.open(board.url)
        browser.wait("document.querySelector('#grid .empty')?.textContent.startsWith('No runs in this folder')",
                     "a page without runs")
        for view in ("run", "ranks", "compare"):
            browser.evaluate(f"stateChange({{view: '{view}'}})")
            check(browser.evaluate(f"byId('view-{view}').textContent.length > 10"), f"{view} without runs says so")
        print_pdf(browser)
        check(browser.problems == [], f"problems without runs: {browser.problems[:5]}")


def test_experts(browser, bevatron, folder):
    """A run with experts has charts of their balance, in a group of their own."""
    place = os.path.join(folder, "really", "experts")
    subprocess.run([bevatron, "train", *MODEL, "--num-experts", "4", "--moe-ffn-hidden-size", "16", "--train-iters", "20",
                    "--save", place], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    name = "board.runs.find((run) => run.name.includes('experts'))"
    chart = "curves.charts.get('expert balance')"
    browser.wait(f"!!{name} && boardShown().includes({name}.id) && !!{chart}", "a chart of the balance of experts")
    browser.evaluate(f"{chart}.element.scrollIntoView()")
    curve = f"{chart}.series.find((series) => series.id === {name}.id)?.curve"
    browser.wait(f"{curve}?.count === 20", "its curve")
    check(browser.evaluate(f"[...{curve}.mean].every((value) => value >= 1 && value <= 2)"), "from 1 to E / K")
    check(browser.evaluate(f"{chart}.element.closest('section').getAttribute('aria-label')") == "Experts", "the group")
    check(browser.evaluate("curves.charts.has('expert balance of layer 0') && curves.charts.has('idle experts')"),
          "charts of layers and of idle experts")
    check(browser.evaluate(f"runFacts({name}).textContent.includes('Expert balance')"), "the balance on the run's page")


def test_export(browser, bevatron, folder):
    path = os.path.join(os.path.dirname(folder), "report.html")
    subprocess.run([bevatron, "board", "--logdir", folder, "--export", path, "--no-cache"], check=True,
                   stdout=subprocess.DEVNULL)
    browser.open("about:blank")
    browser.wait("location.protocol === 'about:'", "the page of the server gone")
    before = len(browser.requests)
    browser.open("file://" + path)
    browser.wait(DRAWN, "a curve of the exported page")
    browser.wait(QUIET, "the exported charts")
    check(browser.evaluate("curves.charts.has('expert balance')"), "the exported balance of experts")
    check("Exported" in browser.evaluate("byId('status').textContent"), "the page says that it was exported")
    browser.evaluate("stateChange({from: 200, to: 400})")
    browser.wait(f"{CHART}.view.xScale.low === 200 && {CHART}.series.length > 1", "a zoom without a server")
    others = [url for url in browser.requests[before:] if not url.startswith(("file://" + path, "data:"))]
    check(others == [], f"an exported page requests {others}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bevatron")
    parser.add_argument("folder")
    parser.add_argument("--times", action="store_true")
    options = parser.parse_args()
    if not find_chromium():
        print("skipped: there is no Chromium (Debian: apt-get install chromium-headless-shell, or set CHROMIUM)")
        return 77
    folder = os.path.join(options.folder, "runs")
    make_runs(folder)
    hostile_run(folder)
    with Board(options.bevatron, folder) as board, Browser() as browser:
        test_opening(browser, board.url)
        test_functions(browser)
        test_zoom(browser)
        test_drawing(browser)
        test_views(browser)
        test_hostile(browser)
        test_keyboard(browser, board.url)
        test_names(browser)
        test_looks(browser)
        test_rows(browser)
        test_phone(board.url)
        test_print(browser)
        test_files(browser, os.path.join(options.folder, "downloads"))
        test_live(browser, options.bevatron, folder)
        test_one_rank(browser)
        test_experts(browser, options.bevatron, folder)
        others = [url for url in browser.requests if not url.startswith((board.url, "data:", "about:"))]
        check(others == [], f"requests to others: {others[:5]}")
        test_export(browser, options.bevatron, folder)
        check(browser.problems == [], f"problems of the page: {browser.problems[:5]}")
    test_printed_report(os.path.join(options.folder, "report.html"))
    test_none(options.bevatron, os.path.join(options.folder, "none"))
    if options.times:
        test_times(options.bevatron, os.path.join(options.folder, "many"))
    print(f"board page: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
