// The view "curves": a grid of charts, one per tag, that share x, zoom, crosshair and settings.
"use strict";

const curves = {
    charts: new Map(),   // tag -> Chart
    listed: "",          // contents of the grid, to rebuild it only on changes
    colours: null,
    frame: 0,
    drawnAt: 0,          // time of the last frame
    isDrawing: false,    // that frame left charts to draw
    batch: 1,            // charts per frame
    focused: null,
    hover: null,         // {chart, x, client}
    marks: [],
    seen: null,          // IntersectionObserver
    sized: null,         // ResizeObserver
};

function curvesStart() {
    curves.seen = new IntersectionObserver((entries) => {
        for (const entry of entries) {
            entry.target.chart.isVisible = entry.isIntersecting;
            if (entry.isIntersecting)
                curvesRefresh(entry.target.chart);
        }
    }, {rootMargin: "200px"});
    curves.sized = new ResizeObserver((entries) => {
        for (const entry of entries)
            curvesRefresh(entry.target.parentElement.chart);
    });
    byId("view-curves").append(toolbarBuild(), el("ul", {id: "legend", class: "legend", "aria-label": "Drawn runs"}),
        el("div", {id: "grid"}));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", curvesRecolour);
    board.listeners.push((changed) => {
        curvesList();
        curvesMarks();
        curvesRefreshAll(changed);
    });
    stateListeners.push(curvesStateChanged);
}

function curvesStateChanged(keys) {
    toolbarUpdate();
    if (state.view !== "curves" || [...keys].every((key) => ["query", "sort", "run", "same"].includes(key)))
        return;
    curvesList();
    if (["x", "shown", "marks", "view"].some((key) => keys.has(key)))
        curvesMarks();
    for (const chart of curves.charts.values())
        chart.setBig(chart.tag === state.big);
    const needsData = ["x", "shown", "view", "tags", "big"].some((key) => keys.has(key));
    if (keys.has("from") || keys.has("to"))
        curvesLoadSoon();
    for (const chart of curves.charts.values())
        needsData ? curvesRefresh(chart) : curvesShow(chart);
}

const curvesLoadSoon = debounce(120, () => curvesRefreshAll());

// Tags of the drawn runs that pass the filter.
function curvesTags() {
    const words = state.tags.toLowerCase().split(/\s+/).filter(Boolean);
    const tags = new Set(boardShown().flatMap((id) => board.byId.get(id).tags));
    return [...tags].filter((tag) => !tagIsPlanned(tag) && words.every((word) => tag.toLowerCase().includes(word)));
}

function curvesChart(tag) {
    let chart = curves.charts.get(tag);
    if (!chart) {
        chart = new Chart(tag, {onLog: curvesFlipLog,
            onEnlarge: (it) => stateChange({big: state.big === it.tag ? "" : it.tag})});
        chart.loads = new Map();
        curves.charts.set(tag, chart);
        chart.setBig(tag === state.big);
        gesturesAttach(chart, {...chart.hooks, onHover: curvesHover, onLeave: curvesLeave, onZoom: curvesZoom,
            onPan: curvesPan, onReset: curvesReset, onCrosshair: curvesCrosshair});
        chart.plotElement.addEventListener("focus", () => { curves.focused = chart; });
        curves.seen.observe(chart.element);
        curves.sized.observe(chart.plotElement);
    }
    return chart;
}

// Rebuilds the grid if its tags have changed.
function curvesList() {
    legendUpdate();
    const groups = tagsGrouped(curvesTags());
    const listed = JSON.stringify([groups, board.isLoaded, boardShown().length > 0, board.runs.length > 0]);
    if (listed === curves.listed)
        return;
    curves.listed = listed;
    const tags = new Set(groups.flatMap(([, list]) => list));
    for (const [tag, chart] of curves.charts)
        if (!tags.has(tag)) {
            curves.seen.unobserve(chart.element);
            curves.sized.unobserve(chart.plotElement);
            curves.charts.delete(tag);
        }
    const sections = groups.map(curvesGroup);
    byId("grid").replaceChildren(...(sections.length > 0 ? sections : [curvesEmpty()]));
}

// Groups of few charts share a row: a group is as wide as its charts.
function curvesGroup([group, list]) {
    const section = el("section", {class: "group", "aria-label": group},
        el("h2", {}, group, el("span", {class: "muted count", text: list.length > 1 ? String(list.length) : ""})),
        el("div", {class: "cards"}, ...list.map((tag) => curvesChart(tag).element)));
    section.style.setProperty("--cards", list.length);
    return section;
}

function curvesEmpty() {
    let text = "No run has anything to draw yet.";
    if (!board.isLoaded)
        text = "Reading runs…";
    else if (board.runs.length === 0)
        text = "No runs in this folder yet. A run appears here when train has written its first line.";
    else if (boardShown().length === 0)
        text = "Choose runs in the list to draw their curves.";
    else if (state.tags)
        text = "No curve has this name.";
    return el("p", {class: "empty muted", text});
}

// The range of x over all charts, so that they line up. null before any data has arrived.
function curvesExtent() {
    let low = Infinity, high = -Infinity;
    const shown = new Set(boardShown());
    for (const chart of curves.charts.values())
        for (const [id, {overview}] of chart.loads)
            if (overview && overview.x === state.x && shown.has(id) && overview.curve.count > 0) {
                low = Math.min(low, overview.curve.x[0]);
                high = Math.max(high, overview.curve.x[overview.curve.count - 1]);
            }
    return low <= high ? [low, high > low ? high : low + 1] : null;
}

// Gives a chart its curves and settings, and requests a redraw.
function curvesShow(chart) {
    chart.series = loadIds(chart).map((id) => ({id, name: board.byId.get(id).name, colour: colourOf(id),
        dash: dashOf(id), curve: loadBest(chart, id), planned: tagPlanned(chart.tag, board.byId.get(id))}))
        .filter((series) => series.curve !== null);
    if (chart.series.length < CHART_MANY)
        chart.series.push(...chart.series.filter(({curve}) => curve.beside).map((series) => ({...series, planned: null,
            name: series.name + " validation", curve: series.curve.beside, isBeside: true, dash: [1, 2.5]})));
    chart.marks = curves.marks;
    chart.message = chart.error || (chart.loading ? "loading…" : "");
    if (loadIds(chart).length === 0)
        chart.message = `no drawn run with this curve knows its ${state.x === "flops" ? "FLOPs" : state.x}`;
    const domain = state.from !== null ? [state.from, state.to] : curves.extent ?? [0, 1];
    const isReduced = chart.series.some((series) => !series.curve.isExact);
    const notes = [...(chart.series.some((series) => series.isBeside) ? ["circles: validation"] : []),
        ...(chart.series.length > 0 && isReduced ? ["min–max band"] : []),
        ...(chart.series.some((series) => series.planned) ? ["dotted: planned"] : [])];
    chart.note.textContent = notes.join(", ");
    chart.setView({mode: state.x, domain, isLog: stateIsLog(chart.tag), isLogX: state.logX, smooth: state.smooth,
        clip: state.clip});
    curvesSchedule();
}

// New data may have widened the range of x, which all charts share.
function curvesArrived(chart) {
    curvesLoadUnseen();
    const before = String(curves.extent);
    curves.extent = curvesExtent();
    if (chart === curvesLossChart() && state.marks && boardShown().length <= BOARD_MARKED_RUNS)
        curvesMarks();
    else if (String(curves.extent) === before)
        curvesShow(chart);
    else
        curves.charts.forEach(curvesShow);
}

function curvesRefresh(chart) {
    if (state.view !== "curves" || !chart.isVisible)
        return;
    loadForget(chart);
    loadChart(chart, curvesArrived);
    curvesShow(chart);
}

// Charts outside the screen, one after another, once the visible ones are loaded.
const curvesLoadUnseen = debounce(300, () => {
    const charts = [...curves.charts.values()];
    if (state.view !== "curves" || document.hidden || charts.some((chart) => chart.loading))
        return;
    const next = charts.find((chart) => !chart.isVisible && loadIsDue(chart));
    if (next)
        loadChart(next, curvesArrived);
});

// `changed`: only charts with one of these runs; without it all charts.
function curvesRefreshAll(changed) {
    const shown = boardShown();
    if (changed && !shown.some((id) => changed.has(id)))
        return;
    curves.extent = curvesExtent();
    curves.charts.forEach(curvesRefresh);
    curvesLoadUnseen();
}

// Redraws outdated charts, in frames: the chart under the pointer or the focus at once, then others, more at a time
// while frames are short. The browser paints a canvas after the script has ended, so only the time from one frame to
// the next tells what drawing costs.
function curvesSchedule() {
    if (!curves.frame)
        curves.frame = requestAnimationFrame(curvesDraw);
}

function curvesDraw() {
    const now = performance.now();
    if (!curves.isDrawing || now - curves.drawnAt > 40)
        curves.batch = 1;
    else if (now - curves.drawnAt < 24)
        curves.batch *= 2;
    curves.frame = 0;
    curves.drawnAt = now;
    curves.colours ??= themeColours();
    const first = curves.hover?.chart ?? curves.focused;
    const dirty = [...curves.charts.values()].filter((chart) => chart.isDirty && chart.isVisible)
        .sort((a, b) => (b === first) - (a === first) || a.drawnAt - b.drawnAt);
    for (const chart of dirty.slice(0, curves.batch)) {
        chart.draw(curves.colours);
        chart.drawnAt = now;
        if (!curves.isTimed && chart.series.length > 0)
            curves.isTimed = performance.mark("board-first-curve") && true;
    }
    curves.isDrawing = dirty.length > curves.batch;
    if (curves.isDrawing)
        curvesSchedule();
}

function curvesRecolour() {
    curves.colours = null;
    curves.charts.forEach(curvesShow);
    curvesMarks();
}

// The first chart, if it shows a loss: tagsGrouped puts losses first.
function curvesLossChart() {
    const [first] = curves.charts.values();
    return first && tagGroup(first.tag) === "Loss" ? first : null;
}

// Checkpoints, restarts, spikes and problems of the drawn runs.
function curvesMarks() {
    const shown = boardShown();
    curves.marks = [];
    if (state.view === "curves" && state.marks && shown.length <= BOARD_MARKED_RUNS)
        for (const id of shown) {
            const {value} = boardDetails(id, curvesMarks);
            // A comparison with the plan is not a problem of the run.
            const told = (value ? boardEvents(value) : []).filter(({event}) => event !== "planned");
            const events = told.map((event) => ({event: event.event,
                text: event.text ?? "", x: boardEventX(id, event, curvesMarks)}));
            // A run with --spike-policy reports its spikes itself.
            const isReported = events.some(({event}) => event === "spike");
            for (const mark of [...events, ...(isReported ? [] : spikeMarks(curvesLossChart(), id))])
                curves.marks.push({run: id, name: board.byId.get(id).name, colour: colourOf(id), ...mark});
        }
    curves.marks = curves.marks.filter((mark) => Number.isFinite(mark.x)).sort((a, b) => a.x - b.x);
    curves.charts.forEach(curvesShow);
}

// ---- Zoom and crosshair ----

function curvesZoom(from, to) {
    const full = curves.extent ?? curvesExtent();
    if (full) {
        from = Math.max(from, full[0]);
        to = Math.min(to, full[1]);
        if (from <= full[0] && to >= full[1])
            return curvesReset();
        if (!(to - from > (full[1] - full[0]) * 1e-7))
            return undefined;
    }
    return stateChange({from, to});
}

// Keeps the width of the range, also at the ends.
function curvesPan(from, to) {
    const full = curves.extent ?? curvesExtent();
    if (state.from === null || !full)
        return;
    const width = to - from;
    const begin = Math.min(Math.max(from, full[0]), Math.max(full[0], full[1] - width));
    stateChange({from: begin, to: begin + width});
}

function curvesReset() {
    stateChange({from: null, to: null});
    curvesRefreshAll();
}

function curvesHover(chart, x, event) {
    const box = chart.plotElement.getBoundingClientRect();
    const client = event ? {x: event.clientX, y: event.clientY, plotY: event.clientY - box.top} : null;
    const isWaiting = curves.hover !== null && curves.hover.isWaiting;
    curves.hover = {chart, x, client, isWaiting: true};
    if (!isWaiting)
        requestAnimationFrame(curvesDrawHover);
}

function curvesDrawHover() {
    if (!curves.hover)
        return;
    curves.hover.isWaiting = false;
    const {chart, x, client} = curves.hover;
    for (const other of curves.charts.values())
        if (other.isVisible) {
            other.hoverX = x;
            other.drawOverlay();
        }
    if (chart.view)
        tooltipShow(chart, x, client);
}

function curvesLeave() {
    curves.hover = null;
    tooltipHide();
    for (const chart of curves.charts.values())
        if (chart.hoverX !== null) {
            chart.hoverX = null;
            chart.drawOverlay();
        }
}

const curvesTell = debounce(350, (chart, x) => announce(tooltipSentence(chart, x)));

function curvesCrosshair(chart, x) {
    curvesHover(chart, x, null);
    curvesTell(chart, x);
}

function curvesHighlight(id) {
    for (const chart of curves.charts.values()) {
        chart.highlight = id;
        if (chart.isVisible)
            chart.drawOverlay();
    }
}

function curvesFlipLog(chart) {
    stateChange({logFlip: state.logFlip.includes(chart.tag) ? state.logFlip.filter((tag) => tag !== chart.tag)
        : [...state.logFlip, chart.tag]});
}

// Finds spikes of the loss: values far above the usual ones before them.
const SPIKE_HISTORY = 32;  // points over which the usual value is averaged
const SPIKE_SHARE = 0.1;   // a spike exceeds the usual value by this share of it
const SPIKE_SPREADS = 8;   // and by this many times the usual distance to it

// Returns {x, value, usual} of each: neighbours form one spike with the greatest of their values. A point of many steps
// is represented by its greatest one, so no spike is lost to decimation. A level that lasts as long as the history
// becomes the usual one.
function curveSpikes(curve) {
    const spikes = [];
    let level = 0, spread = 0, seen = 0, spike = null;
    for (let i = 0; i < curve.count; i++) {
        const value = curve.high[i];
        if (Number.isNaN(value))
            continue;
        const isHigh = seen > 20 && value > level + Math.max(SPIKE_SPREADS * spread, SPIKE_SHARE * Math.abs(level));
        if (!isHigh)
            spike = null;
        else if (!spike)
            spikes.push(spike = {x: curve.x[i], value, usual: level, length: 0});
        else if (value > spike.value)
            Object.assign(spike, {x: curve.x[i], value});
        if (isHigh && ++spike.length < SPIKE_HISTORY)
            continue;
        const weight = Math.max(1 / (seen + 1), 1 / SPIKE_HISTORY);
        if (seen > 0)
            spread += weight * (Math.abs(value - level) - spread);
        level += weight * (value - level);
        seen++;
    }
    return spikes;
}

// Marks of the spikes of a run, from the chart of its loss.
function spikeMarks(chart, id) {
    const curve = chart ? loadBest(chart, id) : null;
    if (!curve)
        return [];
    curve.spikes ??= curveSpikes(curve);
    return curve.spikes.map(({x, value, usual}) => ({x, event: "spike",
        text: `${chart.tag} ${formatNumber(value, 4)} after ${formatNumber(usual, 4)}`}));
}
