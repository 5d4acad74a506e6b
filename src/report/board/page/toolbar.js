// The toolbar above the charts, and on small screens the legend.
"use strict";

function toolbarBuild() {
    const smooth = el("input", {type: "range", id: "smooth", min: "0", max: "1", step: "0.01",
        "aria-label": "Smoothing", oninput: () => stateChange({smooth: Number(smooth.value)})});
    const tags = el("input", {type: "search", id: "tags", placeholder: "Filter curves",
        "aria-label": "Filter curves by name", oninput: () => stateChange({tags: tags.value})});
    return el("div", {class: "toolbar", role: "group", "aria-label": "How curves are drawn", id: "toolbar"},
        el("label", {class: "field"}, el("span", {text: "x"}),
            select("X axis", xModes(), state.x, (x) => stateChange({x, from: null, to: null}))),
        el("label", {class: "field"}, el("span", {text: "Smoothing"}), smooth, el("output", {id: "smooth-value"})),
        checkbox("Log y", state.logAll, (logAll) => stateChange({logAll, logFlip: []}), "Logarithmic y axes (l)"),
        checkbox("Log x", state.logX, (logX) => stateChange({logX})),
        checkbox("Clip outliers", state.clip, (clip) => stateChange({clip}),
            "Fit the y axis to the middle 96 % of the values (o)"),
        checkbox("Marks", state.marks, (marks) => stateChange({marks}), "Checkpoints, restarts, spikes (m)"),
        el("button", {type: "button", id: "zoom-reset", class: "text-button", text: "Reset zoom", title: "Show all (0)",
            onclick: curvesReset}),
        tags);
}

function toolbarUpdate() {
    const toolbar = byId("toolbar");
    const [logAll, logX, clip, marks] = toolbar.querySelectorAll("input[type=checkbox]");
    toolbar.querySelector("select").value = state.x;
    logAll.checked = state.logAll;
    logAll.indeterminate = state.logFlip.length > 0;
    logX.checked = state.logX;
    clip.checked = state.clip;
    marks.checked = state.marks;
    const smooth = byId("smooth");
    if (Number(smooth.value) !== state.smooth)
        smooth.value = state.smooth;
    const share = Number((smoothingHalfLife(state.smooth, 100)).toPrecision(2));
    byId("smooth-value").textContent = state.smooth > 0 ? share + " %" : "off";
    smooth.setAttribute("aria-valuetext", state.smooth > 0 ? `half-life ${share} % of the visible range` : "off");
    const tags = byId("tags");
    if (tags.value !== state.tags)
        tags.value = state.tags;
    byId("zoom-reset").hidden = state.from === null;
}

// Chips of the drawn runs, for screens without the list of runs beside the charts.
function legendUpdate() {
    const shown = boardShown();
    const key = JSON.stringify([themeIsDark(), shown.map((id) => [id, board.byId.get(id).name, colourOf(id)])]);
    const legend = byId("legend");
    if (legend.dataset.key === key)
        return;
    legend.dataset.key = key;
    const chip = (id) => stateAnchor({view: "run", run: id}, {class: "chip"}, swatch(id), " ",
        el("span", {text: board.byId.get(id).name}));
    legend.replaceChildren(...shown.slice(0, 12).map((id) => el("li", {}, chip(id))),
        ...(shown.length > 12 ? [el("li", {class: "muted", text: `and ${shown.length - 12} more`})] : []));
}

// Facts about tags: their order on the page, their group, their unit.
// A tag belongs to the first group whose pattern matches. Patterns know our names and Megatron's.
function tagGroups() {
    return [
        ["By samples", / vs samples$/i],
        ["Validation", /validation|valid|\btest\b|eval|ppl|perplexity|accuracy/i],
        ["Experts", /expert|router|balanc|aux|z.loss|moe|mtp/i],
        ["System", /memory|\bmem\b|bytes|alloc|\bcpu\b|\bgpu\b|data.wait/i],
        ["Throughput", /tokens.per.sec|throughput|tflop|teraflop|mfu|elapsed|iteration.time|samples.per|\bms\b|time/i],
        ["Loss", /loss(?!.scale)/i],
        ["Optimizer", /learning.rate|\blr\b|grad|norm|scale|zeros|skipped|nan|batch.size|momentum|weight.decay/i],
    ];
}

function tagGroup(tag) {
    const found = tagGroups().find(([, pattern]) => pattern.test(tag));
    if (found)
        return found[0];
    const slash = tag.indexOf("/");
    return slash > 0 ? tag.slice(0, slash) : "Other";
}

function tagGroupRank(group) {
    const rank = ["Loss", "Validation", "Throughput", "Optimizer", "System", "Experts"].indexOf(group);
    return rank >= 0 ? rank : group === "By samples" ? 200 : 100;
}

// Tags by group, [[group, [tag, …]], …]; the most popular ones first.
function tagsGrouped(tags) {
    const groups = new Map();
    for (const tag of tags)
        groups.set(tagGroup(tag), [...(groups.get(tagGroup(tag)) ?? []), tag]);
    const first = ["lm loss", "lm loss validation", "tokens per second", "learning rate", "grad norm",
        "expert balance", "expert-balance", "idle experts", "idle-experts"];
    const rank = (tag) => (first.includes(tag) ? first.indexOf(tag) : first.length);
    for (const list of groups.values())
        list.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, "en", {numeric: true}));
    return [...groups].sort((a, b) => tagGroupRank(a[0]) - tagGroupRank(b[0]) || a[0].localeCompare(b[0]));
}

// The tags of the validation loss that is drawn with a training loss: our name, Megatron's and those of others.
function tagsBeside(tag, ids) {
    if (tagGroup(tag) !== "Loss")
        return [];
    const names = [tag + " validation",
        ...["eval", "val", "validation"].map((set) => tag.replace(/^train\//, set + "/"))];
    return names.filter((name) => name !== tag && ids.some((id) => board.byId.get(id).tags.includes(name)));
}

// The planned speed of a run is drawn with the measured one, not in a chart of its own.
function tagIsPlanned(tag) {
    return tag === "planned tokens per second";
}

function tagPlanned(tag, run) {
    return tag === "tokens per second" ? run.planned_tokens_per_second ?? null : null;
}

function tagIsBytes(tag) {
    return /^memory$|memory.bytes|mem.*bytes|allocated.bytes|bytes$/i.test(tag);
}
