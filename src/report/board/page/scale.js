// Scales between values and pixels, and the ticks of axes: plain, logarithmic, durations, clock times.
"use strict";

// A scale from [low, high] to [begin, end]; `to` maps values to pixels, `from` maps back. A logarithmic scale needs low
// > 0, and maps values of 0 or less to NaN.
function scaleMake(low, high, begin, end, isLog) {
    if (isLog) {
        const first = Math.log10(low), factor = (end - begin) / (Math.log10(high) - first || 1);
        return {low, high, isLog, to: (value) => begin + (Math.log10(value > 0 ? value : NaN) - first) * factor,
            from: (pixel) => 10 ** (first + (pixel - begin) / factor)};
    }
    const factor = (end - begin) / (high - low || 1);
    return {low, high, isLog, to: (value) => begin + (value - low) * factor,
        from: (pixel) => low + (pixel - begin) / factor};
}

// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
function niceStep(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    for (const factor of [1, 2, 5])
        if (factor * power >= least * 0.999999)
            return factor * power;
    return 10 * power;
}

function multiplesBetween(low, high, step) {
    const ticks = [];
    // The bound prevents an endless loop on a range that doubles cannot resolve.
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && ticks.length < 100; i++)
        ticks.push(i * step);
    return ticks;
}

// About `count` ticks; a step that leaves fewer than three is replaced by the next smaller one.
function ticksLinear(low, high, count) {
    const ticks = multiplesBetween(low, high, niceStep((high - low) / count || 1));
    return ticks.length > 2 || count < 3 ? ticks : multiplesBetween(low, high, niceStep((high - low) / count / 2 || 1));
}

// Powers of ten; 1, 2, 5 times each in a range of less than two of them; plain ticks in a still smaller one.
function ticksLog(low, high, count) {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const stride = Math.max(1, Math.ceil((last - first) / count));
    const ticks = [];
    const factors = high / low < 100 ? [1, 2, 5] : [1];
    for (let power = first; power <= last; power += stride)
        for (const factor of factors)
            if (factor * 10 ** power >= low * 0.999999 && factor * 10 ** power <= high * 1.000001)
                ticks.push(factor * 10 ** power);
    return ticks.length >= 2 ? ticks : ticksLinear(low, high, count).filter((value) => value > 0);
}

function durationStep(least) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
        432000, 604800, 1209600];
    if (least < 1)
        return niceStep(least);
    return steps.find((step) => step >= least) ?? 86400 * niceStep(least / 86400);
}

function formatDurationTick(seconds, step) {
    if (seconds === 0)
        return "0";
    if (step >= 86400)
        return Math.round(seconds / 86400) + " d";
    if (step >= 3600)
        return Number((seconds / 3600).toFixed(1)) + " h";
    if (step >= 60)
        return seconds >= 7200 ? Number((seconds / 3600).toFixed(2)) + " h" : Math.round(seconds / 60) + " min";
    return seconds >= 120 ? `${Math.floor(seconds / 60)}:${pad2(Math.round(seconds % 60))}`
        : Number(seconds.toFixed(2)) + " s";
}

// Ticks at whole local hours and days, not at those of UTC.
function ticksClock(low, high, count) {
    const step = durationStep((high - low) / count);
    const offset = new Date(low * 1000).getTimezoneOffset() * 60;
    return {step, values: multiplesBetween(low - offset, high - offset, step).map((value) => value + offset)};
}

function formatClockTick(seconds, step) {
    const text = formatClock(seconds);
    if (step >= 86400)
        return text.slice(5, 10);
    return step >= 60 ? text.slice(11, 16) : text.slice(11);
}

// The ticks of an x axis: [[value, text], …].
function xTicks(mode, scale, count) {
    const {low, high} = scale;
    if (scale.isLog)
        return ticksLog(low, high, count).map((value) => [value, mode === "time" ? formatDuration(value)
            : formatShort(value)]);
    if (mode === "clock") {
        const {step, values} = ticksClock(low, high, count);
        return values.map((value) => [value, formatClockTick(value, step)]);
    }
    if (mode === "time") {
        const step = durationStep((high - low) / count);
        return multiplesBetween(low, high, step).map((value) => [value, formatDurationTick(value, step)]);
    }
    return ticksLinear(low, high, count).map((value) => [value, formatShort(value, 4)]);
}

// The ticks of a y axis. Bytes have round numbers of their own unit.
function yTicks(tag, scale, count) {
    const {low, high} = scale;
    if (scale.isLog)
        return ticksLog(low, high, count).map((value) => [value, formatTick(value, 0)]);
    if (tagIsBytes(tag)) {
        const unit = bytesUnit(Math.max(Math.abs(low), Math.abs(high)));
        return ticksLinear(low / unit.scale, high / unit.scale, count)
            .map((value) => [value * unit.scale, Number(value.toFixed(3)) + " " + unit.suffix]);
    }
    const values = ticksLinear(low, high, count);
    const step = values.length > 1 ? values[1] - values[0] : 0;
    return values.map((value) => [value, formatTick(value, step)]);
}

function tickDigits(size, step) {
    return Math.max(0, Math.min(4, Math.floor(Math.log10(size)) - Math.floor(Math.log10(step))));
}

// As many decimals as tell a tick from the next one.
function formatTick(value, step) {
    const size = Math.abs(value);
    if (size < step * 1e-6)
        return "0";
    if (size >= 1e4 || step >= 1e4)
        return formatShort(value);
    if (size < 1e-3 || (step > 0 && step < 1e-3))
        return value.toExponential(step > 0 ? tickDigits(size, step) : 1).replace(/\.0+e/, "e");
    const decimals = step > 0 ? Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) : 3;
    return step > 0 ? value.toFixed(decimals) : String(Number(value.toPrecision(decimals)));
}
