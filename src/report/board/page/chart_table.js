// A chart as tables: one row per run, and, for a few runs, their values along the visible range.
"use strict";

function chartTables(chart) {
    const {xScale, mode} = chart.view;
    const rows = chart.series.map((series) => {
        const {name, curve} = series;
        const [begin, end] = curveSpan(curve, xScale.low, xScale.high);
        const bounds = {low: Infinity, high: -Infinity};
        curveBounds(curve, begin, end, false, false, bounds);
        const isEmpty = bounds.low > bounds.high;
        const text = (value) => formatValue(chart.tag, isEmpty ? NaN : value);
        return [el("span", {}, swatchOf(series), " ", name), isEmpty ? MISSING : formatX(mode, curve.x[end - 1]),
            text(curve.last[end - 1]), text(bounds.low), text(bounds.high)];
    });
    const title = chart.kind.slice(0, 1).toUpperCase() + chart.kind.slice(1);
    const tables = [dataTable(`${chart.tag}: each ${chart.kind} in the visible range`,
        [title, "At", "Last", "Least", "Greatest"], rows, {class: "numbers"})];
    if (chart.series.length > 0 && chart.series.length <= 16)
        tables.push(chartValues(chart));
    return tables;
}

function chartValues(chart) {
    const {xScale, mode} = chart.view;
    const rows = [];
    for (let i = 0; i <= 20; i++) {
        const x = xScale.low + (xScale.high - xScale.low) * i / 20;
        const values = new Map(chart.valuesAt(x).map((found) => [found.series, found.value]));
        if (values.size > 0)
            rows.push([formatX(mode, mode === "step" ? Math.round(x) : x),
                ...chart.series.map((series) => formatValue(chart.tag, values.get(series)))]);
    }
    return dataTable(`${chart.tag}: values along the visible range`, ["Near", ...chart.series.map(({name}) => name)],
        rows, {class: "numbers"});
}
