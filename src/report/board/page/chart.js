// One chart: a card with a canvas for curves, a second one above it for crosshair and selection, and a table of the
// same values. curves.js decides which data it draws.
"use strict";

const CHART_MANY = 16;   // with this many runs or more, curves are drawn plainly
const CHART_MARKS = 14;  // pixels above the x axis for the marks, so that they cover no curve

class Chart {
    constructor(tag, hooks) {
        this.tag = tag;
        this.series = [];   // {id, name, colour, dash, curve}; isBeside: the validation loss drawn with a training loss
        this.marks = [];    // {run, name, event, text, x, colour}, sorted by x
        this.hooks = hooks;
        this.hoverX = null;
        this.highlight = null;
        this.selection = null;
        this.isVisible = false;
        this.isDirty = true;
        this.drawnAt = 0;
        this.message = "";
        this.kind = "run";  // what each curve stands for
        this.build();
    }

    build() {
        const title = el("h3", {text: this.tag, title: this.tag});
        this.note = el("span", {class: "card-note muted",
            title: "A point stands for several values: the line is their mean, the band their range"});
        this.logButton = el("button", {type: "button", class: "text-button", text: "log", "aria-pressed": "false",
            "aria-label": `Logarithmic y axis of ${this.tag}`, title: "Logarithmic y axis (l)",
            onclick: () => this.hooks.onLog(this)});
        this.tableButton = iconButton("table", `Table of ${this.tag}`, () => this.toggleTable());
        this.tableButton.setAttribute("aria-expanded", "false");
        const files = iconButton("download", `Download ${this.tag}`, () => downloadShow(this, files));
        files.setAttribute("popovertarget", "download");
        files.setAttribute("aria-haspopup", "dialog");
        this.sizeButton = iconButton("enlarge", `Enlarge ${this.tag}`, () => this.hooks.onEnlarge(this));
        this.base = el("canvas", {"aria-hidden": "true"});
        this.overlay = el("canvas", {class: "overlay", "aria-hidden": "true"});
        // "application": screen readers pass the keys on that move the crosshair.
        this.plotElement = el("div", {class: "plot", tabindex: "0", role: "application",
            "aria-roledescription": "chart", "aria-label": this.tag, "aria-describedby": "chart-keys"}, this.base,
        this.overlay);
        this.tableElement = el("div", {class: "card-table", hidden: true, tabindex: "0", role: "region",
            "aria-label": `Values of ${this.tag}`});
        this.element = el("article", {class: "card"},
            el("header", {}, title, this.note, this.logButton, this.tableButton, files, this.sizeButton),
            this.plotElement, this.tableElement);
        this.element.chart = this;
    }

    setBig(isBig) {
        this.element.classList.toggle("card-big", isBig);
        const label = (isBig ? "Shrink " : "Enlarge ") + this.tag;
        this.sizeButton.setAttribute("aria-label", label);
        this.sizeButton.title = label + " (e)";
        this.sizeButton.replaceChildren(icon(isBig ? "shrink" : "enlarge"));
    }

    // view: {mode, domain: [low, high], isLog, isLogX, smooth, clip}
    setView(view) {
        this.wanted = view;
        this.isDirty = true;
        this.logButton.setAttribute("aria-pressed", String(view.isLog));
    }

    // Scales for a size, with `head` pixels left free above; false if there is no area to draw on yet.
    layout(width, height, head = 0) {
        if (width < 40 || height < 40 || !this.wanted)
            return false;
        const {mode, domain, isLog, isLogX, smooth, clip} = this.wanted;
        const plot = {left: 52, right: width - 14, top: 8 + head, bottom: height - 22, width, height};
        const low = isLogX ? Math.max(domain[0], domain[1] / 1e6, 1e-9) : domain[0];
        const high = Math.max(domain[1], isLogX ? low * 1.001 : low + 1e-9);
        const bounds = {low: Infinity, high: -Infinity};
        for (const {curve, planned} of this.series) {
            curveBounds(curve, ...curveSpan(curve, low, high), isLog, clip, bounds);
            if (planned && bounds.low <= bounds.high) {
                bounds.low = Math.min(bounds.low, planned);
                bounds.high = Math.max(bounds.high, planned);
            }
        }
        const [bottom, top] = chartPad(bounds, isLog);
        this.view = {plot, mode, halfLife: smoothingHalfLife(smooth, high - low),
            many: this.series.filter(({isBeside}) => !isBeside).length >= CHART_MANY,
            xScale: scaleMake(low, high, plot.left, plot.right, isLogX),
            yScale: scaleMake(bottom, top, plot.bottom - (this.marks.length > 0 ? CHART_MARKS : 0), plot.top, isLog),
            isEmpty: bounds.low > bounds.high};
        return true;
    }

    draw(colours) {
        this.isDirty = false;
        if (!this.layout(this.plotElement.clientWidth, this.plotElement.clientHeight))
            return;
        const {plot} = this.view;
        this.colours = colours;
        const context = chartContext(this.base, plot.width, plot.height);
        context.clearRect(0, 0, plot.width, plot.height);
        this.paint(context, colours);
        this.drawOverlay();
        this.describe();
    }

    paint(context, colours) {
        const {plot} = this.view;
        this.drawAxes(context, colours);
        context.save();
        context.beginPath();
        context.rect(plot.left - 4, plot.top - 4, plot.right - plot.left + 8, plot.bottom - plot.top + 8);
        context.clip();
        context.lineJoin = "bevel";  // cheaper than "round", and thin lines look the same
        for (const series of this.series) {
            traceCurve(context, series, this.view);
            if (series.planned)
                tracePlanned(context, series, this.view);
        }
        context.restore();
        traceMarks(context, this.marks, this.view, colours);
    }

    drawAxes(context, colours) {
        const {plot, xScale, yScale, mode} = this.view;
        context.font = chartFont();
        context.lineWidth = 1;
        context.strokeStyle = colours.grid;
        context.fillStyle = colours.muted;
        context.textAlign = "right";
        context.textBaseline = "middle";
        const rows = Math.max(2, Math.floor((plot.bottom - plot.top) / 42));
        context.beginPath();
        for (const [value, text] of this.view.isEmpty ? [] : yTicks(this.tag, yScale, rows)) {
            const y = Math.round(yScale.to(value)) + 0.5;
            context.moveTo(plot.left, y);
            context.lineTo(plot.right, y);
            context.fillText(text, plot.left - 6, y, plot.left - 6);
        }
        context.moveTo(plot.left, plot.bottom + 0.5);
        context.lineTo(plot.right, plot.bottom + 0.5);
        context.stroke();
        context.textBaseline = "top";
        const columns = Math.max(2, Math.floor((plot.right - plot.left) / 78));
        for (const [value, text] of xTicks(mode, xScale, columns)) {
            const x = xScale.to(value);
            const half = context.measureText(text).width / 2;
            context.textAlign = "center";
            context.fillText(text, Math.min(x, plot.width - half - 4), plot.bottom + 6);
        }
        if (this.view.isEmpty) {
            context.textAlign = "center";
            context.textBaseline = "middle";
            context.fillText(this.message || "no points in this range", (plot.left + plot.right) / 2,
                (plot.top + plot.bottom) / 2);
        }
    }

    // The crosshair, the selection and the highlighted run: cheap enough for every move of the pointer.
    drawOverlay() {
        if (!this.view)
            return;
        const {plot, xScale, yScale} = this.view;
        const context = chartContext(this.overlay, plot.width, plot.height);
        context.clearRect(0, 0, plot.width, plot.height);
        const bright = this.series.filter((series) => series.id === this.highlight);
        this.base.classList.toggle("faded", bright.length > 0 && this.series.length > bright.length);
        context.save();
        context.beginPath();
        context.rect(plot.left - 4, plot.top - 4, plot.right - plot.left + 8, plot.bottom - plot.top + 8);
        context.clip();
        for (const series of bright)
            traceCurve(context, {...series, isHighlighted: true}, this.view);
        if (this.selection) {
            context.fillStyle = this.colours.accent;
            context.globalAlpha = 0.16;
            const [from, to] = this.selection;
            context.fillRect(Math.min(from, to), plot.top, Math.abs(to - from), plot.bottom - plot.top);
            context.globalAlpha = 1;
        }
        context.restore();
        const x = this.hoverX === null ? NaN : xScale.to(this.hoverX);
        if (!(x >= plot.left && x <= plot.right))
            return;
        context.strokeStyle = this.colours.muted;
        context.lineWidth = 1;
        context.setLineDash([]);
        context.beginPath();
        context.moveTo(Math.round(x) + 0.5, plot.top);
        context.lineTo(Math.round(x) + 0.5, plot.bottom);
        context.stroke();
        for (const {series, index, value} of this.valuesAt(this.hoverX).slice(0, 24)) {
            context.fillStyle = series.colour;
            context.strokeStyle = this.colours.surface;
            context.beginPath();
            context.arc(xScale.to(series.curve.x[index]), yScale.to(value), 3.5, 0, 2 * Math.PI);
            context.fill();
            context.stroke();
        }
    }

    // Values of each run near x: [{series, index, value, raw}], greatest value first.
    valuesAt(x) {
        if (!this.view)
            return [];
        const {plot, xScale, halfLife} = this.view;
        const slack = 12 * (xScale.high - xScale.low) / (plot.right - plot.left);
        const found = [];
        for (const series of this.series) {
            const index = curveNearest(series.curve, x, slack);
            if (index < 0)
                continue;
            const raw = series.curve.mean[index];
            found.push({series, index, raw, value: halfLife > 0 ? curveSmooth(series.curve, halfLife)[index] : raw});
        }
        return found.sort((a, b) => b.value - a.value);
    }

    marksAt(x) {
        const {plot, xScale} = this.view;
        const pixel = xScale.to(x);
        return this.marks.filter((mark) => Math.abs(xScale.to(mark.x) - pixel) < 6
            && xScale.to(mark.x) >= plot.left - 1 && xScale.to(mark.x) <= plot.right + 1);
    }

    describe() {
        const ends = this.series.slice(0, 6).map(({name, curve}) =>
            `${name} ${formatValue(this.tag, curve.count > 0 ? curve.last[curve.count - 1] : NaN)}`);
        const more = this.series.length > 6 ? ` and ${this.series.length - 6} more` : "";
        const count = formatPlural(new Set(this.series.map(({id}) => id)).size, this.kind);
        this.plotElement.setAttribute("aria-label", `${this.tag}: ${count}; last values: ${ends.join(", ")}${more}`);
        if (!this.tableElement.hidden)
            this.fillTable();
    }

    toggleTable() {
        this.tableElement.hidden = !this.tableElement.hidden;
        this.tableButton.setAttribute("aria-expanded", String(!this.tableElement.hidden));
        if (!this.tableElement.hidden)
            this.fillTable();
    }

    fillTable() {
        if (this.view)
            this.tableElement.replaceChildren(...chartTables(this));
    }
}

function chartFont() {
    return "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
}

// Margins above and below the curves, and a range for values that are all equal.
function chartPad({low, high}, isLog) {
    if (low > high)
        return isLog ? [0.1, 1] : [0, 1];
    if (isLog) {
        const room = Math.max((high / low) ** 0.05, 1.02);
        return [low / room, high * room];
    }
    const room = high > low ? (high - low) * 0.06 : Math.abs(high) * 0.05 || 0.5;
    return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

// The context of a canvas with one pixel per pixel of the screen. Setting a size clears it, so only a new size is set.
function chartContext(canvas, width, height) {
    const ratio = Math.min(devicePixelRatio || 1, 3);
    const columns = Math.round(width * ratio), rows = Math.round(height * ratio);
    if (canvas.width !== columns || canvas.height !== rows) {
        canvas.width = columns;
        canvas.height = rows;
    }
    const context = canvas.getContext("2d");
    context.setTransform(columns / width, 0, 0, rows / height, 0, 0);
    return context;
}

// A chart as tables: one row per run, and, for a few runs, their values along the visible range.
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
