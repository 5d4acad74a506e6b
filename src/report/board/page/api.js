// Source of the data: the server's API, or, in an exported page, the JSON inside the page. Both answer the same four
// queries: runs, run, curves, log.
"use strict";

async function apiGet(path, parameters, signal) {
    const query = new URLSearchParams(parameters).toString();
    const answer = await fetch(path + (query ? "?" + query : ""), {signal, headers: {Accept: "application/json"}});
    let body = null;
    try {
        body = await answer.json();
    } catch {
        throw new Error(`the board answered ${answer.status} with something that is not JSON`);
    }
    if (!answer.ok)
        throw new Error(body && typeof body.error === "string" ? body.error : `the board answered ${answer.status}`);
    return body;
}

function apiServer() {
    return {
        isExport: false,
        runs: (after, signal) => apiGet("api/runs", after === null ? [] : [["after", after]], signal),
        run: (id, signal) => apiGet("api/run", [["id", id]], signal),
        log: (id, lines, signal) => apiGet("api/log", [["id", id], ["lines", lines]], signal),
        curves: (query, signal) => apiGet("api/curves", [
            ...query.ids.map((id) => ["id", id]), ...query.tags.map((tag) => ["tag", tag]), ["x", query.x],
            ...(query.from === null ? [] : [["from", query.from], ["to", query.to]]), ["points", query.points],
        ], signal),
    };
}

// Points of an exported curve inside a range, with one neighbour on each side, so that lines reach the edges.
function pointsBetween(points, from, to) {
    let begin = points.findIndex((point) => point[0] >= from);
    if (begin < 0)
        return points.slice(-1);
    let end = begin;
    while (end < points.length && points[end][0] <= to)
        end++;
    return points.slice(Math.max(0, begin - 1), end + 1);
}

function apiExport(data) {
    const all = Array.isArray(data.curves) ? data.curves : data.curves?.curves ?? [];
    const curves = new Map(all.map((curve) => [`${curve.id} ${curve.x} ${curve.tag}`, curve]));
    return {
        isExport: true,
        runs: async () => data.runs,
        run: async (id) => {
            if (!data.run?.[id])
                throw new Error("this run is not part of the exported page");
            return data.run[id];
        },
        log: async (id, lines) => {
            const log = data.log?.[id] ?? {path: null, lines: []};
            return {path: log.path, lines: log.lines.slice(-lines)};
        },
        curves: async (query) => {
            const found = [];
            for (const tag of query.tags)
                for (const id of query.ids) {
                    const curve = curves.get(`${id} ${query.x} ${tag}`);
                    if (curve)
                        found.push(query.from === null ? curve
                            : {...curve, points: pointsBetween(curve.points, query.from, query.to)});
                }
            return {curves: found};
        },
    };
}

function apiOpen() {
    const element = byId("data");
    return element ? apiExport(JSON.parse(element.textContent)) : apiServer();
}

// Follows the list of runs: calls onRuns with every newer answer, and onLost(message) while there is none. The server
// holds a request until something has changed, so nothing is polled and nothing missed.
async function apiFollow(api, onRuns, onLost) {
    let revision = null, pause = 1000;
    for (;;) {
        try {
            const answer = await api.runs(revision);
            pause = 1000;
            const isNew = revision !== answer.revision;
            revision = answer.revision;
            onRuns(answer);
            if (api.isExport)
                return;
            // A server that answers at once without a change must not be queried in a tight loop.
            await sleep(isNew ? 250 : 1000);
        } catch (error) {
            onLost(error.message);
            await sleep(pause);
            pause = Math.min(pause * 2, 15000);
            revision = null;
        }
    }
}

function sleep(ms) {
    return new Promise((resolve) => setTimeout(resolve, ms));
}
