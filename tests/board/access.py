# The board's page for people without a mouse, a large screen or good sight: keyboard, screen reader, phone, contrast,
# motion. page.py runs these checks.
from browser import Browser
from served import CHART, DRAWN, QUIET, check

VIEWS = ("curves", "run", "compare", "ranks")
READY = {"curves": QUIET, "run": "document.querySelector('[data-name=config] tbody tr') !== null",
         "compare": "document.querySelectorAll('.compare tbody').length > 1",
         "ranks": "document.querySelector('.ranks tbody tr') !== null"}
CONTROLS = {"button", "link", "checkbox", "slider", "searchbox", "combobox", "textbox"}

# Contrast of texts with what lies behind them, and of what is drawn with the surface of the charts, as WCAG counts it.
CONTRAST = """(() => {
    const parse = (text) => { const parts = text.match(/[\\d.]+/g).map(Number); return [...parts, 1].slice(0, 4); };
    const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
    const linear = (part) => part <= 10.31 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
        return (x + 0.05) / (y + 0.05); };
    const behind = (node) => { const colour = parse(getComputedStyle(node).backgroundColor);
        return colour[3] === 1 || !node.parentElement ? colour : [...over(colour, behind(node.parentElement)), 1]; };
    const poor = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        if (!walker.currentNode.textContent.trim() || node.closest("option, .unseen, noscript, script, style")
            || !node.checkVisibility({opacityProperty: true, visibilityProperty: true}))
            continue;
        const back = behind(node), found = ratio(over(parse(getComputedStyle(node).color), back), back);
        if (found < 4.5)
            poor.push(`${node.className || node.tagName} ${node.textContent.slice(0, 20)} ${found.toFixed(2)}`);
    }
    const colours = themeColours(), surface = parse(colours.surface);
    const hex = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
    if (ratio(parse(colours.muted), surface) < 4.5)
        poor.push("labels of axes");
    for (const colour of colourTable(themeIsDark()))
        if (ratio(hex(colour), surface) < 3)
            poor.push(`curve ${colour} ${ratio(hex(colour), surface).toFixed(2)}`);
    return poor; })()"""

# Names of landmarks that occur twice.
DOUBLE = """(() => { const seen = new Set();
    return [...document.querySelectorAll("section[aria-label], [role=region], nav, aside")]
        .filter((node) => node.checkVisibility()).map((node) => node.getAttribute("aria-label"))
        .filter((name) => seen.size === seen.add(name).size); })()"""

FOCUSED = """(() => { const node = document.activeElement, box = node.getBoundingClientRect();
    const style = getComputedStyle(node), x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
    const front = document.elementFromPoint(x, y);
    const text = (node.closest("label") ?? node).textContent.trim().slice(0, 30);
    return {name: node.getAttribute("aria-label") || text, id: node.id, is_plot: node.matches(".plot"),
        part: node.closest("header.bar, aside, #toolbar, .card")?.tagName ?? "",
        outline: style.outlineStyle !== "none", seen: Boolean(front && (node.contains(front) || front.contains(node)))};
    })()"""


def show_view(browser, view):
    browser.evaluate("stateChange({view: '%s', run: board.runs.find((run) => run.name.endsWith('lr-3e-4')).id})" % view)
    browser.wait(READY[view], "the view " + view)


def test_keyboard(browser, url):
    """Tab reaches everything in the order of the page; what has the focus is outlined and not covered."""
    browser.open("about:blank")
    browser.open(url)
    browser.wait(DRAWN + " && " + QUIET, "the page again")
    places = []
    for _ in range(80):
        browser.key("Tab")
        places.append(browser.evaluate(FOCUSED))
        if places[-1]["is_plot"]:
            break
    check(places[0]["id"] == "skip", f"the first stop skips to the main part: {places[0]}")
    check(places[-1]["is_plot"], "Tab reaches a chart")
    parts = [place["part"] for place in places]
    order = [part for i, part in enumerate(parts) if part and part not in parts[:i]]
    check(order == ["HEADER", "ASIDE", "DIV", "ARTICLE"], f"order of the parts: {order}")
    check(parts.index("DIV") - parts.index("ASIDE") >= 20, "each run can be chosen")
    bad = [place for place in places if not (place["outline"] and place["seen"] and place["name"])]
    check(bad == [], f"not outlined, covered or nameless: {bad[:3]}")
    browser.key("t")
    browser.wait(f"!{CHART}.tableElement.hidden && {CHART}.tableElement.querySelector('tbody tr') !== null",
                 "a table by a key")
    browser.key("t")
    browser.evaluate("byId('skip').focus()")
    browser.key("Enter")
    browser.wait("document.activeElement === byId('main')", "the focus in the main part")
    browser.evaluate(f"{CHART}.logButton.focus()")
    browser.key(" ")
    browser.wait(f"{CHART}.view.yScale.isLog && {CHART}.logButton.getAttribute('aria-pressed') === 'true'",
                 "a switch by the space bar")
    browser.key(" ")
    browser.key("j")
    browser.wait("document.activeElement.matches('.run-name')", "the list of runs by a key")
    browser.key("Enter")
    browser.wait("state.view === 'run'", "the page of a run by Enter")
    browser.evaluate("history.back()")
    browser.wait("state.view === 'curves' && " + QUIET, "back to the curves")


def test_names(browser):
    """The tree that a screen reader gets: landmarks, charts, tables, a name for each control."""
    browser.evaluate(f"{CHART}.toggleTable()")
    nodes = [node for node in browser.call("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
    named = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes]
    nameless = [role for role, name in named if role in CONTROLS and not name.strip()]
    check(nameless == [], f"controls without a name: {nameless}")
    roles = {role for role, _ in named}
    check({"banner", "main", "status", "list", "heading", "table", "columnheader", "rowheader"} <= roles, f"{roles}")
    for pair in (("navigation", "Views"), ("complementary", "Runs"), ("checkbox", "Draw gpt-345m/lr-3e-4"),
                 ("slider", "Smoothing"), ("table", "lm loss: each run in the visible range")):
        check(pair in named, f"{pair} for screen readers")
    charts = [name for role, name in named if role == "application"]
    check(len(charts) >= 8 and charts[0].startswith("lm loss: 7 runs; last values: "), f"charts: {charts[:1]}")
    browser.evaluate(f"{CHART}.toggleTable()")
    check(browser.evaluate("""[...document.querySelectorAll("button, a[href], input, select")]
        .every((node) => node.tabIndex >= 0)"""), "every control can be reached with Tab")


def test_looks(browser):
    """Every view in both themes: enough contrast, nothing wider than the window; nothing moves if that is wished."""
    for theme, limit in (("light", "> 200"), ("dark", "< 60")):
        browser.emulate(theme)
        for view in VIEWS:
            show_view(browser, view)
            check(browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} fits the window")
            double = browser.evaluate(DOUBLE)
            check(double == [], f"parts of {view} that a screen reader cannot tell apart: {double}")
            poor = browser.evaluate(CONTRAST)
            check(poor == [], f"contrast of {view}, {theme}: {poor[:6]}")
        back = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
        check(browser.evaluate(f"{back} {limit}"), f"the background is {theme}")
    show_view(browser, "curves")
    browser.wait("curves.colours?.dark === true", "dark charts")
    browser.evaluate("byId('theme').click()")
    browser.wait("document.documentElement.dataset.theme === 'light' && curves.colours?.dark === false", "the switch")
    browser.evaluate("themeSet('auto'), themeChanged()")
    check(browser.evaluate("document.getAnimations().length") == 0, "nothing moves for who wants no motion")
    browser.emulate("light", reduced_motion=False)
    browser.wait("document.getAnimations().length > 0", "the sign of a live run breathes")
    browser.emulate("light")


def test_rows(browser):
    """At 1280 pixels: the toolbar is one row, groups of one chart share a row, facts of runs are not cut."""
    browser.evaluate("stateChange({from: 100, to: 900, x: 'step'})")
    browser.wait("!byId('zoom-reset').hidden && " + QUIET, "a zoomed page")
    check(browser.evaluate("byId('toolbar').offsetHeight") < 60, "the toolbar is one row, also with its last button")
    browser.evaluate("curvesReset()")
    tops = browser.evaluate("""[...document.querySelectorAll(".group")].slice(0, 2)
        .map((group) => group.getBoundingClientRect().top)""")
    check(tops[0] == tops[1], "loss and validation are side by side")
    cut = browser.evaluate("""[...document.querySelectorAll(".run-facts")]
        .filter((line) => line.scrollWidth > line.clientWidth).map((line) => line.textContent)""")
    check(cut == [], f"facts that are cut: {cut}")


SMALL = """[...document.querySelectorAll("button, a[href], input, select")].filter((node) => {
    const box = (node.closest("label") ?? node).getBoundingClientRect();
    return node.checkVisibility({visibilityProperty: true}) && box.width > 0 && node.id !== "skip"
        && (box.width < 24 || box.height < 24) && !node.closest("p, h2, td, th, .run-check"); })
    .map((node) => node.outerHTML.slice(0, 90))"""


def test_phone(url):
    with Browser(width=390, height=844, scale=2, touch=True, theme="dark") as browser:
        browser.open(url)
        browser.wait(DRAWN + " && " + QUIET, "the curves on a phone")
        check(browser.evaluate(f"{CHART}.plotElement.clientWidth") >= 340, "a chart takes the width")
        check(browser.evaluate("byId('legend').children.length") >= 6, "a legend")
        title = browser.evaluate(f"(({{scrollWidth, clientWidth}}) => [scrollWidth, clientWidth])"
                                 f"({CHART}.element.querySelector('h3'))")
        check(0 < title[0] <= title[1], f"the title of a chart is whole: {title}")
        box = browser.evaluate("(() => { const box = byId('runs-toggle').getBoundingClientRect();"
                               " return [box.left + box.width / 2, box.top + box.height / 2]; })()")
        browser.touch("touchStart", [box])
        browser.touch("touchEnd", [])
        browser.wait("document.body.classList.contains('runs-open') && byId('runs').getBoundingClientRect().left === 0",
                     "the list of runs by a touch")
        small = browser.evaluate(SMALL)
        check(small == [], f"too small for a finger: {small[:4]}")
        browser.evaluate("byId('filter').focus()")
        browser.key("Escape")
        browser.wait("!document.body.classList.contains('runs-open')", "the list closed by Escape")
        check(browser.evaluate("document.activeElement.id") == "runs-toggle", "the focus where it was")
        for view in VIEWS:
            show_view(browser, view)
            width = browser.evaluate("document.documentElement.scrollWidth")
            check(width <= 390, f"{view} fits a phone, and is {width} wide")
            small = browser.evaluate(SMALL)
            check(small == [], f"too small for a finger in {view}: {small[:4]}")
        show_view(browser, "curves")
        plot = browser.evaluate(f"(() => {{ const box = {CHART}.plotElement.getBoundingClientRect();"
                                " return [box.left, box.top + 60]; })()")
        browser.touch("touchStart", [(plot[0] + 200, plot[1])])
        browser.wait("!byId('tooltip').hidden", "values under a finger")
        browser.touch("touchEnd", [])
        inside = browser.evaluate("(() => { const box = byId('tooltip').getBoundingClientRect();"
                                  " return box.left >= 0 && box.right <= innerWidth; })()")
        check(inside, "the readout is on the screen")
        check(browser.problems == [], f"problems on a phone: {browser.problems[:5]}")
