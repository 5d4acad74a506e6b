// Fetches the curves of charts: only for charts on the screen, for drawn runs, after changes, and for the visible
// range. A chart keeps the overview of each run besides the zoomed range, so that zooming out draws at once.
"use strict";

const LOAD_CHUNK = 40;          // runs per request
const LOAD_ZOOM_CHUNK = 8;      // for a range: the server limits bytes read per request, then answers coarsely
const LOAD_POINTS = 60000;      // of one chart: with many runs, each has fewer
const LOAD_LIVE_PAUSE_MS = 1000;
const LOAD_UNSEEN_PAUSE_MS = 30000;  // for charts outside the screen

const loadSlots = {free: 4, waiting: []};

// Runs at most four requests at a time: browsers allow six per server, and one of them waits for news.
async function loadLimited(work) {
    if (loadSlots.free > 0)
        loadSlots.free--;
    else
        await new Promise((resolve) => loadSlots.waiting.push(resolve));
    try {
        return await work();
    } finally {
        if (loadSlots.waiting.length > 0)
            loadSlots.waiting.shift()();
        else
            loadSlots.free++;
    }
}

function loadApiX() {
    return state.x === "clock" ? "time" : state.x;
}

function loadShift(id) {
    return state.x === "time" ? boardOrigin(id) : 0;
}

// The runs of a chart: drawn, with its tag, on this kind of x axis.
function loadIds(chart) {
    return boardShown().filter((id) => {
        const run = board.byId.get(id);
        return run.tags.includes(chart.tag) && run.x.includes(loadApiX());
    });
}

// The data that a chart needs now: {key, tags, range, points}. The first tag is its own. The range has margins on both
// sides: a small move needs no request.
function loadWanted(chart, ids) {
    const width = chart.plotElement.clientWidth || 400;
    const points = Math.min(Math.max(200, Math.ceil(width / 200) * 200), 2000,
        Math.max(200, Math.floor(LOAD_POINTS / Math.max(ids.length, 1) / 100) * 100));
    const tags = [chart.tag, ...(ids.length < CHART_MANY ? tagsBeside(chart.tag, ids) : [])];
    const key = `${state.x} ${points} ${tags.length}`;
    if (state.from === null)
        return {key, tags, range: null, points};
    const room = (state.to - state.from) * 0.2;
    const range = [state.from - room, state.to + room];
    return {key: `${key} ${range}`, tags, range, points};
}

function loadEntry(chart, id) {
    let entry = chart.loads.get(id);
    if (!entry)
        chart.loads.set(id, entry = {overview: null, detail: null});
    return entry;
}

// Whether the chart's data of a run is the wanted one. Beyond a run's last point nothing changes.
function loadIsCurrent(part, wanted, run) {
    if (!part || part.key !== wanted.key)
        return false;
    return part.updated === run.updated || (wanted.range !== null && part.isPast);
}

// The best available curve for the present view: the wanted one, or an older one with the same kind of x.
function loadBest(chart, id) {
    const entry = chart.loads.get(id);
    if (!entry)
        return null;
    const fits = (part) => part && part.x === state.x;
    if (state.from !== null && fits(entry.detail)) {
        const [from, to] = entry.detail.range;
        const covers = from <= state.from && to >= state.to && to - from < 4 * (state.to - state.from);
        if (covers || !fits(entry.overview))
            return entry.detail.curve;
    }
    return fits(entry.overview) ? entry.overview.curve : null;
}

async function loadBatch(chart, ids, wanted, signal) {
    const x = state.x;
    if (x === "time")
        await Promise.all(ids.map((id) => loadLimited(() => boardFindOrigin(id))));
    if (signal.aborted)
        return;
    const shift = wanted.range ? loadShift(ids[0]) : 0;
    const {tags} = wanted;
    const answer = await loadLimited(() => board.api.curves({ids, tags, x: loadApiX(),
        from: wanted.range ? wanted.range[0] + shift : null, to: wanted.range ? wanted.range[1] + shift : null,
        points: wanted.points}, signal));
    if (signal.aborted)
        return;
    const got = new Map(answer.curves.map((curve) => [`${curve.id} ${curve.tag}`, curve]));
    const make = (id, tag) => {
        const found = got.get(`${id} ${tag}`);
        return curveFromPoints(found?.points ?? [], found?.exact ?? true, loadShift(id));
    };
    for (const id of ids) {
        const curve = make(id, tags[0]);
        curve.beside = tags.slice(1).map((tag) => make(id, tag)).find(({count}) => count > 0) ?? null;
        const part = {key: wanted.key, x, range: wanted.range, curve, updated: wanted.updated.get(id),
            isPast: wanted.range !== null && curve.count > 0 && curve.x[curve.count - 1] >= wanted.range[1]};
        loadEntry(chart, id)[wanted.range ? "detail" : "overview"] = part;
    }
}

// The runs whose curves are missing or outdated.
function loadStale(chart, wanted) {
    return loadIds(chart).filter((id) => !loadIsCurrent(chart.loads.get(id)?.[wanted.range ? "detail" : "overview"],
        wanted, board.byId.get(id)));
}

// Whether a chart outside the screen should be loaded now, to be ready for scrolling or printing.
function loadIsDue(chart) {
    const wanted = loadWanted(chart, loadIds(chart));
    const isNew = chart.loadedKey !== wanted.key || performance.now() - chart.loadedAt > LOAD_UNSEEN_PAUSE_MS;
    return isNew && loadStale(chart, wanted).length > 0;
}

// Requests missing curves and calls `show(chart)` as answers arrive. Times since the start differ by run, so a zoomed
// chart of them sends one request per run.
async function loadChart(chart, show) {
    const wanted = loadWanted(chart, loadIds(chart));
    const stale = loadStale(chart, wanted);
    if (stale.length === 0)
        return;
    if (chart.loading) {
        if (chart.loading.key === wanted.key) {
            chart.loading.again = true;
            return;
        }
        chart.loading.abort.abort();
    }
    const isLive = chart.loadedKey === wanted.key;
    const loading = chart.loading = {key: wanted.key, abort: new AbortController(), again: false};
    wanted.updated = new Map(stale.map((id) => [id, board.byId.get(id).updated]));
    const size = !wanted.range ? LOAD_CHUNK : state.x === "time" ? 1 : LOAD_ZOOM_CHUNK;
    const batches = [];
    for (let i = 0; i < stale.length; i += size)
        batches.push(stale.slice(i, i + size));
    try {
        if (isLive)
            await sleep(Math.max(0, chart.loadedAt + LOAD_LIVE_PAUSE_MS - performance.now()));
        if (!loading.abort.signal.aborted)
            await Promise.all(batches.map((batch) => loadBatch(chart, batch, wanted, loading.abort.signal)
                .then(() => show(chart))));
        chart.error = "";
    } catch (error) {
        if (!loading.abort.signal.aborted)
            chart.error = error.message;
    }
    if (chart.loading !== loading)
        return;
    chart.loading = null;
    chart.loadedKey = wanted.key;
    chart.loadedAt = performance.now();
    show(chart);
    if (loading.again)
        loadChart(chart, show);
}

// Frees curves, so that memory does not grow with every run that was ever drawn.
function loadForget(chart) {
    const shown = new Set(boardShown());
    for (const id of chart.loads.keys())
        if (!shown.has(id) && chart.loads.size > 2 * shown.size + 20)
            chart.loads.delete(id);
}

// ---- the source ----

// Source of the data: the server's API, or, in an exported page, the JSON inside the page. Both answer the same four
// queries: runs, run, curves, log.

async function apiGet(path, parameters, signal) {
    const query = new URLSearchParams(parameters).toString();
    const answer = await fetch(path + (query ? "?" + query : ""), {signal, headers: {Accept: "application/json"}});
    let body = null;
    try {
        body = await answer.json();
    } catch {
        throw new Error(`the board answered ${answer.status} with something that is not JSON`);
    }
    if (!answer.ok)
        throw new Error(body && typeof body.error === "string" ? body.error : `the board answered ${answer.status}`);
    return body;
}

function apiServer() {
    return {
        isExport: false,
        runs: (after, signal) => apiGet("api/runs", after === null ? [] : [["after", after]], signal),
        run: (id, signal) => apiGet("api/run", [["id", id]], signal),
        log: (id, lines, signal) => apiGet("api/log", [["id", id], ["lines", lines]], signal),
        curves: (query, signal) => apiGet("api/curves", [
            ...query.ids.map((id) => ["id", id]), ...query.tags.map((tag) => ["tag", tag]), ["x", query.x],
            ...(query.from === null ? [] : [["from", query.from], ["to", query.to]]), ["points", query.points],
        ], signal),
    };
}

// Points of an exported curve inside a range, with one neighbour on each side, so that lines reach the edges.
function pointsBetween(points, from, to) {
    let begin = points.findIndex((point) => point[0] >= from);
    if (begin < 0)
        return points.slice(-1);
    let end = begin;
    while (end < points.length && points[end][0] <= to)
        end++;
    return points.slice(Math.max(0, begin - 1), end + 1);
}

function apiExport(data) {
    const all = Array.isArray(data.curves) ? data.curves : data.curves?.curves ?? [];
    const curves = new Map(all.map((curve) => [`${curve.id} ${curve.x} ${curve.tag}`, curve]));
    return {
        isExport: true,
        runs: async () => data.runs,
        run: async (id) => {
            if (!data.run?.[id])
                throw new Error("this run is not part of the exported page");
            return data.run[id];
        },
        log: async (id, lines) => {
            const log = data.log?.[id] ?? {path: null, lines: []};
            return {path: log.path, lines: log.lines.slice(-lines)};
        },
        curves: async (query) => {
            const found = [];
            for (const tag of query.tags)
                for (const id of query.ids) {
                    const curve = curves.get(`${id} ${query.x} ${tag}`);
                    if (curve)
                        found.push(query.from === null ? curve
                            : {...curve, points: pointsBetween(curve.points, query.from, query.to)});
                }
            return {curves: found};
        },
    };
}

function apiOpen() {
    const element = byId("data");
    return element ? apiExport(JSON.parse(element.textContent)) : apiServer();
}

// Follows the list of runs: calls onRuns with every newer answer, and onLost(message) while there is none. The server
// holds a request until something has changed, so nothing is polled and nothing missed.
async function apiFollow(api, onRuns, onLost) {
    let revision = null, pause = 1000;
    for (;;) {
        try {
            const answer = await api.runs(revision);
            pause = 1000;
            const isNew = revision !== answer.revision;
            revision = answer.revision;
            onRuns(answer);
            if (api.isExport)
                return;
            // A server that answers at once without a change must not be queried in a tight loop.
            await sleep(isNew ? 250 : 1000);
        } catch (error) {
            onLost(error.message);
            await sleep(pause);
            pause = Math.min(pause * 2, 15000);
            revision = null;
        }
    }
}

function sleep(ms) {
    return new Promise((resolve) => setTimeout(resolve, ms));
}
