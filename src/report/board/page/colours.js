// The colours of runs and of the drawn parts of the page. Eight hues that people with any colour vision tell apart, by
// lightness too; more than eight runs differ by dashes as well.
"use strict";

function colourTable(isDark) {
    return isDark
        ? ["#58a6f2", "#ff8c4c", "#33c79d", "#e793cb", "#e3b72e", "#a8d8ff", "#aab4bf", "#cf8f74"]
        : ["#0069b4", "#d55e00", "#00866b", "#b5529a", "#b98300", "#2c9ad6", "#59616b", "#84381a"];
}

function colourDashes() {
    return [[], [6, 3], [2, 2.5]];
}

// A run keeps its slot while it is drawn, and gets it again later if no other drawn run has taken it: the first slot
// depends on the run's id and is remembered, so a run has the same colour in all views.
const colourSlots = new Map(Object.entries(preference("colours", {})));

// Hues first, then dashes; with more runs than slots, some share one.
function colourFreeSlot(id, taken) {
    const first = (parseInt(id.slice(0, 8), 16) || 0) % 8;
    for (let dash = 0; dash < colourDashes().length; dash++)
        for (let step = 0; step < 8; step++)
            if (!taken.has(dash * 8 + (first + step) % 8))
                return dash * 8 + (first + step) % 8;
    return first;
}

function coloursAssign(ids) {
    const taken = new Set();
    const waiting = [];
    for (const id of ids) {
        const slot = colourSlots.get(id);
        if (slot === undefined || taken.has(slot))
            waiting.push(id);
        else
            taken.add(slot);
    }
    for (const id of waiting) {
        const slot = colourFreeSlot(id, taken);
        taken.add(slot);
        colourSlots.set(id, slot);
    }
    if (waiting.length > 0)
        preferenceSet("colours", Object.fromEntries([...colourSlots].slice(-500)));
}

function colourOf(id) {
    return colourTable(themeIsDark())[(colourSlots.get(id) ?? 0) % 8];
}

function dashOf(id) {
    return colourDashes()[Math.floor((colourSlots.get(id) ?? 0) / 8)];
}

// A short piece of a line.
function swatchOf({colour, dash}) {
    const mark = el("span", {class: "swatch" + (dash.length ? " swatch-dash" : ""), "aria-hidden": "true"});
    mark.style.color = colour;
    return mark;
}

function swatch(id) {
    return swatchOf({colour: colourOf(id), dash: dashOf(id)});
}

function themeIsDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// The colours of axes and marks, from the style sheet.
function themeColours() {
    const probe = byId("tooltip");
    const read = (name) => {
        probe.style.color = `var(${name})`;
        return getComputedStyle(probe).color;
    };
    const colours = {ink: read("--ink"), muted: read("--muted"), grid: read("--grid"), surface: read("--surface"),
        accent: read("--accent"), warn: read("--warn"), dark: themeIsDark()};
    probe.style.color = "";
    return colours;
}

// Order of the themes: the system's, light, dark.
function themeSet(theme) {
    if (theme === "auto")
        delete document.documentElement.dataset.theme;
    else
        document.documentElement.dataset.theme = theme;
    preferenceSet("theme", theme);
    const button = byId("theme");
    const label = {auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark"}[theme];
    button.replaceChildren(icon(theme));
    button.setAttribute("aria-label", label);
    button.title = label + " (d)";
}

function themeNext() {
    const order = ["auto", "light", "dark"];
    const now = document.documentElement.dataset.theme ?? "auto";
    themeSet(order[(order.indexOf(now) + 1) % 3]);
    announce(byId("theme").getAttribute("aria-label"));
}
