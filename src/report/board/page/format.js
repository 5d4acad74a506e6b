// Numbers, bytes, times and durations as text. Missing values are a dash.
"use strict";

const MISSING = "–";

function formatNumber(value, digits = 5) {
    if (value === null || value === undefined || Number.isNaN(value))
        return MISSING;
    if (!Number.isFinite(value))
        return value > 0 ? "inf" : "-inf";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e9))
        return value.toExponential(Math.min(digits - 1, 3)).replace(/\.?0+e/, "e").replace("e+", "e");
    if (size >= 1e5)
        return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(digits)));
}

function formatCount(value) {
    return value === null || value === undefined ? MISSING : Math.round(value).toLocaleString("en");
}

// 1 rank, 2 ranks
function formatPlural(count, noun) {
    return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

// 1234567 -> "1.23M": for tokens and steps on an axis.
function formatShort(value, digits = 3) {
    const size = Math.abs(value);
    if (size >= 1e15)
        return formatNumber(value, digits);
    for (const [unit, letter] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]])
        if (size >= unit * (unit === 1e3 ? 10 : 1))
            return Number((value / unit).toPrecision(digits)) + letter;
    return String(Number(value.toPrecision(Math.max(digits, 4))));
}

function bytesUnit(value) {
    const size = Math.abs(value);
    for (const [scale, suffix] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
        if (size >= scale)
            return {scale, suffix};
    return {scale: 1, suffix: "B"};
}

function formatBytes(value) {
    if (value === null || value === undefined || Number.isNaN(value))
        return MISSING;
    const {scale, suffix} = bytesUnit(value);
    return Number((value / scale).toPrecision(4)) + " " + suffix;
}

function formatDuration(seconds, units = 2) {
    if (seconds === null || seconds === undefined || !Number.isFinite(seconds))
        return MISSING;
    const sign = seconds < 0 ? "-" : "";
    const total = Math.abs(seconds);
    if (total < 10)
        return sign + Number(total.toFixed(1)) + " s";
    const whole = Math.round(total);
    const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"],
        [Math.floor(whole / 60) % 60, "min"], [whole % 60, "s"]];
    const first = parts.findIndex(([count]) => count > 0);
    const used = parts.slice(first, first + units).filter(([count]) => count > 0);
    return sign + used.map((part) => part.join(" ")).join(" ");
}

function formatAge(time, now, units = 2) {
    if (!time)
        return MISSING;
    const seconds = Math.max(0, now - time);
    return seconds < 5 ? "now" : formatDuration(seconds, units) + " ago";
}

function pad2(value) {
    return String(value).padStart(2, "0");
}

// Local time as 2026-11-16 19:21:05: unambiguous, and it sorts.
function formatClock(seconds) {
    if (!seconds || !Number.isFinite(seconds))
        return MISSING;
    const date = new Date(seconds * 1000);
    return `${date.getFullYear()}-${pad2(date.getMonth() + 1)}-${pad2(date.getDate())} `
        + `${pad2(date.getHours())}:${pad2(date.getMinutes())}:${pad2(date.getSeconds())}`;
}

// The value of a curve, in the unit of its tag.
function formatValue(tag, value) {
    return tagIsBytes(tag) ? formatBytes(value) : formatNumber(value);
}

function formatX(mode, value) {
    if (mode === "time")
        return formatDuration(value);
    if (mode === "clock")
        return formatClock(value);
    if (mode === "step")
        return "step " + formatCount(value);
    return mode === "tokens" ? formatShort(value, 4) + " tokens" : formatNumber(value, 4) + " FLOPs";
}
