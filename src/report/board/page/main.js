// Starts the page: header, views, the connection to the data.
"use strict";

const viewNames = [["curves", "Curves"], ["run", "Run"], ["compare", "Compare"], ["ranks", "Ranks"]];

function viewsUpdate() {
    const links = byId("views").children;
    viewNames.forEach(([view], index) => {
        byId("view-" + view).hidden = state.view !== view;
        if (state.view === view)
            links[index].setAttribute("aria-current", "page");
        else
            links[index].removeAttribute("aria-current");
    });
}

function statusUpdate() {
    const status = byId("status");
    const live = board.runs.filter((run) => run.state === "live").length;
    let text = "";
    if (board.lost)
        text = `Not connected: ${board.lost}. Retrying.`;
    else if (board.scanning && board.scanning.bytes_total > 0)
        text = `Reading files: ${Math.floor(100 * board.scanning.bytes_done / board.scanning.bytes_total)} %`;
    else if (board.api.isExport)
        text = `Exported ${formatClock(board.exported)}`;
    if (status.textContent !== text)
        status.textContent = text;
    status.classList.toggle("bad", Boolean(board.lost));
    byId("logdir").textContent = board.logdir ?? "";
    byId("logdir").title = board.logdir ?? "";
    document.title = (live > 0 ? `(${live} live) ` : "") + "Bevatron board";
}

// On small screens the list of runs lies over the page. Closing it with the keyboard returns the focus to its button.
function drawerSet(isOpen) {
    if (!isOpen && document.body.classList.contains("runs-open") && byId("runs").contains(document.activeElement))
        byId("runs-toggle").focus();
    document.body.classList.toggle("runs-open", isOpen);
    byId("runs-toggle").setAttribute("aria-expanded", String(isOpen));
}

function themeChanged() {
    curvesRecolour();
    legendUpdate();
    runsUpdate();
    if (state.view === "ranks")
        ranksUpdate();
    if (state.view === "compare")
        compareUpdate();
}

function boardStart() {
    stateStart();
    board.api = apiOpen();
    themeSet(preference("theme", "auto"));
    byId("runs-toggle").append(icon("menu"));
    byId("runs-toggle").addEventListener("click", () => drawerSet(!document.body.classList.contains("runs-open")));
    byId("theme").addEventListener("click", () => { themeNext(); themeChanged(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);
    byId("main").addEventListener("pointerdown", (event) => {
        drawerSet(false);
        if (!event.target.closest(".plot"))
            curvesLeave();
    });
    byId("skip").addEventListener("click", (event) => {
        event.preventDefault();
        byId("main").focus();
    });
    // The tooltip is at the pointer's old place, where scrolling has put something else.
    addEventListener("scroll", tooltipHide, {passive: true});
    runsStart();
    curvesStart();
    runStart();
    compareStart();
    ranksStart();
    helpStart();
    downloadStart();
    printStart();
    byId("views").append(...viewNames.map(([view, text]) => stateAnchor({view}, {text})));
    viewsUpdate();
    toolbarUpdate();
    board.listeners.push(statusUpdate);
    stateListeners.push((keys) => {
        viewsUpdate();
        if (keys.has("view")) {
            drawerSet(false);
            scrollTo(0, 0);
        }
    });
    apiFollow(board.api, boardUpdate, (message) => {
        board.lost = message;
        statusUpdate();
    });
}

document.addEventListener("DOMContentLoaded", boardStart);

// ---- shortcuts ----

// Keyboard shortcuts of the page and the dialog that lists them. Those of a chart are in gestures.js.

function helpRows() {
    return [
        ["/", "filter the runs"], ["r", "list of runs (on small screens)"], ["j, k", "next, previous run in the list"],
        ["1, 2, 3, 4", "curves, run, compare, ranks"], ["x", "next kind of x axis"], ["s, S", "smooth more, less"],
        ["l", "logarithmic y axes"], ["o", "clip outliers"], ["m", "marks"], ["0", "reset the zoom"], ["d", "theme"],
        ["?", "this list"],
    ];
}

function helpChartRows() {
    return [
        ["drag", "zoom to the selected range"], ["Shift + drag", "move the range"],
        ["Ctrl + wheel", "zoom; the wheel alone on a focused chart"], ["two fingers", "zoom and move"],
        ["double click", "show everything"], ["← →", "move the crosshair"], ["Shift + ← →", "move the range"],
        ["+ −", "zoom"], ["l, t, e", "logarithmic axis, table, enlarge"],
    ];
}

function helpMarks() {
    return [["triangle", "a checkpoint was saved"], ["dashed line", "the run started again or went back"],
        ["diamond", "a spike, NaN, skipped step, hang or failure"], ["square", "the run finished or was stopped"],
        ["circles", "the validation loss"]];
}

function helpList(title, rows) {
    return el("section", {}, el("h3", {text: title}),
        el("dl", {class: "keys"}, ...rows.map(([keys, text]) => el("div", {}, el("dt", {}, el("kbd", {text: keys})),
            el("dd", {text})))));
}

function helpStart() {
    const dialog = byId("shortcuts");
    const close = iconButton("close", "Close", () => dialog.close());
    const title = el("h2", {id: "shortcuts-title", text: "Keyboard and mouse"});
    dialog.append(el("div", {class: "panel-head"}, title, close),
        el("div", {class: "help-columns"}, helpList("Page", helpRows()), helpList("On a chart", helpChartRows()),
            helpList("Marks", helpMarks())),
        checkbox("Shortcuts of a single key", preference("keys", true), (isOn) => preferenceSet("keys", isOn)));
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    byId("help").addEventListener("click", () => dialog.showModal());
    addEventListener("keydown", helpKey);
}

function helpStep(distance) {
    const links = [...document.querySelectorAll("#run-list .run-name")];
    const at = links.findIndex((link) => link.closest("li").contains(document.activeElement));
    const next = links[Math.min(Math.max(at + distance, 0), links.length - 1)];
    next?.focus();
}

function helpNextX() {
    const modes = xModes().map(([mode]) => mode);
    const x = modes[(modes.indexOf(state.x) + 1) % modes.length];
    stateChange({x, from: null, to: null});
    announce("x axis: " + xModes().find(([mode]) => mode === x)[1]);
}

function helpSmooth(distance) {
    stateChange({smooth: Math.round(100 * Math.min(1, Math.max(0, state.smooth + distance))) / 100});
}

function helpKey(event) {
    const isTyping = event.target.closest?.("input:not([type=checkbox]):not([type=range]), select, textarea");
    if (event.key === "Escape" && isTyping) {
        drawerSet(false);
        if (document.activeElement === event.target)
            event.target.blur();
    }
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || byId("shortcuts").open)
        return;
    const actions = {
        "?": () => byId("shortcuts").showModal(),
        "/": () => { drawerSet(true); byId("filter").focus(); },
        r: () => drawerSet(!document.body.classList.contains("runs-open")),
        j: () => helpStep(1),
        k: () => helpStep(-1),
        1: () => stateChange({view: "curves"}),
        2: () => stateChange({view: "run"}),
        3: () => stateChange({view: "compare"}),
        4: () => stateChange({view: "ranks"}),
        x: helpNextX,
        s: () => helpSmooth(0.1),
        S: () => helpSmooth(-0.1),
        l: () => stateChange({logAll: !state.logAll, logFlip: []}),
        o: () => stateChange({clip: !state.clip}),
        m: () => stateChange({marks: !state.marks}),
        0: curvesReset,
        d: () => { themeNext(); themeChanged(); },
        Escape: () => drawerSet(false),
    };
    const action = actions[event.key];
    if (!action || (event.key !== "Escape" && !preference("keys", true)))
        return;
    event.preventDefault();
    action();
}
