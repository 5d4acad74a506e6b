// The state of the page that a link shares: it is stored in the address after '#'. Parts subscribe to its changes; none
// keeps a copy.
"use strict";

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
