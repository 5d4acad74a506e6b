// The list of runs: state, progress, filter, order, and selection for drawing.
"use strict";

const runsRows = new Map();  // id -> {row, key}

function runsStart() {
    const filter = el("input", {type: "search", id: "filter", placeholder: "Filter runs", value: state.query,
        "aria-label": "Filter runs by name, state, host or job", title: "Filter (/)",
        oninput: () => stateChange({query: filter.value})});
    byId("runs").replaceChildren(
        el("div", {class: "runs-head"}, filter,
            el("div", {class: "runs-row"},
                el("span", {id: "runs-count", class: "muted"}),
                select("Order of runs", [["newest", "newest first"], ["name", "by name"], ["loss", "by loss"],
                    ["state", "by state"]], state.sort, (sort) => stateChange({sort}))),
            el("div", {class: "runs-row"},
                el("span", {class: "muted", text: "Draw"}),
                el("span", {},
                    runsButton("all", "Draw all listed runs",
                        () => boardShow([...new Set([...boardShown(), ...runsListed().map((run) => run.id)])])),
                    runsButton("none", "Draw no run", () => boardShow([])),
                    runsButton("newest", `Draw the ${BOARD_CHOSEN} newest runs`, () => boardShow(null))))),
        el("ul", {id: "run-list", class: "run-list"}));
    board.listeners.push(runsUpdate);
    stateListeners.push((keys) => {
        if (["query", "sort", "shown", "run", "view"].some((key) => keys.has(key))) {
            coloursAssign(boardShown());
            runsUpdate();
        }
    });
    const list = byId("run-list");
    const highlight = (event) => curvesHighlight(event.target.closest("li")?.dataset.id ?? null);
    list.addEventListener("pointerover", (event) => event.pointerType === "mouse" && highlight(event));
    list.addEventListener("pointerleave", () => curvesHighlight(null));
    list.addEventListener("focusin", highlight);
    list.addEventListener("focusout", () => curvesHighlight(null));
    setInterval(runsUpdate, 20000);
}

function runsButton(text, label, onclick) {
    return el("button", {type: "button", class: "text-button", text, title: label, "aria-label": label, onclick});
}

// Runs that pass the filter: every word must be in the name, state, host or job.
function runsListed() {
    const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (run) => [run.name, run.path, run.note, run.state, run.host, run.job, run.why, run.kind].join(" ")
        .toLowerCase();
    const compare = {
        newest: boardCompare,
        name: (a, b) => a.name.localeCompare(b.name, "en", {numeric: true}),
        loss: (a, b) => (a.loss ?? Infinity) - (b.loss ?? Infinity),
        state: (a, b) => a.state.localeCompare(b.state) || boardCompare(a, b),
    }[state.sort] ?? boardCompare;
    return board.runs.filter((run) => words.every((word) => text(run).includes(word))).sort(compare);
}

function runsUpdate() {
    if (!board.isLoaded)
        return;
    const listed = runsListed();
    const shown = new Set(boardShown());
    const live = board.runs.filter((run) => run.state === "live").length;
    byId("runs-count").textContent = (listed.length === board.runs.length ? "" : `${listed.length} of `)
        + `${formatPlural(board.runs.length, "run")}, ${live} live`;
    const filter = byId("filter");
    if (filter.value !== state.query)
        filter.value = state.query;
    byId("runs").querySelector("select").value = state.sort;
    const rows = listed.map((run) => runsRow(run, shown.has(run.id)));
    const list = byId("run-list");
    const isSame = rows.length === list.children.length && rows.every((row, index) => list.children[index] === row);
    if (!isSame) {
        const focused = document.activeElement;
        list.replaceChildren(...rows);
        if (list.contains(focused))
            focused.focus({preventScroll: true});
    }
    for (const id of runsRows.keys())
        if (!board.byId.has(id))
            runsRows.delete(id);
}

// The row of a run; it is filled again only if its contents change.
function runsRow(run, isShown) {
    let entry = runsRows.get(run.id);
    if (!entry) {
        const row = el("li", {class: "run", "data-id": run.id});
        runsRows.set(run.id, entry = {row, key: ""});
    }
    const facts = runsFacts(run);
    const isCurrent = state.view !== "curves" && boardCurrent() === run;
    const key = JSON.stringify([run.name, run.note, run.state, run.why, facts, isShown, isCurrent,
        isShown && [colourOf(run.id), dashOf(run.id)]]);
    if (entry.key !== key) {
        const focused = entry.row.contains(document.activeElement) ? document.activeElement.dataset.part : null;
        entry.key = key;
        runsFill(entry.row, run, isShown, facts, isCurrent);
        if (focused)
            entry.row.querySelector(`[data-part=${focused}]`)?.focus({preventScroll: true});
    }
    return entry.row;
}

// Lines of a row, short enough for the width of the list: progress, speed, and place.
function runsFacts(run) {
    const isPart = run.train_iters > 0 && run.iteration !== run.train_iters;
    const progress = formatCount(run.iteration) + (isPart ? ` / ${formatCount(run.train_iters)}` : "");
    const isLive = run.state === "live";
    const speed = isLive ? [run.tokens_per_second && formatShort(run.tokens_per_second) + " tok/s",
        run.eta_seconds && formatDuration(run.eta_seconds) + " left"] : [];
    const where = [!isLive && formatAge(run.updated, boardNow(), 1), run.host, run.job && `job ${run.job}`,
        run.ranks > 1 && `${run.ranks} ranks`, run.kind === "tensorboard" && "TensorBoard"];
    const line = (facts) => facts.filter(Boolean).join(" · ");
    const loss = run.loss !== null && run.loss !== undefined && "loss " + formatNumber(run.loss, 4);
    return {progress: line([progress, loss]), speed: line(speed), where: line(where)};
}

// Text cut off by a short row: the name, the folder and the note.
function runsTitle(run) {
    return [...new Set([run.name, run.path, run.note])].filter(Boolean).join("\n");
}

function runsFill(row, run, isShown, facts, isCurrent) {
    const box = el("input", {type: "checkbox", "aria-label": `Draw ${run.name}`, "data-part": "draw",
        onchange: () => boardToggle(run.id)});
    box.checked = isShown;
    row.className = "run" + (isCurrent ? " run-current" : "");
    const share = run.train_iters > 0 ? Math.min(1, run.iteration / run.train_iters) : 0;
    const bar = run.state === "live" && share > 0
        ? el("span", {class: "run-bar", "aria-hidden": "true"}, el("span", {})) : null;
    if (bar)
        bar.firstChild.style.width = (100 * share).toFixed(2) + "%";
    row.replaceChildren(
        el("span", {class: "run-check"}, box, isShown ? swatch(run.id) : el("span", {class: "swatch swatch-off"})),
        el("div", {class: "run-main"},
            stateAnchor({view: "run", run: run.id}, {class: "run-name", "data-part": "name", title: runsTitle(run),
                "aria-current": isCurrent ? "true" : null, text: run.name}),
            el("p", {class: "run-facts"}, stateBadge(run.state), ` ${facts.progress}`),
            bar,
            facts.speed && el("p", {class: "run-where muted", text: facts.speed}),
            run.why && el("p", {class: "run-why" + (run.state === "failed" ? " bad" : " muted"), text: run.why}),
            facts.where && el("p", {class: "run-where muted", title: facts.where, text: facts.where})),
        el("button", {type: "button", class: "text-button run-only", text: "only", "data-part": "only",
            "aria-label": `Draw only ${run.name}`, onclick: () => boardShow([run.id])}));
}

function stateBadge(name) {
    return el("span", {class: `badge badge-${name}`}, icon(iconPath(name) ? name : "lost"), name);
}
