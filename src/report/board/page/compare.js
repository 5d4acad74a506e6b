// The view "compare": the settings of the drawn runs side by side, by default only those that differ.
"use strict";

const COMPARE_MOST = 12;

function compareStart() {
    const update = () => state.view === "compare" && compareUpdate();
    board.listeners.push(update);
    stateListeners.push((keys) => ["view", "shown", "same"].some((key) => keys.has(key)) && update());
}

function compareUpdate() {
    const view = viewOf("compare", "all");
    const ids = boardShown().slice(0, COMPARE_MOST);
    const entries = ids.map((id) => boardDetails(id, () => state.view === "compare" && compareUpdate()));
    const runs = ids.map((id) => board.byId.get(id));
    fillPart(view, "head", [ids.length, boardShown().length, state.same], () => compareHead(ids));
    fillPart(view, "table", [runs.map((run) => [run.id, run.name, run.state, run.iteration, run.loss, run.validation,
        run.tokens_per_second, colourOf(run.id)]), entries.map((entry) => [entry.updated !== null, entry.error,
        entry.value?.config]), state.same], () => (ids.length > 0 ? [compareTable(runs, entries)] : []));
}

function compareHead(ids) {
    const left = boardShown().length - ids.length;
    let text = "Draw two or more runs to compare their settings.";
    if (ids.length > 1)
        text = `Settings of ${ids.length} drawn runs.`;
    if (left > 0)
        text += ` ${left} more are drawn: choose fewer to compare those.`;
    return [el("h2", {text: "Compare"}), el("p", {class: "muted", text}),
        checkbox("Show settings that are equal too", state.same, (same) => stateChange({same}))];
}

// One row per setting: name, then each run's text, or null where the run has no such setting.
function compareRows(entries) {
    const flat = entries.map((entry) => new Map(configFlat(entry.value?.config)));
    const names = [...new Set(flat.flatMap((settings) => [...settings.keys()]))].sort();
    return names.map((name) => ({name, texts: flat.map((settings) => settings.get(name) ?? null)}))
        .map((row) => ({...row, differs: new Set(row.texts).size > 1}));
}

function compareTable(runs, entries) {
    const isMissing = entries.some((entry) => !entry.value);
    const results = [["state", (run) => stateBadge(run.state)], ["iteration", (run) => formatCount(run.iteration)],
        ["loss", (run) => formatNumber(run.loss)], ["validation loss", (run) => formatNumber(run.validation)],
        ["tokens per second", (run) => formatCount(run.tokens_per_second)]];
    const rows = compareRows(entries).filter((row) => state.same || row.differs);
    const head = el("tr", {}, el("th", {scope: "col", text: "Setting"}), ...runs.map((run) => el("th", {scope: "col"},
        swatch(run.id), " ", stateAnchor({view: "run", run: run.id}, {text: run.name}))));
    const body = rows.map((row) => el("tr", {class: row.differs && state.same ? "differs" : null},
        el("th", {scope: "row", text: row.name}),
        ...row.texts.map((text) => el("td", {class: text === null ? "muted" : null, text: text ?? "not set"}))));
    const note = isMissing ? "Reading…" : rows.length === 0 ? "No setting differs." : "";
    return tableBox("Settings of the drawn runs", el("table", {class: "config compare"},
        el("caption", {class: "unseen", text: "Results and settings of the drawn runs"}),
        el("thead", {}, head),
        el("tbody", {class: "results"}, ...results.map(([name, text]) => el("tr", {},
            el("th", {scope: "row", text: name}), ...runs.map((run) => el("td", {}, text(run)))))),
        el("tbody", {}, ...body, note
            && el("tr", {}, el("td", {class: "muted", colspan: String(runs.length + 1), text: note})))));
}
