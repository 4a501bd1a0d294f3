/* SPDX-License-Identifier: Apache-2.0 */
/* ---- recordings: from lines to numbers ---- */

const $ = id => document.getElementById(id);
const root = document.documentElement;
const css = name => getComputedStyle(root).getPropertyValue(name).trim();
const count = v => Math.round(v).toLocaleString("en-US");

/* A cell is one number: its state above, its owner below. */
const OWNER_BITS = 28, NOBODY = 2 ** OWNER_BITS - 1;
const STATES = ".acpsmx";
const STATE_NAMES = ["free", "in use", "cached", "in use, pinned", "staged", "moving", "without memory"];
const [FREE, ACTIVE, CACHED, PINNED, STAGED, MOVING, AWAY] = [0, 1, 2, 3, 4, 5, 6];
const stateOf = cell => cell >>> OWNER_BITS;
const ownerOf = cell => cell & NOBODY;

function element(tag, text, parent, className) {
	const e = document.createElement(tag);
	e.textContent = text;
	if (className)
		e.className = className;
	parent.append(e);
	return e;
}

/* "12a7 3. 5=": twelve cells of owner 7, three free ones, five as they were in @last. */
function decodeMap(text, cells, last) {
	if (text === cells + "=")
		return last;
	const row = new Uint32Array(cells), isDigit = () => code >= 48 && code < 58;
	let i = 0, code = text.charCodeAt(0);
	const number = () => {
		let n = 0;
		for (; isDigit(); code = text.charCodeAt(++i))
			n = n * 10 + code - 48;
		return n;
	};
	for (let at = 0; at < cells; code = text.charCodeAt(++i)) {
		const n = number(), state = text[i];
		code = text.charCodeAt(++i);
		if (state === "=")
			row.set(last.subarray(at, at + n), at);
		else
			row.fill((STATES.indexOf(state) * 2 ** OWNER_BITS + (isDigit() ? number() : NOBODY)) >>> 0, at, at + n);
		at += n;
	}
	return row;
}

function addLine(rec, line) {
	if ("x" in line) {
		rec.x.push(line.x);
		line.v.forEach((v, i) => rec.col[rec.head.columns[i]].push(v));
		if (rec.head.cells)
			rec.rows.push(decodeMap(line.map, rec.head.cells, rec.rows[rec.rows.length - 1]));
	} else if ("owner" in line) {
		rec.owners.set(line.owner, line.name);
	} else if ("latency" in line) {
		rec.latencies.push(line);
	} else if ("results" in line) {
		rec.results = line;
	} else if ("end" in line) {
		rec.end = line;
	}
}

function parseRecording(name, lines) {
	const head = JSON.parse(lines[0]);
	const rec = { name, head, x: [], col: {}, rows: [], owners: new Map(), latencies: [], results: null, end: null };
	for (const column of head.columns)
		rec.col[column] = [];
	for (let i = 1; i < lines.length; i++)
		addLine(rec, JSON.parse(lines[i]));
	rec.title = (head.source || "kvmm") + (head.trace ? ", " + head.trace : "");
	return rec;
}

/* All that the page holds: recordings over time, and runs of compare. */
function readPage() {
	const out = { recordings: [], comparisons: [] };
	for (const script of document.querySelectorAll("script.recording")) {
		const lines = script.textContent.split("\n").filter(line => line), name = script.dataset.name;
		script.textContent = "";	/* it is large, and nobody needs it twice */
		if (lines[0].startsWith('{"kvmm_recording"'))
			out.recordings.push(parseRecording(name, lines));
		else
			out.comparisons.push({ name, runs: lines.map(line => JSON.parse(line)) });
	}
	return out;
}

/* The last moment that is not after x. */
function sampleAt(rec, x) {
	let lo = 0, hi = rec.x.length - 1;
	while (lo < hi) {
		const mid = (lo + hi + 1) >> 1;
		if (rec.x[mid] <= x)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

/* ---- numbers and times for people ---- */

const isTimed = rec => rec.head.x === "us";

/* @fine: with hundredths of a second. */
function when(rec, x, fine) {
	if (!isTimed(rec))
		return "request " + count(x);
	const s = x / 1e6, two = v => String(v).padStart(2, "0");
	const rest = fine ? (Math.floor(s * 100 % 6000 + 1e-6) / 100).toFixed(2).padStart(5, "0") : two(Math.floor(s % 60));
	if (s < 60)
		return s.toFixed(s < 10 || fine ? 2 : 1) + " s";
	if (s < 3600)
		return Math.floor(s / 60) + " min " + rest + " s";
	return Math.floor(s / 3600) + " h " + two(Math.floor(s % 3600 / 60)) + " min " + rest + " s";
}

function span(rec, x) {
	return isTimed(rec) ? when(rec, x) : count(x) + (x === 1 ? " request" : " requests");
}

/* A round step, so that about @n of them make @max. */
function niceStep(max, n) {
	const raw = Math.max(max, 1e-9) / n, p = 10 ** Math.floor(Math.log10(raw));
	return [1, 2, 2.5, 5, 10].map(f => f * p).find(s => s >= raw * .9999);
}

const CLOCK = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/* A label for a moment among others that are @step apart; both in x. */
function shortTime(rec, x, step) {
	if (!isTimed(rec))
		return count(x);
	const s = x / 1e6, gap = step / 1e6, two = v => String(v).padStart(2, "0");
	if (gap < 1 || s < 60)
		return (s < 60 ? "" : Math.floor(s / 60) + ":") + (s % 60).toFixed(gap < .01 ? 3 : gap < 1 ? 2 : 0).padStart(s < 60 ? 0 : 2, "0") + (s < 60 ? " s" : "");
	const h = Math.floor(s / 3600 + 1e-9), m = Math.floor(s % 3600 / 60 + 1e-9), rest = Math.floor(s % 60 + 1e-9);
	if (gap % 60 === 0)
		return h ? h + ":" + two(m) + " h" : m + " min";
	return (h ? h + ":" + two(m) : m) + ":" + two(rest);
}

/* Round moments from @x0 to @x1, at most @n: [[x, label], ...]. */
function ticks(rec, x0, x1, n) {
	const width = Math.max(1e-9, x1 - x0);
	let step = niceStep(width, n);
	if (isTimed(rec) && width / n >= 1e6)
		step = (CLOCK.find(s => width / (s * 1e6) <= n) || niceStep(width / 1e6, n)) * 1e6;
	if (!isTimed(rec))
		step = Math.max(1, Math.round(step));
	const out = [];
	for (let i = Math.ceil(x0 / step - 1e-9); i * step <= x1; i++)
		out.push([i * step, shortTime(rec, i * step, step)]);
	return out;
}

function shortNumber(v) {
	const a = Math.abs(v);
	return a >= 1e9 ? +(v / 1e9).toFixed(2) + " G" : a >= 1e6 ? +(v / 1e6).toFixed(2) + " M" :
		a >= 1e4 ? +(v / 1e3).toFixed(1) + " k" : String(+v.toFixed(a < 10 ? 2 : 1));
}

function bytes(v) {
	const text = shortNumber(v);
	return text + (/\d$/.test(text) ? " B" : "B");
}

function duration(value, unit) {
	const ns = unit === "us" ? value * 1e3 : value;
	return ns >= 6e10 ? +(ns / 6e10).toFixed(1) + " min" : ns >= 1e9 ? +(ns / 1e9).toFixed(ns < 1e10 ? 2 : 1) + " s" :
		ns >= 1e6 ? +(ns / 1e6).toFixed(ns < 1e7 ? 2 : 1) + " ms" : ns >= 1e3 ? +(ns / 1e3).toFixed(1) + " µs" : +ns.toFixed(0) + " ns";
}
