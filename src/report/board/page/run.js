// The view "run": everything about one run that is not a curve.
"use strict";

function runStart() {
    board.listeners.push((changed) => {
        const run = boardCurrent();
        if (state.view === "run" && run && (changed.has(run.id) || !byId("view-run").firstChild))
            runUpdate();
    });
    stateListeners.push((keys) => {
        if (state.view === "run" && (keys.has("view") || keys.has("run") || keys.has("shown")))
            runUpdate();
    });
    setInterval(() => {
        if (state.view === "run" && boardCurrent()?.state === "live" && !document.hidden)
            runLog(boardCurrent());
    }, 5000);
}

// Fills a part only if it would look different: what somebody reads, selects or has scrolled to stays as it is.
function fillPart(parent, name, key, build) {
    let part = parent.querySelector(`:scope > [data-name="${name}"]`);
    if (!part)
        parent.append(part = el("section", {class: "panel", "data-name": name}));
    const text = JSON.stringify(key ?? null);
    if (part.dataset.key !== text) {
        part.dataset.key = text;
        const children = build();
        part.replaceChildren(...children);
        part.hidden = children.length === 0;
    }
}

// Another run is another page: nothing of the one before stays.
function viewOf(name, id) {
    const view = byId("view-" + name);
    if (view.dataset.run !== id) {
        view.dataset.run = id;
        view.replaceChildren();
    }
    return view;
}

function noRuns() {
    return el("p", {class: "empty muted", text: board.isLoaded ? "No runs yet." : "Reading runs…"});
}

function runUpdate() {
    const run = boardCurrent();
    const view = viewOf("run", run ? run.id : "");
    if (!run) {
        view.replaceChildren(noRuns());
        return;
    }
    fillPart(view, "head", [run.name, run.state, run.why], () => runHead(run));
    fillPart(view, "note", run.note, () => (run.note ? [el("p", {class: "note", dir: "auto", text: run.note})] : []));
    fillPart(view, "facts", [run, Math.floor(boardNow() / 20)], () => [runFacts(run)]);
    const {value, error} = boardDetails(run.id, runUpdate);
    if (!value) {
        fillPart(view, "wait", error, () => [el("p", {class: "muted", text: error || "Reading…"})]);
        return;
    }
    fillPart(view, "wait", "", () => []);
    if (!view.querySelector(':scope > [data-name="log"]'))
        view.append(el("section", {class: "panel", "data-name": "log", hidden: true}));
    fillPart(view, "samples", value.samples, () => runSamples(value.samples));
    fillPart(view, "events", [value.events, value.starts], () => runEvents(value));
    fillPart(view, "config", value.config, () => runConfig(value.config));
    const hasNote = Boolean(run.title || run.note);
    fillPart(view, "files", [value.files, value.bad_lines, hasNote], () => runFiles(value, hasNote));
    runLog(run);
}

function runHead(run) {
    return [el("h2", {}, run.name, " ", stateBadge(run.state)),
        ...(run.why ? [el("p", {class: run.state === "failed" ? "bad" : "muted", text: run.why})] : []),
        el("p", {class: "links"},
            stateAnchor({view: "curves", shown: [run.id], from: null, to: null}, {text: "Curves of this run"}),
            stateAnchor({view: "ranks", run: run.id}, {text: "Ranks"}),
            stateAnchor({view: "compare"}, {text: "Compare drawn runs"}))];
}

// What the planner expects, and by how much the run differs from it.
function runPlanned(run) {
    const share = 100 * (run.tokens_per_second / run.planned_tokens_per_second - 1);
    const sign = share < 0 ? "−" : "+";
    return formatCount(run.planned_tokens_per_second) +
        (Number.isFinite(share) ? ` (${sign}${Math.abs(share).toFixed(1)} %)` : "");
}

function runFacts(run) {
    const steps = run.train_iters > 0 ? `${formatCount(run.iteration)} of ${formatCount(run.train_iters)}`
        : formatCount(run.iteration);
    const updated = `${formatClock(run.updated)} (${formatAge(run.updated, boardNow())})`;
    const rows = [["Iteration", steps], ["Loss", formatNumber(run.loss)],
        ["Validation loss", formatNumber(run.validation)],
        ["Tokens per second", run.tokens_per_second ? formatCount(run.tokens_per_second) : MISSING],
        ...(run.expert_balance ? [["Expert balance", formatNumber(run.expert_balance)]] : []),
        ...(run.planned_tokens_per_second ? [["Planned", runPlanned(run)]] : []),
        ...(run.mfu ? [["MFU", `${(100 * run.mfu).toFixed(1)} %`]] : []),
        ["Time left", run.state === "live" ? formatDuration(run.eta_seconds) : MISSING],
        ...(run.title ? [["Folder", run.path]] : []),
        ["Started", formatClock(run.started)], ["Last line", updated],
        ["Host", run.host ?? MISSING], ["Job", run.job ?? MISSING], ["Ranks", formatCount(run.ranks)]];
    return el("dl", {class: "facts"}, ...rows.map(([name, value]) => el("div", {}, el("dt", {text: name}),
        el("dd", {text: value}))));
}

// Texts that the model wrote for the same prompts, newest first.
function runSamples(samples) {
    if (!samples || samples.length === 0)
        return [];
    const prompts = [...new Set(samples.map((sample) => sample.prompt))];
    const list = el("ol", {class: "samples"});
    const show = (prompt) => list.replaceChildren(...samples.filter((sample) => sample.prompt === prompt).reverse()
        .map((sample) => el("li", {},
            el("p", {class: "muted", text: `iteration ${formatCount(sample.iteration)}, ${formatClock(sample.time)}`}),
            el("p", {class: "sample", dir: "auto"}, el("b", {text: sample.prompt}), el("span", {text: sample.text})))));
    show(prompts[0]);
    const title = el("h3", {text: "Generated samples"});
    if (prompts.length === 1)
        return [title, list];
    const chooser = select("Prompt", prompts.map((prompt) => [prompt, prompt.slice(0, 80)]), prompts[0], show);
    return [el("div", {class: "panel-head"}, title, chooser), list];
}

function runEvents(details) {
    const events = boardEvents(details).reverse();
    const starts = [...details.starts].reverse();
    const children = [];
    if (events.length > 0)
        children.push(el("h3", {text: "Events"}), tableBox("Events", dataTable("Events, newest first",
            ["Time", "Iteration", "Event", "Text"], events.slice(0, 500).map((event) =>
                [formatClock(event.time), formatCount(event.iteration), event.event, event.text ?? ""]))));
    if (starts.length > 0)
        children.push(el("h3", {text: "Starts"}), tableBox("Starts", dataTable("Starts, newest first",
            ["Time", "From iteration", "Host", "Job", "Process", "Version"],
            starts.map((start) => [formatClock(start.time), formatCount(start.iteration), start.host ?? MISSING,
                String(start.job ?? MISSING), String(start.pid ?? MISSING), start.version ?? MISSING]))));
    return children;
}

// A box that scrolls by itself, also with the keyboard.
function tableBox(label, table) {
    return el("div", {class: "table-box", tabindex: "0", role: "region", "aria-label": label}, table);
}

// Settings as [[name, text], …]: nested objects have dotted names.
function configFlat(config, prefix = "") {
    return Object.entries(config ?? {}).flatMap(([key, value]) => {
        const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
        return isObject ? configFlat(value, prefix + key + ".")
            : [[prefix + key, typeof value === "string" ? value : JSON.stringify(value)]];
    });
}

function runConfig(config) {
    const rows = configFlat(config);
    if (rows.length === 0)
        return [];
    const body = el("div", {});
    const filter = el("input", {type: "search", placeholder: "Filter settings", "aria-label": "Filter settings",
        oninput: () => fill()});
    const fill = () => {
        const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
        const found = rows.filter((row) => words.every((word) => row.join(" ").toLowerCase().includes(word)));
        body.replaceChildren(tableBox("Configuration",
            dataTable("Configuration", ["Setting", "Value"], found, {class: "config"})));
    };
    fill();
    return [el("div", {class: "panel-head"}, el("h3", {}, "Configuration"), filter), body];
}

function runFiles(details, hasNote) {
    const count = formatCount(details.bad_lines);
    const bad = details.bad_lines > 0 ? ` ${count} lines could not be read and were skipped.` : "";
    const note = hasNote ? "" : " A file note.txt beside it names this run in its first line; the rest are notes.";
    return [el("p", {class: "muted", text: `Read from ${(details.files ?? []).join(", ")}.${bad}${note}`})];
}

const runLogAsked = {id: "", at: 0};

// The log is asked for every few seconds at most, however often the run writes.
async function runLog(run) {
    let log;
    const isThere = byId("view-run").querySelector(':scope > [data-name="log"]')?.dataset.key;
    if (isThere && runLogAsked.id === run.id && performance.now() - runLogAsked.at < 3000)
        return;
    Object.assign(runLogAsked, {id: run.id, at: performance.now()});
    try {
        log = await board.api.log(run.id, 200);
    } catch (error) {
        log = {path: null, lines: [], error: error.message};
    }
    const view = byId("view-run");
    if (view.dataset.run !== run.id)
        return;
    fillPart(view, "log", log, () => {
        if (!log.path)
            return log.error ? [el("h3", {text: "Log"}), el("p", {class: "bad", text: log.error})] : [];
        const text = el("pre", {class: "log", tabindex: "0", role: "region", "aria-label": "Last lines of the log",
            text: log.lines.join("\n")});
        requestAnimationFrame(() => { text.scrollTop = text.scrollHeight; });
        return [el("h3", {}, "Log ", el("span", {class: "muted", text: log.path})), text];
    });
}
