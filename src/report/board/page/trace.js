// Drawing one curve and its marks on a canvas, given scales.
"use strict";

// Adds the points to the path. Points within half a pixel of each other in x become one vertical stroke, which keeps
// their extremes; values that are missing leave a gap.
function tracePoints(context, xs, ys, begin, end, xScale, yScale) {
    let column = NaN, pixel = 0, low = 0, high = 0, last = 0, isOpen = false;
    const flush = () => {
        if (isOpen && low !== high) {
            context.lineTo(pixel, low);
            context.lineTo(pixel, high);
            context.lineTo(pixel, last);
        }
    };
    for (let i = begin; i < end; i++) {
        const x = xScale.to(xs[i]), y = yScale.to(ys[i]);
        if (!(Math.abs(x) < 1e7 && Math.abs(y) < 1e7)) {
            flush();
            isOpen = false;
            continue;
        }
        const half = Math.round(x * 2);
        if (isOpen && half === column) {
            low = Math.min(low, y);
            high = Math.max(high, y);
            last = y;
            continue;
        }
        flush();
        if (isOpen)
            context.lineTo(x, y);
        else
            context.moveTo(x, y);
        isOpen = true;
        column = half;
        pixel = x;
        low = high = last = y;
    }
    flush();
}

// The area between the least and the greatest value of each point.
function traceBand(context, curve, begin, end, xScale, yScale) {
    const bottom = yScale.to(yScale.low);
    const yOf = (value) => {
        const y = yScale.to(value);
        return Number.isFinite(y) ? y : bottom;
    };
    let from = begin;
    context.beginPath();
    while (from < end) {
        while (from < end && Number.isNaN(curve.high[from]))
            from++;
        let to = from;
        while (to < end && !Number.isNaN(curve.high[to]))
            to++;
        for (let i = from; i < to; i++)
            context[i === from ? "moveTo" : "lineTo"](xScale.to(curve.x[i]), yOf(curve.high[i]));
        for (let i = to - 1; i >= from; i--)
            context.lineTo(xScale.to(curve.x[i]), yOf(curve.low[i]));
        context.closePath();
        from = to;
    }
    context.fill();
}

function traceDots(context, xs, ys, begin, end, xScale, yScale) {
    context.beginPath();
    for (let i = begin; i < end; i++) {
        const x = xScale.to(xs[i]), y = yScale.to(ys[i]);
        if (Number.isFinite(y)) {
            context.moveTo(x + 2.2, y);
            context.arc(x, y, 2.2, 0, 2 * Math.PI);
        }
    }
    context.fill();
}

// Marks of a validation loss: circles, as many as fit. The last one is always drawn.
function traceCircles(context, xs, ys, begin, end, {xScale, yScale}) {
    let before = Infinity;
    context.setLineDash([]);
    context.beginPath();
    for (let i = end - 1; i >= begin; i--) {
        const x = xScale.to(xs[i]), y = yScale.to(ys[i]);
        if (!Number.isFinite(y) || before - x < 12)
            continue;
        before = x;
        context.moveTo(x + 2.6, y);
        context.arc(x, y, 2.6, 0, 2 * Math.PI);
    }
    context.stroke();
}

// A run's planned value: a dotted line over the whole width.
function tracePlanned(context, series, view) {
    const {plot, yScale} = view;
    const y = Math.round(yScale.to(series.planned)) + 0.5;
    context.strokeStyle = series.colour;
    context.lineWidth = 1.5;
    context.setLineDash([1.5, 3]);
    context.beginPath();
    context.moveTo(plot.left, y);
    context.lineTo(plot.right, y);
    context.stroke();
    context.setLineDash([]);
}

// One run's curve: the band and the raw values, faint below a smoothed curve. `many` omits the band and the raw values:
// under dozens of curves they are a grey haze.
function traceCurve(context, series, view) {
    const {curve, colour, dash} = series;
    const {xScale, yScale, halfLife, many} = view;
    const [begin, end] = curveSpan(curve, xScale.low, xScale.high);
    if (begin >= end)
        return;
    const values = halfLife > 0 ? curveSmooth(curve, halfLife) : curve.mean;
    context.strokeStyle = context.fillStyle = colour;
    context.setLineDash(dash);
    if (!many && !curve.isExact) {
        context.globalAlpha = 0.13;
        traceBand(context, curve, begin, end, xScale, yScale);
    }
    if (!many && halfLife > 0) {
        context.globalAlpha = 0.28;
        context.lineWidth = 1;
        context.beginPath();
        tracePoints(context, curve.x, curve.mean, begin, end, xScale, yScale);
        context.stroke();
    }
    context.globalAlpha = 1;
    context.lineWidth = series.isHighlighted ? 2.5 : many ? 1 : 1.5;
    context.beginPath();
    tracePoints(context, curve.x, values, begin, end, xScale, yScale);
    context.stroke();
    const width = xScale.to(curve.x[end - 1]) - xScale.to(curve.x[begin]);
    if (series.isBeside)
        traceCircles(context, curve.x, values, begin, end, view);
    else if (end - begin <= 2 || width / (end - begin) > 14)
        traceDots(context, curve.x, values, begin, end, xScale, yScale);
}

// The shape of a kind of event: saves, restarts, problems, ends.
function markShape(event) {
    if (event === "saved")
        return "triangle";
    if (event === "started" || event === "rewind")
        return "line";
    return ["finished", "stopped"].includes(event) ? "square" : "diamond";
}

function traceMark(context, mark, x, top, bottom, colours) {
    const y = bottom - 6, shape = markShape(mark.event);
    context.beginPath();
    context.setLineDash([]);
    context.lineWidth = 1;
    context.strokeStyle = context.fillStyle = shape === "diamond" ? colours.warn : mark.colour;
    if (shape === "line") {
        context.setLineDash([3, 3]);
        context.moveTo(x, top);
        context.lineTo(x, bottom);
        context.stroke();
        return;
    }
    if (shape === "triangle") {
        context.moveTo(x, y - 4);
        context.lineTo(x + 3.5, y + 3);
        context.lineTo(x - 3.5, y + 3);
    } else if (shape === "square") {
        context.rect(x - 3, y - 3, 6, 6);
    } else {
        context.moveTo(x, y - 4.5);
        context.lineTo(x + 4.5, y);
        context.lineTo(x, y + 4.5);
        context.lineTo(x - 4.5, y);
    }
    context.closePath();
    context.fill();
    context.strokeStyle = colours.surface;
    context.stroke();
}

// Marks that would cover one with the same run and shape are left out; the tooltip lists them all.
function traceMarks(context, marks, view, colours) {
    const {xScale, plot} = view;
    const previous = new Map();
    for (const mark of marks) {
        const x = xScale.to(mark.x), key = mark.run + markShape(mark.event);
        if (!(x >= plot.left && x <= plot.right) || x - (previous.get(key) ?? -100) < 7)
            continue;
        previous.set(key, x);
        traceMark(context, mark, x, plot.top, plot.bottom, colours);
    }
}

// ---- points ----

// The points of one curve in typed arrays: reading them from an answer, smoothing, searching.

// From [[x, last, min, max, mean], …] with x in increasing order. A value that is not finite is null there, NaN here.
function curveFromPoints(points, isExact, shift) {
    const count = points.length;
    const curve = {count, isExact, x: new Float64Array(count), last: new Float64Array(count),
        low: new Float64Array(count), high: new Float64Array(count), mean: new Float64Array(count), smoothed: null};
    for (let i = 0; i < count; i++) {
        const [x, last, low, high, mean] = points[i];
        curve.x[i] = x - shift;
        curve.last[i] = last ?? NaN;
        curve.low[i] = low ?? NaN;
        curve.high[i] = high ?? NaN;
        curve.mean[i] = mean ?? last ?? NaN;
    }
    return curve;
}

// Index of the first point with x >= value; `count` if there is none.
function curveLowerBound(curve, value) {
    let low = 0, high = curve.count;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (curve.x[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Index of the point nearest to x, or -1. Points outside the curve's range by more than `slack` are not near.
function curveNearest(curve, x, slack) {
    if (curve.count === 0 || x < curve.x[0] - slack || x > curve.x[curve.count - 1] + slack)
        return -1;
    const after = curveLowerBound(curve, x);
    if (after === curve.count)
        return after - 1;
    return after > 0 && x - curve.x[after - 1] < curve.x[after] - x ? after - 1 : after;
}

// First and one past the last index of the points in view [low, high], with one neighbour on each side.
function curveSpan(curve, low, high) {
    const begin = Math.max(0, curveLowerBound(curve, low) - 1);
    let end = curveLowerBound(curve, high);
    if (end < curve.count)
        end++;
    return [begin, end];
}

// The half-life of the smoothing, in units of x. It is a share of the visible range, so that a curve looks equally
// smooth at every zoom and for any number of points from the server.
function smoothingHalfLife(amount, range) {
    return amount * amount * 0.2 * range;
}

const SMOOTHING_START = 0.1;

// An exponential moving average over x: a point's weight halves every `halfLife`, and counts for the distance to the
// point before it. Only earlier points are used, so a smoothed value of a running curve does not change later. The sum
// is divided by the weights so far, so the first value does not pull. A loss falls most at its start, where an average
// over a fixed distance lags: there the half-life is a share of the distance to the first point.
function curveSmooth(curve, halfLife) {
    if (curve.smoothed && curve.smoothed.halfLife === halfLife)
        return curve.smoothed.values;
    const values = new Float64Array(curve.count);
    const usual = curve.count > 1 ? (curve.x[curve.count - 1] - curve.x[0]) / (curve.count - 1) : 1;
    const start = curve.count > 0 ? curve.x[0] - usual : 0;
    let sum = 0, weight = 0, before = start;
    for (let i = 0; i < curve.count; i++) {
        const y = curve.mean[i];
        if (Number.isNaN(y)) {
            values[i] = NaN;
            continue;
        }
        const life = Math.min(halfLife, (curve.x[i] - start) * SMOOTHING_START);
        const keep = 0.5 ** (Math.max(curve.x[i] - before, usual * 1e-3) / life);
        sum = sum * keep + y * (1 - keep);
        weight = weight * keep + (1 - keep);
        values[i] = sum / weight;
        before = curve.x[i];
    }
    curve.smoothed = {halfLife, values};
    return values;
}

// Least and greatest value of a range of points; with `clips`, without the outermost fiftieth on each side.
function curveBounds(curve, begin, end, isLog, clips, bounds) {
    const values = [];
    for (let i = begin; i < end; i++) {
        const low = clips ? curve.mean[i] : curve.low[i], high = clips ? curve.mean[i] : curve.high[i];
        if (Number.isNaN(low) || (isLog && high <= 0))
            continue;
        if (clips) {
            values.push(low);
            continue;
        }
        if (!isLog || low > 0)
            bounds.low = Math.min(bounds.low, low);
        bounds.high = Math.max(bounds.high, high);
    }
    if (values.length === 0)
        return;
    values.sort((a, b) => a - b);
    const cut = Math.floor(values.length / 50);
    const positive = isLog ? values.find((value) => value > 0) ?? Infinity : -Infinity;
    bounds.low = Math.min(bounds.low, Math.max(values[cut], positive));
    bounds.high = Math.max(bounds.high, values[values.length - 1 - cut]);
}
