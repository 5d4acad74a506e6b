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
