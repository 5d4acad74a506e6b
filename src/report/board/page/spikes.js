// Finds spikes of the loss: values far above the usual ones before them.
"use strict";

const SPIKE_HISTORY = 32;  // points over which the usual value is averaged
const SPIKE_SHARE = 0.1;   // a spike exceeds the usual value by this share of it
const SPIKE_SPREADS = 8;   // and by this many times the usual distance to it

// Returns {x, value, usual} of each: neighbours form one spike with the greatest of their values. A point of many steps
// is represented by its greatest one, so no spike is lost to decimation. A level that lasts as long as the history
// becomes the usual one.
function curveSpikes(curve) {
    const spikes = [];
    let level = 0, spread = 0, seen = 0, spike = null;
    for (let i = 0; i < curve.count; i++) {
        const value = curve.high[i];
        if (Number.isNaN(value))
            continue;
        const isHigh = seen > 20 && value > level + Math.max(SPIKE_SPREADS * spread, SPIKE_SHARE * Math.abs(level));
        if (!isHigh)
            spike = null;
        else if (!spike)
            spikes.push(spike = {x: curve.x[i], value, usual: level, length: 0});
        else if (value > spike.value)
            Object.assign(spike, {x: curve.x[i], value});
        if (isHigh && ++spike.length < SPIKE_HISTORY)
            continue;
        const weight = Math.max(1 / (seen + 1), 1 / SPIKE_HISTORY);
        if (seen > 0)
            spread += weight * (Math.abs(value - level) - spread);
        level += weight * (value - level);
        seen++;
    }
    return spikes;
}

// Marks of the spikes of a run, from the chart of its loss.
function spikeMarks(chart, id) {
    const curve = chart ? loadBest(chart, id) : null;
    if (!curve)
        return [];
    curve.spikes ??= curveSpikes(curve);
    return curve.spikes.map(({x, value, usual}) => ({x, event: "spike",
        text: `${chart.tag} ${formatNumber(value, 4)} after ${formatNumber(usual, 4)}`}));
}
