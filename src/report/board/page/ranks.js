// The view "ranks": own time, waiting and data time of each rank, the slowest one and why, and own times over the last
// reports as a map of ranks and iterations. All ranks take equally long for a step, because they wait for the slowest:
// they differ in their own time, the step less the waiting.
"use strict";

const RANKS_MOST_ROWS = 512;
const ranksView = {sort: "own"};

function ownTime(rank) {
    return rank.step_ms - (rank.wait_ms ?? 0);
}

function ranksStart() {
    board.listeners.push((changed) => {
        const run = boardCurrent();
        if (state.view === "ranks" && run && (changed.has(run.id) || !byId("view-ranks").firstChild))
            ranksUpdate();
    });
    stateListeners.push((keys) => {
        if (state.view === "ranks" && ["view", "run", "rank", "shown"].some((key) => keys.has(key)))
            ranksUpdate();
    });
    setInterval(() => state.view === "ranks" && ranksAge(), 1000);
    addEventListener("resize", debounce(100, () => state.view === "ranks" && ranksUpdate(true)));
}

function ranksUpdate(isResized) {
    const run = boardCurrent();
    const view = viewOf("ranks", run ? run.id : "");
    if (!run) {
        view.replaceChildren(noRuns());
        return;
    }
    fillPart(view, "head", [run.name, run.state, run.ranks], () => [
        el("h2", {}, "Ranks of ", stateAnchor({view: "run", run: run.id}, {text: run.name}), " ",
            stateBadge(run.state)),
        el("p", {id: "ranks-age", class: "muted", role: "note"})]);
    const {value, error} = boardDetails(run.id, () => state.view === "ranks" && ranksUpdate());
    const ranks = value?.ranks ?? null;
    const missing = error || (value ? "This run has not reported its ranks." : "Reading…");
    fillPart(view, "none", ranks ? "" : missing, () => (ranks ? [] : [el("p", {class: "muted", text: missing})]));
    const history = value?.rank_history ?? [];
    const look = [themeIsDark(), isResized ? innerWidth : 0];
    fillPart(view, "rank", [state.rank, history, ranks, look], () => rankPanel(state.rank, ranks, history));
    fillPart(view, "slow", ranks?.slow, () => ranksSlow(ranks?.slow));
    fillPart(view, "map", [history, look], () => ranksMap(history));
    fillPart(view, "table", [ranks, ranksView.sort], () => (ranks ? ranksTable(ranks) : []));
    ranksAge();
}

// Age of the last report. A live run reports every log interval; a hanging one does not.
function ranksAge() {
    const node = byId("ranks-age");
    const run = boardCurrent();
    const ranks = run && board.details.get(run.id)?.value?.ranks;
    if (!node || !run)
        return;
    const now = boardNow();
    const count = ranks ? ranks.ranks.length + (ranks.omitted ?? 0) : 0;
    node.textContent = ranks ? `${formatPlural(count, "rank")}; last report ${formatAge(ranks.time, now)}, at `
        + `iteration ${formatCount(ranks.iteration)}; last line of the run ${formatAge(run.updated, now)}.` : "";
}

function ranksSlow(slow) {
    if (!slow)
        return [];
    const who = `rank ${slow.rank}` + (slow.host ? ` on ${slow.host}` : "");
    const text = slow.text ?? "";
    return [el("h3", {text: "Straggler" + (slow.cause ? `, cause: ${slow.cause}` : "")}),
        el("p", {}, el("b", {text: who}), text.startsWith(who) ? text.slice(who.length) : `: ${text}`)];
}

function median(values) {
    const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
    return sorted.length > 0 ? sorted[Math.floor(sorted.length / 2)] : NaN;
}

// Difference of a time from the usual one, as text.
function toMedian(time, middle) {
    const share = time / middle - 1;
    return Math.abs(share) < 0.005 || !Number.isFinite(share) ? ""
        : `${share > 0 ? "+" : "−"}${Math.abs(100 * share).toFixed(1)} %`;
}

function ranksTable(ranks) {
    const middle = median(ranks.ranks.map(ownTime));
    const most = Math.max(...ranks.ranks.map((rank) => rank.step_ms), 1e-9);
    const value = (rank) => (ranksView.sort === "own" ? ownTime(rank) : rank[ranksView.sort] ?? 0);
    const rows = [...ranks.ranks].sort((a, b) => (ranksView.sort === "rank" ? 0 : value(b) - value(a))
        || a.rank - b.rank).slice(0, RANKS_MOST_ROWS);
    const left = ranks.ranks.length - rows.length + (ranks.omitted ?? 0);
    const cells = rows.map((rank) => {
        const bar = el("span", {class: "rank-bar", "aria-hidden": "true"}, el("span", {}), el("span", {}));
        bar.children[0].style.width = (100 * Math.max(0, ownTime(rank)) / most).toFixed(1) + "%";
        bar.children[1].style.width = (100 * Math.min(rank.wait_ms ?? 0, rank.step_ms) / most).toFixed(1) + "%";
        return [stateAnchor({rank: rank.rank}, {text: String(rank.rank), "aria-label": `Rank ${rank.rank}`}),
            rank.host ?? MISSING, el("span", {class: "rank-step"}, bar,
                el("span", {class: "rank-ms", text: formatNumber(ownTime(rank), 4)})),
            toMedian(ownTime(rank), middle), formatNumber(rank.wait_ms, 4), formatNumber(rank.step_ms, 4),
            formatNumber(rank.data_ms, 4), formatBytes(rank.memory)];
    });
    const order = select("Order of ranks", [["own", "slowest first"], ["wait_ms", "longest waiting first"],
        ["data_ms", "longest for data first"], ["memory", "most memory first"], ["rank", "by rank"]], ranksView.sort,
        (sort) => { ranksView.sort = sort; ranksUpdate(); });
    return [el("div", {class: "panel-head"}, el("h3", {text: "Last report"}), order),
        tableBox("Last report by rank", dataTable("Ranks", ["Rank", "Host", "Own (ms)", "To median", "Waiting (ms)",
            "Step (ms)", "Data (ms)", "Memory"], cells, {class: "numbers ranks"})),
        ...(ranks.ranks.length < 2 ? [] : [el("p", {class: "muted", text: "Own time is the step minus the wait for "
            + "other ranks, which the bars show in grey."
            + (left > 0 ? ` ${left} more ranks are not listed.` : "")})])];
}

// The own times of a report by rank; those of unlisted ranks are missing.
function reportTimes({ranks, own_ms: own}) {
    const times = [];
    ranks.forEach((rank, index) => {
        if (Number.isInteger(rank) && rank >= 0 && Number.isFinite(own[index]))
            times[rank] = own[index];
    });
    return times;
}

// Columns are reports, rows are ranks, darker is slower than the median of its report. With more ranks than rows of
// pixels, a row shows its slowest rank.
function ranksMap(history) {
    const reports = history.filter((report) => Array.isArray(report.own_ms) && report.own_ms.length > 1)
        .map((report) => {
            const times = reportTimes(report);
            return {iteration: report.iteration, times, middle: median(times)};
        });
    if (reports.length < 2)
        return [];
    const count = Math.max(...reports.map((report) => report.times.length));
    const rows = Math.min(count, 160);
    const label = `Own times of ${count} ranks over ${reports.length} reports; the table below has the last report`;
    const canvas = el("canvas", {class: "rank-map", role: "img", "aria-label": label});
    const readout = el("p", {class: "muted readout", text: "Point at the map to read a value."});
    requestAnimationFrame(() => ranksDrawMap(canvas, reports, count, rows));
    canvas.addEventListener("pointermove", (event) => {
        const box = canvas.getBoundingClientRect();
        const cell = (share, cells) => Math.min(cells - 1, Math.max(0, Math.floor(share * cells)));
        const report = reports[cell((event.clientX - box.left) / box.width, reports.length)];
        const rank = cell((event.clientY - box.top) / box.height, count);
        readout.textContent = `iteration ${formatCount(report.iteration)}, rank ${rank}: `
            + `${formatNumber(report.times[rank], 4)} ms, median ${formatNumber(report.middle, 4)} ms`;
    });
    const first = reports[0].iteration, last = reports[reports.length - 1].iteration;
    return [el("h3", {text: "Own time by rank"}), canvas,
        el("p", {class: "muted map-axis"}, el("span", {text: `iteration ${formatCount(first)}`}),
            el("span", {text: `${count} ranks, rank 0 on top; strongest colour: 30 % over the median`}),
            el("span", {text: formatCount(last)})), readout];
}

function ranksDrawMap(canvas, reports, count, rows) {
    const width = canvas.clientWidth, height = Math.max(48, Math.min(280, rows * Math.max(4, Math.floor(240 / rows))));
    if (width < 10)
        return;
    canvas.style.height = height + "px";
    const context = chartContext(canvas, width, height);
    const colours = themeColours();
    context.fillStyle = colours.grid;
    context.fillRect(0, 0, width, height);
    context.fillStyle = colours.warn;
    const columnWidth = width / reports.length, rowHeight = height / rows;
    reports.forEach(({times, middle}, column) => {
        for (let row = 0; row < rows; row++) {
            const from = Math.floor(row * count / rows), to = Math.max(from + 1, Math.floor((row + 1) * count / rows));
            const slowest = Math.max(...times.slice(from, to).filter(Number.isFinite));
            const excess = Math.min(1, Math.max(0, (slowest / middle - 1) / 0.3));
            if (!(excess > 0.01))
                continue;
            context.globalAlpha = 0.08 + 0.92 * excess;
            context.fillRect(column * columnWidth, row * rowHeight, columnWidth + 0.4, rowHeight + 0.4);
        }
    });
    context.globalAlpha = 1;
}

// One rank in the view "ranks": its last report, and its own time compared with the median of all ranks.
// [iteration, own time, median] of the reports with this rank.
function rankPoints(number, history) {
    return history.map((report) => {
        const times = reportTimes(report);
        return [report.iteration, times[number], median(times), Math.max(...times.filter(Number.isFinite))];
    }).filter((point) => Number.isFinite(point[1]));
}

function rankPanel(number, ranks, history) {
    if (number === null)
        return [];
    const last = ranks?.ranks.find(({rank}) => rank === number);
    const points = rankPoints(number, history);
    const head = el("div", {class: "panel-head"}, el("h3", {text: `Rank ${number}`}),
        stateAnchor({rank: null}, {text: "All ranks"}));
    if (!last && points.length === 0)
        return [head, el("p", {class: "muted", text: "The last reports do not list this rank."})];
    const middle = median((ranks?.ranks ?? []).map(ownTime));
    const slowest = points.filter(([, own, , most]) => own === most).length;
    const distance = last ? toMedian(ownTime(last), middle) : "";
    const facts = [["Own time", last ? `${formatNumber(ownTime(last), 4)} ms ${distance}` : MISSING],
        ["Waiting", last ? `${formatNumber(last.wait_ms, 4)} ms` : MISSING],
        ["Step", last ? `${formatNumber(last.step_ms, 4)} ms` : MISSING],
        ["Data", last ? `${formatNumber(last.data_ms, 4)} ms` : MISSING],
        ["Memory", formatBytes(last?.memory)], ["Host", last?.host ?? MISSING],
        ["Slowest of all", `in ${slowest} of ${points.length} reports`]];
    return [head, el("dl", {class: "facts"}, ...facts.map(([name, text]) => el("div", {}, el("dt", {text: name}),
        el("dd", {text})))), ...(points.length > 1 ? [rankChart(number, points)] : [])];
}

function rankChart(number, points) {
    const chart = new Chart("Own time (ms)", {});
    const colours = themeColours();
    const curve = (column) => curveFromPoints(points.map((point) => [point[0], ...Array(4).fill(point[column])]),
        true, 0);
    chart.kind = "line";
    chart.series = [{id: "rank", name: `rank ${number}`, colour: colours.accent, dash: [], curve: curve(1)},
        {id: "median", name: "median of all ranks", colour: colours.muted, dash: [6, 3], curve: curve(2)}];
    chart.note.textContent = "dashed: median of all ranks";
    chart.note.removeAttribute("title");
    chart.logButton.remove();
    chart.sizeButton.remove();
    chart.setView({mode: "step", domain: [points[0][0], points[points.length - 1][0]], isLog: false, isLogX: false,
        smooth: 0, clip: false});
    const target = chart.plotElement;
    target.addEventListener("pointermove", (event) => {
        const box = target.getBoundingClientRect();
        chart.hoverX = chart.view.xScale.from(event.clientX - box.left);
        chart.drawOverlay();
        tooltipShow(chart, chart.hoverX, {x: event.clientX, y: event.clientY, plotY: event.clientY - box.top});
    });
    target.addEventListener("pointerleave", () => {
        chart.hoverX = null;
        chart.drawOverlay();
        tooltipHide();
    });
    target.setAttribute("role", "img");
    target.removeAttribute("aria-describedby");
    target.removeAttribute("aria-roledescription");
    target.removeAttribute("tabindex");
    requestAnimationFrame(() => chart.draw(colours));
    return chart.element;
}
