// A chart as a file: its points as CSV, a picture as SVG or PNG. Charts of a printed page are SVG too: the canvases
// have the size of the screen, and those never scrolled to are empty.
"use strict";

const PICTURE_HEAD = 26, PICTURE_ROW = 16, PICTURE_NAMES = 24, PICTURE_SCALE = 3;
const PRINT_WIDTH = 400, PRINT_HEIGHT = 200;

// Draws a chart at a size with `paint`, and leaves the screen unchanged.
function pictureLayout(chart, width, height, head, paint) {
    const view = chart.view;
    if (chart.layout(width, height, head))
        paint();
    chart.view = view;
}

// The names of the runs as [{series, x, row}], in as many rows as needed.
function pictureNames(context, chart, width) {
    const named = chart.series.filter(({isBeside}) => !isBeside).slice(0, PICTURE_NAMES);
    let x = 12, row = 0;
    return named.map((series) => {
        const needed = context.measureText(series.name).width + 40;
        if (x > 12 && x + needed > width) {
            x = 12;
            row++;
        }
        const place = {series, x, row};
        x += needed;
        return place;
    });
}

// make(width, height) gives the context to draw on: of a canvas or of SVG.
function pictureDraw(chart, colours, make) {
    const {clientWidth: width, clientHeight: height} = chart.plotElement;
    const ruler = document.createElement("canvas").getContext("2d");
    ruler.font = chartFont();
    const names = pictureNames(ruler, chart, width);
    const head = PICTURE_HEAD + PICTURE_ROW * (names.length > 0 ? names[names.length - 1].row + 1 : 0);
    const context = make(width, height + head);
    context.fillStyle = colours.surface;
    context.fillRect(0, 0, width, height + head);
    context.fillStyle = colours.ink;
    context.textBaseline = "middle";
    context.font = "bold " + chartFont();
    context.fillText(chart.tag, 12, PICTURE_HEAD / 2);
    context.font = chartFont();
    context.textAlign = "right";
    context.fillText(chart.note.textContent, width - 14, PICTURE_HEAD / 2);
    context.textAlign = "left";
    for (const {series, x, row} of names) {
        const y = PICTURE_HEAD + PICTURE_ROW * row + PICTURE_ROW / 2 - 2;
        context.strokeStyle = series.colour;
        context.lineWidth = 2;
        context.setLineDash(series.dash);
        context.beginPath();
        context.moveTo(x, y);
        context.lineTo(x + 16, y);
        context.stroke();
        context.fillText(series.name, x + 21, y);
    }
    context.setLineDash([]);
    pictureLayout(chart, width, height + head, head, () => chart.paint(context, colours));
    return context;
}

function pictureSvg(chart, colours) {
    const {root} = pictureDraw(chart, colours, (width, height) => new SvgContext(width, height));
    return new Blob([new XMLSerializer().serializeToString(root)], {type: "image/svg+xml"});
}

function picturePng(chart, colours) {
    const canvas = document.createElement("canvas");
    pictureDraw(chart, colours, (width, height) => {
        canvas.width = width * PICTURE_SCALE;
        canvas.height = height * PICTURE_SCALE;
        const context = canvas.getContext("2d");
        context.scale(PICTURE_SCALE, PICTURE_SCALE);
        return context;
    });
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

// A name may contain anything; spreadsheets would take one that begins like this for a formula.
function csvCell(text) {
    const plain = /^[=+\-@\t\r]/.test(text) ? "'" + text : text;
    return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

// The points of the visible range: one line each, with the range of the values in it.
function chartCsv(chart) {
    const {xScale, mode} = chart.view;
    const x = {step: "step", tokens: "tokens", time: "seconds", clock: "unix_time", flops: "flops"}[mode];
    const lines = [["run", "curve", x, "mean", "min", "max"].join(",")];
    for (const {name, curve, isBeside} of chart.series) {
        const run = isBeside ? name.replace(/ validation$/, "") : name;
        const tag = chart.tag + (isBeside ? " validation" : "");
        const end = curve.count;
        for (let i = curveLowerBound(curve, xScale.low); i < end && curve.x[i] <= xScale.high; i++)
            lines.push([csvCell(run), csvCell(tag), curve.x[i],
                ...[curve.mean[i], curve.low[i], curve.high[i]].map((value) => (Number.isNaN(value) ? "" : value))]
                .join(","));
    }
    return new Blob([lines.join("\n") + "\n"], {type: "text/csv"});
}

function downloadStart() {
    const save = (text, ending, make) => el("button", {type: "button", class: "text-button", text,
        onclick: async () => {
            const {chart} = byId("download");
            byId("download").hidePopover();
            const blob = await make(chart, curves.colours ?? themeColours());
            const address = URL.createObjectURL(blob);
            el("a", {href: address, download: chart.tag.replace(/[^\w.-]+/g, "-") + ending}).click();
            setTimeout(() => URL.revokeObjectURL(address), 60000);
        }});
    byId("main").append(el("div", {id: "download", class: "menu", popover: "auto", role: "group",
        "aria-label": "Download"},
    save("CSV", ".csv", chartCsv), save("SVG", ".svg", pictureSvg), save("PNG", ".png", picturePng)));
    byId("download").firstChild.autofocus = true;
}

// The button opens and closes the menu by itself; this sets its chart and place.
function downloadShow(chart, button) {
    const menu = byId("download"), box = button.getBoundingClientRect();
    menu.chart = chart;
    menu.style.top = `${box.bottom + 2}px`;
    menu.style.left = `${Math.max(4, Math.min(box.left, innerWidth - 180))}px`;
}

const printing = {isOn: false, theme: undefined};

function printChart(chart, colours) {
    const isBig = !chart.element.matches(".cards > :not(.card-big)");
    const width = isBig ? 2 * PRINT_WIDTH : PRINT_WIDTH, height = isBig ? 2 * PRINT_HEIGHT : PRINT_HEIGHT;
    const context = new SvgContext(width, height);
    pictureLayout(chart, width, height, 0, () => chart.paint(context, colours));
    chart.plotElement.querySelector("svg")?.remove();
    chart.plotElement.append(context.root);
}

// Paper is white. Charts without data are loaded first: an export has all of it at hand, and the browser prints when
// pending work is done.
function printBegin() {
    if (printing.isOn)
        return;
    const {dataset} = document.documentElement;
    Object.assign(printing, {isOn: true, theme: dataset.theme});
    dataset.theme = "light";
    legendUpdate();
    const charts = [...document.querySelectorAll("main > section:not([hidden]) .card")].map(({chart}) => chart);
    const own = charts.filter((chart) => curves.charts.get(chart.tag) === chart);
    const draw = () => {
        if (!printing.isOn)
            return;
        own.forEach(curvesShow);
        const colours = themeColours();
        charts.forEach((chart) => printChart(chart, colours));
    };
    Promise.all(own.map((chart) => loadChart(chart, curvesArrived))).then(draw);
    draw();
}

function printEnd() {
    if (!printing.isOn)
        return;
    printing.isOn = false;
    if (printing.theme === undefined)
        delete document.documentElement.dataset.theme;
    else
        document.documentElement.dataset.theme = printing.theme;
    document.querySelectorAll(".plot > svg").forEach((svg) => svg.remove());
    themeChanged();
}

function printStart() {
    addEventListener("beforeprint", printBegin);
    addEventListener("afterprint", printEnd);
    matchMedia("print").addEventListener("change", ({matches}) => (matches ? printBegin() : printEnd()));
}

// ---- SVG ----

// The subset of a canvas's context used by charts, as SVG: for printing and for files.

const SVG_SPACE = "http://www.w3.org/2000/svg";
const SVG_STATE = {fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "11px sans-serif",
    textAlign: "start", textBaseline: "alphabetic", lineJoin: "miter", dashes: [], group: null};
let svgClips = 0;  // clip paths so far: their ids are unique on the page

function svgNumber(value) {
    return Math.round(value * 100) / 100;
}

class SvgContext {
    constructor(width, height) {
        Object.assign(this, SVG_STATE);
        this.stack = [];
        this.path = [];
        this.ruler = document.createElement("canvas").getContext("2d");
        this.root = this.group = this.add("svg", {xmlns: SVG_SPACE, width, height, viewBox: `0 0 ${width} ${height}`});
    }

    add(tag, attributes) {
        const node = document.createElementNS(SVG_SPACE, tag);
        for (const [name, value] of Object.entries(attributes))
            if (name !== "xmlns")
                node.setAttribute(name, value);
        this.group?.append(node);
        return node;
    }

    save() {
        this.stack.push(Object.fromEntries(Object.keys(SVG_STATE).map((key) => [key, this[key]])));
    }

    restore() {
        Object.assign(this, this.stack.pop());
    }

    clip() {
        const id = `clip-${++svgClips}`;
        const clip = this.add("clipPath", {id});
        const path = this.add("path", {d: this.path.join("")});
        clip.append(path);
        this.group = this.add("g", {"clip-path": `url(#${id})`});
    }

    setLineDash(dashes) {
        this.dashes = dashes;
    }

    beginPath() {
        this.path = [];
    }

    closePath() {
        this.path.push("Z");
    }

    moveTo(x, y) {
        this.path.push(`M${svgNumber(x)} ${svgNumber(y)}`);
    }

    lineTo(x, y) {
        this.path.push(`L${svgNumber(x)} ${svgNumber(y)}`);
    }

    rect(x, y, width, height) {
        this.moveTo(x, y);
        this.path.push(`h${svgNumber(width)}v${svgNumber(height)}h${svgNumber(-width)}Z`);
    }

    // Charts draw whole circles only.
    arc(x, y, radius) {
        const half = `a${radius} ${radius} 0 1 0 `;
        this.moveTo(x - radius, y);
        this.path.push(`${half}${2 * radius} 0${half}${-2 * radius} 0`);
    }

    stroke() {
        if (this.path.length > 0)
            this.add("path", {d: this.path.join(""), fill: "none", stroke: this.strokeStyle,
                "stroke-width": this.lineWidth, "stroke-opacity": this.globalAlpha, "stroke-linejoin": this.lineJoin,
                ...(this.dashes.length > 0 ? {"stroke-dasharray": this.dashes.join(" ")} : {})});
    }

    fill() {
        if (this.path.length > 0)
            this.add("path", {d: this.path.join(""), fill: this.fillStyle, "fill-opacity": this.globalAlpha});
    }

    fillRect(x, y, width, height) {
        this.add("rect", {x, y, width, height, fill: this.fillStyle, "fill-opacity": this.globalAlpha});
    }

    measureText(text) {
        this.ruler.font = this.font;
        return this.ruler.measureText(text);
    }

    // "dominant-baseline" is unknown to many programs that read SVG: the baseline is moved instead.
    fillText(text, x, y, most = Infinity) {
        const [, size, family] = this.font.match(/([\d.]+)px (.*)/);
        const down = {middle: 0.35, top: 0.8}[this.textBaseline] ?? 0;
        const node = this.add("text", {x: svgNumber(x), y: svgNumber(y + down * size), fill: this.fillStyle,
            "font-size": size, "font-family": family,
            "text-anchor": {center: "middle", right: "end"}[this.textAlign] ?? "start",
            ...(this.measureText(text).width > most ? {textLength: most, lengthAdjust: "spacingAndGlyphs"} : {})});
        node.textContent = text;
    }
}
