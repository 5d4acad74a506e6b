// Pointer, wheel, touch and keys on a chart. Dragging selects a range, the wheel zooms (with Ctrl, or on a chart that
// has the focus: otherwise the page scrolls), two fingers pinch and move, a double click resets the zoom.
"use strict";

function gesturesAttach(chart, hooks) {
    const target = chart.plotElement;
    const pointers = new Map();
    let drag = null, pinch = null;

    const place = (event) => {
        const box = target.getBoundingClientRect();
        return {x: event.clientX - box.left, y: event.clientY - box.top};
    };
    const inside = (x) => Math.min(Math.max(x, chart.view.plot.left), chart.view.plot.right);

    target.addEventListener("pointerdown", (event) => {
        if (!chart.view || (event.pointerType === "mouse" && event.button !== 0))
            return;
        pointers.set(event.pointerId, place(event));
        if (pointers.size === 2) {
            drag = chart.selection = null;
            pinch = gesturesSpread(pointers, chart);
        } else if (event.pointerType !== "touch") {
            drag = {start: inside(place(event).x), pans: event.shiftKey, from: chart.view.xScale.from(place(event).x)};
            target.setPointerCapture(event.pointerId);
        } else {
            hooks.onHover(chart, chart.view.xScale.from(inside(place(event).x)), event);
        }
    });

    target.addEventListener("pointermove", (event) => {
        if (!chart.view)
            return;
        const point = place(event);
        if (pointers.has(event.pointerId))
            pointers.set(event.pointerId, point);
        if (pinch && pointers.size === 2) {
            hooks.onZoom(...gesturesPinched(pinch, gesturesSpread(pointers, chart), chart));
        } else if (drag && drag.pans) {
            gesturesPan(chart, drag.start - point.x, hooks);
            drag.start = point.x;
        } else if (drag) {
            chart.selection = [drag.start, inside(point.x)];
            chart.drawOverlay();
        }
        if (!pinch)
            hooks.onHover(chart, chart.view.xScale.from(inside(point.x)), event);
    });

    const end = (event) => {
        pointers.delete(event.pointerId);
        if (pointers.size < 2)
            pinch = null;
        if (!drag)
            return;
        const selection = chart.selection;
        chart.selection = drag = null;
        if (event.type === "pointerup" && selection && Math.abs(selection[1] - selection[0]) > 6) {
            const {xScale} = chart.view;
            hooks.onZoom(xScale.from(Math.min(...selection)), xScale.from(Math.max(...selection)));
        } else {
            chart.drawOverlay();
        }
    };
    target.addEventListener("pointerup", end);
    target.addEventListener("pointercancel", end);
    // The readout stays on the screen when a finger is lifted, until something else is touched.
    target.addEventListener("pointerleave", (event) => {
        if (!drag && event.pointerType !== "touch")
            hooks.onLeave(chart, event);
    });
    target.addEventListener("dblclick", () => hooks.onReset());
    target.addEventListener("wheel", (event) => {
        if (!chart.view || !(event.ctrlKey || event.metaKey || document.activeElement === target))
            return;
        event.preventDefault();
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
            gesturesPan(chart, event.deltaX, hooks);
        else
            gesturesZoom(chart, inside(place(event).x), gesturesWheelFactor(event), hooks);
    }, {passive: false});
    target.addEventListener("keydown", (event) => gesturesKey(chart, event, hooks));
    target.addEventListener("blur", (event) => hooks.onLeave(chart, event));
}

// Wheels report lines or pixels, a pinch on a touchpad small numbers of pixels with Ctrl.
function gesturesWheelFactor(event) {
    const isPinch = event.ctrlKey && Math.abs(event.deltaY) < 40;
    const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1) * (isPinch ? 6 : 1);
    return Math.exp(Math.min(Math.max(pixels, -300), 300) * 0.0018);
}

function gesturesZoom(chart, pixel, factor, hooks) {
    const {plot, xScale} = chart.view;
    hooks.onZoom(xScale.from(pixel - (pixel - plot.left) * factor), xScale.from(pixel + (plot.right - pixel) * factor));
}

function gesturesPan(chart, pixels, hooks) {
    const {plot, xScale} = chart.view;
    hooks.onPan(xScale.from(plot.left + pixels), xScale.from(plot.right + pixels));
}

// The midpoint and distance of two fingers, in pixels, with the scale at that moment.
function gesturesSpread(pointers, chart) {
    const [a, b] = [...pointers.values()];
    return {middle: (a.x + b.x) / 2, width: Math.max(Math.abs(a.x - b.x), 24), xScale: chart.view.xScale};
}

// The range that puts the points first under the fingers back under them.
function gesturesPinched(begin, now, chart) {
    const {plot} = chart.view;
    const factor = begin.width / now.width;
    return [plot.left, plot.right].map((edge) => begin.xScale.from(begin.middle + (edge - now.middle) * factor));
}

function gesturesKey(chart, event, hooks) {
    if (!chart.view || event.ctrlKey || event.metaKey || event.altKey)
        return;
    const {plot, xScale} = chart.view;
    const width = plot.right - plot.left;
    const at = chart.hoverX === null ? (plot.left + plot.right) / 2 : xScale.to(chart.hoverX);
    const move = (pixels) => hooks.onCrosshair(chart,
        xScale.from(Math.min(Math.max(at + pixels, plot.left), plot.right)));
    const actions = {
        ArrowLeft: () => (event.shiftKey ? gesturesPan(chart, -width / 8, hooks) : move(-width / 100)),
        ArrowRight: () => (event.shiftKey ? gesturesPan(chart, width / 8, hooks) : move(width / 100)),
        Home: () => move(-width),
        End: () => move(width),
        "+": () => gesturesZoom(chart, at, 0.7, hooks),
        "=": () => gesturesZoom(chart, at, 0.7, hooks),
        "-": () => gesturesZoom(chart, at, 1 / 0.7, hooks),
        0: () => hooks.onReset(),
        l: () => hooks.onLog(chart),
        t: () => chart.toggleTable(),
        e: () => hooks.onEnlarge(chart),
        Escape: () => hooks.onLeave(chart, event),
    };
    const action = actions[event.key];
    if (!action)
        return;
    event.preventDefault();
    event.stopPropagation();
    action();
}

// ---- the readout ----

// The readout at the crosshair: x, every run's value there, and the marks near it.

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
