// Building blocks of the page: elements, icons, announcements, this browser's preferences. Text from files enters the
// page as text nodes and attributes only, never as HTML.
"use strict";

// el("a", {href: "#x", class: "y", onclick: f, text: "z"}, ...children): an element. Attributes that are null,
// undefined or false are left out; children may be nodes, strings or nothing.
function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (value === null || value === undefined || value === false)
            continue;
        if (name.startsWith("on"))
            node.addEventListener(name.slice(2), value);
        else if (name === "text")
            node.textContent = value;
        else
            node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
    return node;
}

function byId(id) {
    return document.getElementById(id);
}

// Shapes on a grid of 16 x 16, drawn with lines of the text's colour.
function iconPath(name) {
    return {
        live: "M8 4.5a3.5 3.5 0 1 0 0 7a3.5 3.5 0 1 0 0-7z",
        finished: "M3.5 8.5l3 3l6-7",
        stopped: "M4.5 4.5h7v7h-7z",
        failed: "M4 4l8 8M12 4l-8 8",
        lost: "M8 3.5a4.5 4.5 0 1 0 0 9M8 3.5a4.5 4.5 0 0 1 3.2 1.3M12.4 7.2a4.5 4.5 0 0 1-.4 2.9",
        menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
        light: "M8 5a3 3 0 1 0 0 6a3 3 0 1 0 0-6zM8 1.5v1.6M8 12.9v1.6M1.5 8h1.6M12.9 8h1.6M3.4 3.4l1.1 1.1"
            + "M11.5 11.5l1.1 1.1M3.4 12.6l1.1-1.1M11.5 4.5l1.1-1.1",
        dark: "M12.8 9.6A5.4 5.4 0 0 1 6.4 3.2a5.4 5.4 0 1 0 6.4 6.4z",
        auto: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11M9.5 5h2.6M9.5 8h4M9.5 11h2.6",
        table: "M2.5 3.5h11v9h-11zM2.5 6.5h11M2.5 9.5h11M6.5 3.5v9",
        download: "M8 2.5v8M4.5 7.5l3.5 3.5l3.5-3.5M2.5 13.5h11",
        enlarge: "M9.5 2.5h4v4M13.5 2.5l-4.5 4.5M6.5 13.5h-4v-4M2.5 13.5l4.5-4.5",
        shrink: "M13.5 6.5h-4v-4M9.5 6.5l4-4M2.5 9.5h4v4M6.5 9.5l-4 4",
        close: "M4 4l8 8M12 4l-8 8",
    }[name];
}

function icon(name) {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", "0 0 16 16");
    svg.setAttribute("class", "icon icon-" + name);
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", iconPath(name));
    svg.append(path);
    return svg;
}

function iconButton(name, label, onclick) {
    return el("button", {type: "button", class: "icon-button", "aria-label": label, title: label, onclick}, icon(name));
}

// A labelled checkbox in the style of a toolbar switch.
function checkbox(label, checked, onchange, title) {
    const input = el("input", {type: "checkbox", onchange: () => onchange(input.checked)});
    input.checked = checked;
    return el("label", {class: "check", title}, input, el("span", {text: label}));
}

function select(label, options, value, onchange) {
    const list = el("select", {"aria-label": label, onchange: () => onchange(list.value)},
        ...options.map(([key, text]) => el("option", {value: key, text})));
    list.value = value;
    return list;
}

// A table with one head row; cells are strings or nodes. The first cell of each row is its header.
function dataTable(caption, head, rows, attributes) {
    const cell = (content, index) =>
        index === 0 ? el("th", {scope: "row"}, content ?? "") : el("td", {}, content ?? "");
    return el("table", attributes || {},
        el("caption", {class: "unseen", text: caption}),
        el("thead", {}, el("tr", {}, ...head.map((text) => el("th", {scope: "col", text})))),
        el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell)))));
}

// Announced by screen readers. The region is emptied first, or a repeated text would be announced only once.
function announce(text) {
    const region = byId("announcements");
    region.textContent = "";
    requestAnimationFrame(() => { region.textContent = text; });
}

// Preferences are stored in this browser; a page without storage works without them.
function preference(key, fallback) {
    try {
        return JSON.parse(localStorage.getItem("bevatron." + key)) ?? fallback;
    } catch {
        return fallback;
    }
}

function preferenceSet(key, value) {
    try {
        localStorage.setItem("bevatron." + key, JSON.stringify(value));
    } catch {
        // Private windows and exports opened as files may refuse; the choice then lasts as long as the page.
    }
}

// Calls the function once, `delay` ms after the last call of the returned one.
function debounce(delay, callback) {
    let timer = 0;
    return (...values) => {
        clearTimeout(timer);
        timer = setTimeout(() => callback(...values), delay);
    };
}

// ---- text ----

// Numbers, bytes, times and durations as text. Missing values are a dash.

const MISSING = "–";

function formatNumber(value, digits = 5) {
    if (value === null || value === undefined || Number.isNaN(value))
        return MISSING;
    if (!Number.isFinite(value))
        return value > 0 ? "inf" : "-inf";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e9))
        return value.toExponential(Math.min(digits - 1, 3)).replace(/\.?0+e/, "e").replace("e+", "e");
    if (size >= 1e5)
        return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(digits)));
}

function formatCount(value) {
    return value === null || value === undefined ? MISSING : Math.round(value).toLocaleString("en");
}

// 1 rank, 2 ranks
function formatPlural(count, noun) {
    return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

// 1234567 -> "1.23M": for tokens and steps on an axis.
function formatShort(value, digits = 3) {
    const size = Math.abs(value);
    if (size >= 1e15)
        return formatNumber(value, digits);
    for (const [unit, letter] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]])
        if (size >= unit * (unit === 1e3 ? 10 : 1))
            return Number((value / unit).toPrecision(digits)) + letter;
    return String(Number(value.toPrecision(Math.max(digits, 4))));
}

function bytesUnit(value) {
    const size = Math.abs(value);
    for (const [scale, suffix] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
        if (size >= scale)
            return {scale, suffix};
    return {scale: 1, suffix: "B"};
}

function formatBytes(value) {
    if (value === null || value === undefined || Number.isNaN(value))
        return MISSING;
    const {scale, suffix} = bytesUnit(value);
    return Number((value / scale).toPrecision(4)) + " " + suffix;
}

function formatDuration(seconds, units = 2) {
    if (seconds === null || seconds === undefined || !Number.isFinite(seconds))
        return MISSING;
    const sign = seconds < 0 ? "-" : "";
    const total = Math.abs(seconds);
    if (total < 10)
        return sign + Number(total.toFixed(1)) + " s";
    const whole = Math.round(total);
    const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"],
        [Math.floor(whole / 60) % 60, "min"], [whole % 60, "s"]];
    const first = parts.findIndex(([count]) => count > 0);
    const used = parts.slice(first, first + units).filter(([count]) => count > 0);
    return sign + used.map((part) => part.join(" ")).join(" ");
}

function formatAge(time, now, units = 2) {
    if (!time)
        return MISSING;
    const seconds = Math.max(0, now - time);
    return seconds < 5 ? "now" : formatDuration(seconds, units) + " ago";
}

function pad2(value) {
    return String(value).padStart(2, "0");
}

// Local time as 2026-11-16 19:21:05: unambiguous, and it sorts.
function formatClock(seconds) {
    if (!seconds || !Number.isFinite(seconds))
        return MISSING;
    const date = new Date(seconds * 1000);
    return `${date.getFullYear()}-${pad2(date.getMonth() + 1)}-${pad2(date.getDate())} `
        + `${pad2(date.getHours())}:${pad2(date.getMinutes())}:${pad2(date.getSeconds())}`;
}

// The value of a curve, in the unit of its tag.
function formatValue(tag, value) {
    return tagIsBytes(tag) ? formatBytes(value) : formatNumber(value);
}

function formatX(mode, value) {
    if (mode === "time")
        return formatDuration(value);
    if (mode === "clock")
        return formatClock(value);
    if (mode === "step")
        return "step " + formatCount(value);
    return mode === "tokens" ? formatShort(value, 4) + " tokens" : formatNumber(value, 4) + " FLOPs";
}
