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
