// The page's data about runs, and the set of drawn runs. Other parts subscribe to changes and query it.
"use strict";

const BOARD_CHOSEN = 8;       // runs drawn before the user has chosen any
const BOARD_MARKED_RUNS = 12; // with more drawn runs, marks would cover each other

const board = {
    api: null,
    runs: [],             // from /api/runs
    byId: new Map(),
    isLoaded: false,
    skew: 0,              // the server's clock minus this machine's, in seconds
    scanning: null,
    lost: "",             // reason for a lost connection; "" if connected
    details: new Map(),   // id -> {updated, fetched, value, error, waiting}
    origins: new Map(),   // id -> time of the run's first start
    listeners: [],        // called with the set of ids that changed
};

function boardNow() {
    return board.api.isExport ? board.exported : Date.now() / 1000 + board.skew;
}

function boardFingerprint(run) {
    return [run.updated, run.iteration, run.state, run.tags.length, run.name, run.note].join(" ");
}

// Stores an answer of /api/runs and notifies listeners of changed runs.
function boardUpdate(answer) {
    const changed = new Set();
    const isFirst = !board.isLoaded;
    const before = board.byId;
    board.runs = answer.runs.map((run) => ({...run, name: run.title ?? run.name, path: run.name}));
    board.byId = new Map(board.runs.map((run) => [run.id, run]));
    board.skew = answer.now - Date.now() / 1000;
    board.exported = answer.now;
    board.scanning = answer.scanning;
    board.logdir = answer.logdir;
    board.isLoaded = true;
    board.lost = "";
    for (const run of board.runs) {
        const old = before.get(run.id);
        if (!old || boardFingerprint(old) !== boardFingerprint(run))
            changed.add(run.id);
        if (!isFirst && (!old || old.state !== run.state))
            announce(old ? `${run.name}: ${run.state}${run.why ? ", " + run.why : ""}` : `new run ${run.name}`);
    }
    for (const id of before.keys())
        if (!board.byId.has(id))
            changed.add(id);
    boardNotify(changed);
}

function boardNotify(changed) {
    coloursAssign(boardShown());
    for (const listener of board.listeners)
        listener(changed);
}

// Live runs first, then by start, which does not change: a list sorted by the last line would never be still.
function boardCompare(a, b) {
    return (b.state === "live") - (a.state === "live") || (b.started ?? 0) - (a.started ?? 0)
        || a.name.localeCompare(b.name);
}

// The ids of the drawn runs, in drawing order.
function boardShown() {
    if (state.shown !== null)
        return state.shown.filter((id) => board.byId.has(id));
    return [...board.runs].sort(boardCompare).slice(0, BOARD_CHOSEN).map((run) => run.id);
}

function boardShow(ids) {
    stateChange({shown: ids});
}

function boardToggle(id) {
    const shown = boardShown();
    boardShow(shown.includes(id) ? shown.filter((other) => other !== id) : [...shown, id]);
}

// The run of the views "run" and "ranks": the chosen one, else the first drawn one, else the newest.
function boardCurrent() {
    return board.byId.get(state.run) ?? board.byId.get(boardShown()[0])
        ?? [...board.runs].sort(boardCompare)[0] ?? null;
}

// The start of a run's clock. The list has the latest start of a run; a resumed one counts from its first, which
// boardFindOrigin requests: the last start at iteration 0, or the oldest start.
function boardOrigin(id) {
    return board.origins.get(id) ?? board.byId.get(id)?.started ?? 0;
}

async function boardFindOrigin(id) {
    if (board.origins.has(id))
        return;
    const {starts} = await board.api.run(id);
    const first = starts.filter((start) => start.iteration === 0).pop() ?? starts[0];
    board.origins.set(id, first?.time ?? boardOrigin(id));
}

// The answer of /api/run, if available. A missing or outdated answer is fetched; `then` is called when it arrives. A
// constantly changing run is queried only every few seconds.
function boardDetails(id, then) {
    const run = board.byId.get(id);
    let entry = board.details.get(id);
    if (!entry)
        board.details.set(id, entry = {updated: null, fetched: -Infinity, value: null, error: "", waiting: null});
    if (run && entry.updated !== run.updated) {
        if (entry.waiting)
            entry.waiting.push(then);
        else
            boardFetchDetails(id, entry, then);
    }
    return entry;
}

async function boardFetchDetails(id, entry, then) {
    entry.waiting = [then];
    // A first request is sent at once, also while the page is being printed.
    if (entry.fetched > -Infinity)
        await sleep(Math.max(0, entry.fetched + 3000 - performance.now()));
    const updated = board.byId.get(id)?.updated;
    try {
        entry.value = await board.api.run(id);
        entry.error = "";
        entry.updated = updated;
    } catch (error) {
        entry.error = error.message;
    }
    entry.fetched = performance.now();
    const waiting = new Set(entry.waiting);
    entry.waiting = null;
    waiting.forEach((callback) => callback?.());
}

// Events and starts of a run as one list, oldest first. The first start is too ordinary for a mark.
function boardEvents(details) {
    const starts = details.starts.slice(1).map((start) => ({...start, event: "started",
        text: `started again at iteration ${formatCount(start.iteration)}${start.host ? " on " + start.host : ""}`}));
    return [...details.events, ...starts].sort((a, b) => a.time - b.time);
}

// A map from steps to tokens or FLOPs of a run, made from two curves with the same points. null until it is loaded.
function boardStepMap(id, x, then) {
    const run = board.byId.get(id);
    const entry = board.details.get(id);
    entry.maps ??= {};
    const map = entry.maps[x];
    if (!map && run.tags.length > 0) {
        entry.maps[x] = {steps: [], values: []};
        const query = {ids: [id], tags: [run.tags[0]], from: null, to: null, points: 500};
        const answers = [board.api.curves({...query, x: "step"}), board.api.curves({...query, x})];
        Promise.all(answers).then(([steps, values]) => {
            const pick = (answer) => (answer.curves[0]?.points ?? []).map((point) => point[0]);
            const pair = {steps: pick(steps), values: pick(values)};
            if (pair.steps.length === pair.values.length)
                entry.maps[x] = pair;
            then();
        }, () => { delete entry.maps[x]; });
    }
    return map && map.steps.length > 1 ? map : null;
}

// Position of an event on the x axis; NaN if unknown.
function boardEventX(id, event, then) {
    if (state.x === "clock")
        return event.time;
    if (state.x === "time")
        return event.time - boardOrigin(id);
    if (state.x === "step")
        return event.iteration;
    const map = boardStepMap(id, state.x, then);
    if (!map)
        return NaN;
    let after = map.steps.findIndex((step) => step >= event.iteration);
    after = after < 0 ? map.steps.length - 1 : Math.max(1, after);
    const share = (event.iteration - map.steps[after - 1]) / (map.steps[after] - map.steps[after - 1] || 1);
    return map.values[after - 1] + share * (map.values[after] - map.values[after - 1]);
}

// ---- the address ----

// The state of the page that a link shares: it is stored in the address after '#'. Parts subscribe to its changes; none
// keeps a copy.

const state = stateDefaults();
const stateListeners = [];

function stateDefaults() {
    return {
        view: "curves",
        run: "",        // the run of the views "run" and "ranks"
        rank: null,     // the rank of the view "ranks"; null: all of them
        shown: null,    // ids of the drawn runs in the order chosen; null: chosen by the page
        query: "",      // filter of the list of runs
        sort: "newest",
        tags: "",       // filter of the charts
        x: "step",
        smooth: 0,      // 0 to 1
        logAll: false,  // whether charts have a logarithmic y axis; logFlip has the exceptions
        logFlip: [],
        logX: false,
        clip: false,    // leave outliers out of the y range
        marks: true,
        from: null,     // the zoom, in units of x
        to: null,
        big: "",        // the enlarged chart
        same: false,    // show settings that do not differ in the view "compare"
    };
}

function stateIsLog(tag) {
    return state.logAll !== state.logFlip.includes(tag);
}

// Names in the address are short and stable, for stored links.
function stateCodecs() {
    const text = [(value) => value, (text) => text];
    const flag = [(value) => (value ? "1" : "0"), (text) => text === "1"];
    const number = [(value) => (value === null ? "" : String(value)), numberOrNull];
    const list = [(value) => (value === null ? "" : value.join(",") || "-"),
        (text) => (text === "" ? null : text.split(",").filter((id) => /^[0-9a-z]+$/i.test(id)))];
    return {
        view: ["view", ...text], run: ["run", ...text], rank: ["rank", ...number], shown: ["runs", ...list],
        query: ["q", ...text], sort: ["sort", ...text], tags: ["tags", ...text], x: ["x", ...text],
        smooth: ["smooth", String, (text) => Math.min(1, Math.max(0, Number(text) || 0))],
        logAll: ["log", ...flag], logX: ["logx", ...flag], clip: ["clip", ...flag], marks: ["marks", ...flag],
        logFlip: ["logtag", JSON.stringify, stringList], same: ["same", ...flag],
        from: ["from", ...number], to: ["to", ...number], big: ["big", ...text],
    };
}

function numberOrNull(text) {
    return text !== "" && Number.isFinite(Number(text)) ? Number(text) : null;
}

function stringList(text) {
    try {
        const list = JSON.parse(text);
        return Array.isArray(list) ? list.filter((item) => typeof item === "string") : [];
    } catch {
        return [];
    }
}

function stateText(values) {
    const defaults = stateDefaults();
    const parameters = new URLSearchParams();
    for (const [key, [name, encode]] of Object.entries(stateCodecs()))
        if (encode(values[key]) !== encode(defaults[key]))
            parameters.set(name, encode(values[key]));
    return "#" + parameters.toString();
}

// Reads the address. Missing or malformed values get their defaults.
function stateRead() {
    const parameters = new URLSearchParams(location.hash.slice(1));
    const next = stateDefaults();
    for (const [key, [name, , decode]] of Object.entries(stateCodecs()))
        if (parameters.has(name))
            next[key] = decode(parameters.get(name));
    if (!["curves", "run", "compare", "ranks"].includes(next.view))
        next.view = "curves";
    if (!xModes().some(([mode]) => mode === next.x))
        next.x = "step";
    if (next.from === null || next.to === null || next.from >= next.to)
        next.from = next.to = null;
    Object.assign(state, next);
}

// Changes the state and the address, and notifies all listeners. Changes of the view are steps that "back" undoes;
// those of sliders and zooms replace the entry, or "back" would need hundreds of clicks.
function stateChange(changes) {
    const before = {...state};
    Object.assign(state, changes);
    const text = stateText(state);
    if (text !== stateText(before)) {
        const isStep = ["view", "run", "rank"].some((key) => state[key] !== before[key]);
        const address = text === "#" ? location.pathname + location.search : text;
        history[isStep ? "pushState" : "replaceState"](null, "", address);
    }
    stateNotify(Object.keys(changes).filter((key) => state[key] !== before[key]));
}

function stateNotify(keys) {
    for (const listener of stateListeners)
        listener(new Set(keys));
}

// A link to the page with some changes of the state. A plain click makes only those changes; the address, for a new tab
// or to copy, is that of the moment at which it is used.
function stateAnchor(changes, attributes, ...children) {
    const address = () => stateText({...state, ...changes});
    const refresh = () => { link.href = address(); };
    const follow = (event) => {
        if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
            return;
        event.preventDefault();
        stateChange(changes);
    };
    const link = el("a", {href: address(), ...attributes, onpointerdown: refresh, onfocus: refresh, onclick: follow},
        ...children);
    return link;
}

function stateStart() {
    stateRead();
    addEventListener("popstate", () => {
        stateRead();
        stateNotify(Object.keys(state));
    });
}

function xModes() {
    return [["step", "Step"], ["tokens", "Tokens"], ["time", "Time since start"], ["clock", "Clock time"],
        ["flops", "FLOPs"]];
}
