// Facts about tags: their order on the page, their group, their unit.
"use strict";

// A tag belongs to the first group whose pattern matches. Patterns know our names and Megatron's.
function tagGroups() {
    return [
        ["By samples", / vs samples$/i],
        ["Validation", /validation|valid|\btest\b|eval|ppl|perplexity|accuracy/i],
        ["Experts", /expert|router|balanc|aux|z.loss|moe|mtp/i],
        ["System", /memory|\bmem\b|bytes|alloc|\bcpu\b|\bgpu\b|data.wait/i],
        ["Throughput", /tokens.per.sec|throughput|tflop|teraflop|mfu|elapsed|iteration.time|samples.per|\bms\b|time/i],
        ["Loss", /loss(?!.scale)/i],
        ["Optimizer", /learning.rate|\blr\b|grad|norm|scale|zeros|skipped|nan|batch.size|momentum|weight.decay/i],
    ];
}

function tagGroup(tag) {
    const found = tagGroups().find(([, pattern]) => pattern.test(tag));
    if (found)
        return found[0];
    const slash = tag.indexOf("/");
    return slash > 0 ? tag.slice(0, slash) : "Other";
}

function tagGroupRank(group) {
    const rank = ["Loss", "Validation", "Throughput", "Optimizer", "System", "Experts"].indexOf(group);
    return rank >= 0 ? rank : group === "By samples" ? 200 : 100;
}

// Tags by group, [[group, [tag, …]], …]; the most popular ones first.
function tagsGrouped(tags) {
    const groups = new Map();
    for (const tag of tags)
        groups.set(tagGroup(tag), [...(groups.get(tagGroup(tag)) ?? []), tag]);
    const first = ["lm loss", "lm loss validation", "tokens per second", "learning rate", "grad norm",
        "expert balance", "expert-balance", "idle experts", "idle-experts"];
    const rank = (tag) => (first.includes(tag) ? first.indexOf(tag) : first.length);
    for (const list of groups.values())
        list.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, "en", {numeric: true}));
    return [...groups].sort((a, b) => tagGroupRank(a[0]) - tagGroupRank(b[0]) || a[0].localeCompare(b[0]));
}

// The tags of the validation loss that is drawn with a training loss: our name, Megatron's and those of others.
function tagsBeside(tag, ids) {
    if (tagGroup(tag) !== "Loss")
        return [];
    const names = [tag + " validation",
        ...["eval", "val", "validation"].map((set) => tag.replace(/^train\//, set + "/"))];
    return names.filter((name) => name !== tag && ids.some((id) => board.byId.get(id).tags.includes(name)));
}

// The planned speed of a run is drawn with the measured one, not in a chart of its own.
function tagIsPlanned(tag) {
    return tag === "planned tokens per second";
}

function tagPlanned(tag, run) {
    return tag === "tokens per second" ? run.planned_tokens_per_second ?? null : null;
}

function tagIsBytes(tag) {
    return /^memory$|memory.bytes|mem.*bytes|allocated.bytes|bytes$/i.test(tag);
}
