// The readout at the crosshair: x, every run's value there, and the marks near it.
"use strict";

const TOOLTIP_ROWS = 12;

// The runs worth a row: all, or those nearest to the pointer, still in the order of their values.
function tooltipChoose(found, chart, y) {
    if (found.length <= TOOLTIP_ROWS || y === null)
        return found.slice(0, TOOLTIP_ROWS);
    const {yScale} = chart.view;
    const near = [...found].sort((a, b) => Math.abs(yScale.to(a.value) - y) - Math.abs(yScale.to(b.value) - y));
    const chosen = new Set(near.slice(0, TOOLTIP_ROWS));
    return found.filter((item) => chosen.has(item));
}

function tooltipNearest(found, chart, y) {
    const {yScale} = chart.view;
    let best = null;
    for (const item of found) {
        const distance = Math.abs(yScale.to(item.value) - y);
        if (!best || distance < best.distance)
            best = {item, distance};
    }
    return best && best.distance < 24 ? best.item : null;
}

// The text of most events begins with the event's name.
function markText({event, text}) {
    if (!text)
        return event;
    return text.toLowerCase().startsWith(event) ? text : `${event}: ${text}`;
}

// One line per kind of event: its text, or the names of its runs.
function tooltipMarks(marks) {
    const kinds = new Map();
    for (const mark of marks)
        kinds.set(mark.event, [...(kinds.get(mark.event) ?? []), mark]);
    return [...kinds.values()].map((same) => el("p", {class: "tooltip-mark"}, ...same.slice(0, TOOLTIP_ROWS)
        .flatMap((mark) => [swatch(mark.run), " "]), same.length > 1 ? same[0].event : markText(same[0])));
}

// client: {x, y} of the pointer on the screen, and plotY: its height in the chart; null for the keyboard.
function tooltipShow(chart, x, client) {
    const found = chart.valuesAt(x);
    const isSmoothed = chart.view.halfLife > 0;
    const nearest = client && found.length > 1 ? tooltipNearest(found, chart, client.plotY) : null;
    const chosen = tooltipChoose(found, chart, client ? client.plotY : null);
    const tooltip = byId("tooltip");
    const rows = chosen.map((item) => el("tr", {class: item === nearest ? "nearest" : null},
        el("td", {}, swatchOf(item.series)), el("td", {class: "tooltip-name", text: item.series.name}),
        el("td", {class: "number", text: formatValue(chart.tag, item.value)}),
        isSmoothed && el("td", {class: "number muted", text: formatValue(chart.tag, item.raw)})));
    const more = found.length - chosen.length;
    const {mode} = chart.view;
    const at = mode === "step" && found.length > 0 ? found[0].series.curve.x[found[0].index] : x;
    tooltip.replaceChildren(
        el("p", {class: "tooltip-x", text: formatX(mode, at)}),
        el("table", {}, el("tbody", {}, ...rows)),
        ...(more > 0 ? [el("p", {class: "muted", text: `and ${more} more`})] : []),
        ...tooltipMarks(chart.marksAt(x)));
    tooltip.hidden = found.length === 0 && tooltip.childElementCount < 3;
    tooltipPlace(tooltip, chart, x, client);
}

function tooltipPlace(tooltip, chart, x, client) {
    const box = chart.plotElement.getBoundingClientRect();
    const left = client ? client.x : box.left + chart.view.xScale.to(x);
    const top = client ? client.y : box.top + 8;
    const {offsetWidth: width, offsetHeight: height} = tooltip;
    const fitsRight = left + 16 + width < innerWidth - 4;
    const placed = fitsRight ? left + 16 : Math.max(4, left - 16 - width);
    tooltip.style.transform = `translate(${Math.round(placed)}px, ${Math.round(
        Math.max(4, Math.min(top + 12, innerHeight - height - 4)))}px)`;
}

function tooltipHide() {
    byId("tooltip").hidden = true;
}

// The readout in one sentence, for a screen reader.
function tooltipSentence(chart, x) {
    const values = chart.valuesAt(x).slice(0, 6)
        .map(({series, value}) => `${series.name} ${formatValue(chart.tag, value)}`);
    const marks = chart.marksAt(x).slice(0, 3).map((mark) => `${mark.name} ${mark.event}`);
    return [formatX(state.x, state.x === "step" ? Math.round(x) : x), ...values, ...marks].join(", ");
}
