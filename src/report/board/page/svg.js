// The subset of a canvas's context used by charts, as SVG: for printing and for files.
"use strict";

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
