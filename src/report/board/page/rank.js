// One rank in the view "ranks": its last report, and its own time compared with the median of all ranks.
"use strict";

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
