# How fast the board's page is with many runs: first paint, first curve, and each interaction until it is painted; and
# the processor time of the page's thread, which other load changes little. Only for a machine that is otherwise idle.
# Exit code 1 if a limit is exceeded, 77 if there is no Chromium.
# usage: times.py BEVATRON FOLDER             100 runs of 2,000 steps, written to FOLDER
#        times.py BEVATRON --logdir FOLDER    the runs that are there; the cache of the board is used
import argparse
import sys

from browser import Browser, find_chromium
from make_runs import make_runs
from served import CHART, DRAWN, QUIET, Board, check, failures

FIRST_PAINT_MS, INTERACTION_MS, SERVER_MIB = 300, 100, 200
# Chromium's own measure, in steps of 8 ms: from the input to the next painted frame.
OBSERVE = """window.inputs = []; new PerformanceObserver((list) => { for (const entry of list.getEntries())
    window.inputs.push([entry.name, entry.duration]); }).observe({type: "event", durationThreshold: 16});"""
PAINTED = "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"


def thread_time(browser):
    return next(metric["value"] for metric in browser.call("Performance.getMetrics")["metrics"]
                if metric["name"] == "ThreadTime")


def drawing_times(browser):
    """Milliseconds from a change until the first chart shows it, the longest of several; and of processor time."""
    times, work = {}, {}
    for name, action in (
            ("crosshair", "chart.plotElement.dispatchEvent(new PointerEvent('pointermove', {pointerType: 'mouse',"
                          " clientX: box.left + 90 + 20 * i, clientY: box.top + 90, bubbles: true}))"),
            ("zoom", "curvesZoom(full[0] + width * (0.1 + 0.01 * i), full[1] - width * (0.1 + 0.01 * i))"),
            ("smoothing", "stateChange({smooth: 0.1 + 0.05 * i})"),
            ("logarithm", "stateChange({logAll: i % 2 === 0})"),
            ("filter", "stateChange({query: 'run-0'.slice(0, 1 + i)})"),
            ("highlight", "curvesHighlight(boardShown()[i])")):
        browser.evaluate("curvesReset(), stateChange({smooth: 0, logAll: false, query: ''})")
        browser.wait(QUIET, "quiet")
        before = thread_time(browser)
        times[name] = browser.evaluate(f"""(async () => {{ const chart = {CHART};
            const box = chart.plotElement.getBoundingClientRect(), full = curves.extent, width = full[1] - full[0];
            let most = 0;
            for (let i = 0; i < 6; i++) {{ const start = performance.now(); {action}; {PAINTED}
                while (chart.isDirty) {{ {PAINTED} }} most = Math.max(most, performance.now() - start); }}
            return most; }})()""")
        work[name] = (thread_time(browser) - before) * 1000 / 6
    browser.evaluate("curvesReset(), stateChange({smooth: 0, logAll: false, query: ''}), curvesHighlight(null)")
    browser.wait(QUIET, "quiet")
    return times, work


def input_times(browser):
    """The same for real keys and clicks: {kind of event: milliseconds}, the longest of each; 0 is less than 16."""
    browser.evaluate("window.inputs = [], void 0")
    browser.evaluate(f"{CHART}.plotElement.focus({{preventScroll: true}})")
    for key in ("ArrowRight", "ArrowLeft", "+", "+", "-", "0", "l", "l"):
        browser.key(key)
        browser.wait(QUIET, "the answer to a key")
    browser.evaluate("document.activeElement.blur()")
    for key in ("s", "s", "S", "S", "o", "o", "m", "m"):
        browser.key(key)
        browser.wait(QUIET, "the answer to a key")
    box = browser.evaluate("(() => { const box = document.querySelector('#run-list input').getBoundingClientRect();"
                           " return [box.left + 7, box.top + 7]; })()")
    for _ in range(2):
        browser.mouse("mousePressed", *box, button="left", buttons=1, clickCount=1)
        browser.mouse("mouseReleased", *box, button="left", clickCount=1)
        browser.wait(QUIET, "the answer to a click")
    plot = browser.evaluate(f"(() => {{ const box = {CHART}.plotElement.getBoundingClientRect();"
                            " return [box.left + 100, box.top + 80]; })()")
    browser.drag(plot, (plot[0] + 80, plot[1]))
    browser.wait("state.from !== null", "a zoom by dragging")
    browser.double_click(*plot)
    browser.wait("state.from === null && " + QUIET, "everything again")
    browser.evaluate(f"(async () => {{ {PAINTED} }})()")
    times = {}
    for name, duration in browser.evaluate("window.inputs"):
        times[name] = max(times.get(name, 0), duration)
    return times


def zoom_time(browser):
    """Milliseconds until a range of 100 steps has been read from the files and drawn."""
    browser.evaluate("curvesReset()")
    browser.wait(QUIET, "quiet")
    started = browser.evaluate("""(() => { const [low, high] = curves.extent, middle = low + (high - low) * 0.4;
        curvesZoom(middle, middle + 100); return performance.now(); })()""")
    ready = f"{CHART}.series.length > 0 && {CHART}.series.every((series) => series.curve.isExact) && {QUIET}"
    ended = browser.wait(f"{ready} && performance.now()", "every value of a small range")
    browser.evaluate("curvesReset()")
    browser.wait(QUIET, "quiet")
    return ended - started


def most_memory(process):
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


def text_of(times):
    return ", ".join(f"{name} {ms:.0f} ms" for name, ms in sorted(times.items())) or "all under 16 ms"


def measure(board):
    with Browser(width=1440, height=900) as browser:
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=OBSERVE)
        browser.call("Performance.enable", timeDomain="threadTicks")
        browser.open(board.url)
        browser.wait(DRAWN + " && !board.scanning", "the runs")
        everything = browser.evaluate("board.runs.map((run) => run.id).join(',')")
        total = browser.evaluate("board.runs.length")
        for url, what in ((board.url, "the newest"), (board.url + "#runs=" + everything, "all")):
            paints, curves = [], []
            for _ in range(5):
                browser.open("about:blank")
                browser.open(url)
                browser.wait(DRAWN + " && " + QUIET, "the curves")
                paints.append(browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
                curves.append(browser.evaluate("performance.getEntriesByName('board-first-curve')[0].startTime"))
            print(f"{total} runs, {what} drawn: first paint {min(paints):.0f} to {max(paints):.0f} ms, "
                  f"first curve {min(curves):.0f} to {max(curves):.0f} ms", flush=True)
            check(sorted(paints)[2] < FIRST_PAINT_MS, f"first paint in {FIRST_PAINT_MS} ms")
            wall, work = drawing_times(browser)
            for kind, times in (("drawn after", wall), ("processor time", work),
                                ("painted after", input_times(browser))):
                print(f"{total} runs, {what} drawn: {kind}: {text_of(times)}", flush=True)
                check(max(times.values(), default=0) < INTERACTION_MS, f"interaction in {INTERACTION_MS} ms: {times}")
            print(f"{total} runs, {what} drawn: every value of a zoomed range after {zoom_time(browser):.0f} ms")
        check(browser.problems == [], f"problems: {browser.problems}")
    memory = most_memory(board.process)
    print(f"{total} runs: the server took up to {memory:.0f} MiB")
    check(memory < SERVER_MIB, f"the server takes less than {SERVER_MIB} MiB")


def test_times(bevatron, folder):
    make_runs(folder, runs=100, steps=2000)
    with Board(bevatron, folder) as board:
        measure(board)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bevatron")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--logdir")
    options = parser.parse_args()
    if not find_chromium():
        print("skipped: there is no Chromium (Debian: apt-get install chromium-headless-shell, or set CHROMIUM)")
        return 77
    if options.logdir:
        with Board(options.bevatron, options.logdir, "--host", "127.0.0.1") as board:
            measure(board)
    elif options.folder:
        test_times(options.bevatron, options.folder)
    else:
        parser.error("give a folder to write runs to, or --logdir FOLDER")
    print(f"times of the page: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
