// The points of one curve in typed arrays: reading them from an answer, smoothing, searching.
"use strict";

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
