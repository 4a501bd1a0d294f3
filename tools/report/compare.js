/* SPDX-License-Identifier: Apache-2.0 */
/* ---- policies and sizes side by side; and recordings side by side ---- */

const HUE = i => `hsl(${(215 + i * 137.508) % 360} 62% 52%)`;

/**
 * A chart of lines. @series: [{ name, points: [[x, y], ...], reference, dashes }]
 * @x: { at: x => 0..1, ticks: [[x, label], ...], name }
 */
function lineChart(parent, title, series, x, unit, most = Infinity) {
	const { section, legend } = panel(parent, title);
	const W = Math.max(280, section.clientWidth - 38), H = 340, L = 52, R = 22, T = 10, B = 40;
	const svg = svgElement("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title }, section);
	const all = series.flatMap(s => s.points.map(p => p[1])), max = Math.max(.05, ...all), min = Math.min(max, ...all);
	const step = niceStep(Math.max(max - min, max / 50), 7), low = Math.max(0, Math.floor(min / step) * step);
	const top = Math.max(low + step, Math.min(most, Math.ceil(max / step) * step));
	const sx = v => L + x.at(v) * (W - L - R), sy = v => T + (1 - (v - low) / (top - low)) * (H - T - B);
	for (let v = low; v <= top * 1.0001; v += step) {
		svgElement("line", { class: "grid", x1: L, x2: W - R, y1: sy(v), y2: sy(v) }, svg);
		svgText(svg, L - 6, sy(v) + 4, "end", shortNumber(v) + unit);
	}
	let last = -1e9;
	for (const [v, label] of x.ticks) {
		svgElement("line", { class: "grid", x1: sx(v), x2: sx(v), y1: T, y2: H - B }, svg);
		if (sx(v) - last > 52) {
			svgText(svg, sx(v), H - B + 16, "middle", label);
			last = sx(v);
		}
	}
	svgText(svg, (L + W - R) / 2, H - 4, "middle", x.name);
	series.forEach((s, i) => {
		const item = element("span", "", legend), colour = s.reference ? "var(--dim)" : HUE(i);
		element("i", "", item, "line").style.background = colour;
		item.append(s.name);
		item.dataset.row = i;
	});
	[...series.entries()].reverse().forEach(([i, s]) => drawCurve(svg, s, i, sx, sy, unit));
	followCurves(section);
}

function drawCurve(svg, s, i, sx, sy, unit) {
	const g = svgElement("g", { class: s.reference ? "curve reference" : "curve", "data-row": i, style: "--c:" + (s.reference ? "var(--dim)" : HUE(i)) }, svg);
	svgElement("polyline", { "stroke-dasharray": s.dashes || "none", points: s.points.map(p => sx(p[0]).toFixed(1) + "," + sy(p[1]).toFixed(1)).join(" ") }, g);
	if (s.points.length > 64)
		return;
	for (const p of s.points) {
		const circle = svgElement("circle", { r: 3.2, cx: sx(p[0]), cy: sy(p[1]) }, g);
		svgElement("title", {}, circle).textContent = s.name + ", " + count(p[0]) + ": " + p[1].toFixed(2) + unit;
	}
}

/* Pointing at a curve, or at its name, puts the others into the background. */
function followCurves(section) {
	const point = row => {
		section.classList.toggle("focus", row !== undefined);
		for (const curve of section.querySelectorAll(".curve"))
			curve.classList.toggle("hot", curve.dataset.row === row);
	};
	section.onpointerover = e => {
		const of = e.target.closest("[data-row]");
		point(of ? of.dataset.row : undefined);
	};
	section.onpointerleave = () => point(undefined);
}

/* ---- runs of kvmm-replay compare ---- */

const DASHES = { min: "7 4", bound: "2 4", infinite: "1 6" };
const hitRate = run => run.prompt_blocks ? 100 * run.hits / run.prompt_blocks : 0;

/* With tiers: of the device alone, and the policy of writing as well. */
const blocksOf = run => run.device_blocks || run.n;
const rowOf = run => run.write_policy ? run.policy + " " + run.write_policy : run.policy;

const TIER_COLUMNS = [
	["device, %", run => 100 * run.device_hits / Math.max(1, run.prompt_blocks), 2],
	["host, %", run => 100 * run.host_hits / Math.max(1, run.prompt_blocks), 2],
	["disk, %", run => run.disk_hits === undefined ? undefined : 100 * run.disk_hits / Math.max(1, run.prompt_blocks), 2],
	["to the host, GB", run => run.offload_bytes / 1e9, 1],
	["to the device, GB", run => run.load_bytes / 1e9, 1],
	["to the disk, GB", run => run.disk_write_bytes === undefined ? undefined : run.disk_write_bytes / 1e9, 1],
	["from the disk, GB", run => run.disk_read_bytes === undefined ? undefined : run.disk_read_bytes / 1e9, 1],
	["stalls, s", run => run.stall_us / 1e6, 3],
	["back too soon, %", run => run.thrash_ppm / 1e4, 2],
];

function tiersTable(parent, board, i) {
	const rows = board.rows.filter(row => row.cells[i] && row.cells[i].host_blocks);
	if (!rows.length)
		return;
	const first = rows[0].cells[i], columns = TIER_COLUMNS.filter(c => c[1](first) !== undefined);
	const { section } = panel(parent, "Tiers below " + count(board.sizes[i]) + " blocks: host of " + count(first.host_blocks) +
		(first.disk_blocks ? ", disk of " + count(first.disk_blocks) : ""), "hits: % of the prompt blocks");
	const body = tableOf(section, [""].concat(columns.map(c => c[0])));
	for (const row of rows) {
		const tr = element("tr", "", body);
		element("th", row.policy, tr);
		for (const [, of, digits] of columns)
			element("td", of(row.cells[i]).toFixed(digits), tr);
	}
}

/* Rows in the order they came: policies, then what no policy can know. */
function boardOf(runs) {
	const sizes = [...new Set(runs.filter(r => r.n).map(blocksOf))].sort((a, b) => a - b);
	const rows = [...new Set(runs.map(rowOf))].map(policy => {
		const of = runs.filter(r => rowOf(r) === policy), any = of.find(r => !r.n);
		return { policy, reference: of[0].reference, cells: sizes.map(n => of.find(r => blocksOf(r) === n) || any) };
	});
	return { sizes, rows };
}

const MOST_CURVES = 5;

/* The best policies, each curve once, and the closest bound: more lines than that say nothing. */
function bestRows(board) {
	const sum = row => row.cells.reduce((n, run) => n + (run ? hitRate(run) : 0), 0), seen = new Set();
	const best = board.rows.filter(row => !row.reference).sort((a, b) => sum(b) - sum(a))
		.filter(row => !seen.has(sum(row)) && seen.add(sum(row))).slice(0, MOST_CURVES);
	return best.concat(board.rows.filter(row => row.reference).sort((a, b) => sum(a) - sum(b)).slice(0, 1));
}

function boardChart(parent, board) {
	const first = Math.log(board.sizes[0]), last = Math.log(board.sizes[board.sizes.length - 1]);
	lineChart(parent, "Hit rate of prompt blocks, by blocks in the pool", bestRows(board).map(row => ({
		name: row.policy, reference: row.reference, dashes: row.reference ? DASHES[row.policy] : "none",
		points: row.cells.map((run, i) => run && [board.sizes[i], hitRate(run)]).filter(p => p),
	})), {
		at: n => last > first ? (Math.log(n) - first) / (last - first) : .5,
		ticks: board.sizes.map(n => [n, count(n)]), name: "blocks in the pool",
	}, " %");
}

function tableOf(section, heads) {
	const scroll = element("div", "", section, "scroll"), table = element("table", "", scroll);
	const head = element("tr", "", element("thead", "", table));
	for (const text of heads)
		element("th", text, head);
	return element("tbody", "", table);
}

function boardTable(parent, board) {
	const { section } = panel(parent, "Hits, % of the prompt blocks", "bold: the best policy; small: % closed of the gap from lru to min");
	const body = tableOf(section, ["blocks"].concat(board.sizes.map(count)));
	for (const row of board.rows) {
		const tr = element("tr", "", body, row.reference ? "reference" : "");
		element("th", row.policy, tr);
		for (const run of row.cells) {
			const td = element("td", run ? hitRate(run).toFixed(2) + " " : "–", tr, run && run.best ? "best" : "");
			const gap = run && !row.reference && row.policy !== "lru" && typeof run.gap_closed_ppm === "number" ? run.gap_closed_ppm / 1e4 : null;
			element("small", gap === null ? "" : gap < -999 ? "< -999" : (gap > 0 ? "+" : "") + gap.toFixed(1), td);
		}
	}
}

/* A histogram as small bars, one for each doubling; all of a column end at the same power. */
function spark(tr, histogram, bars, cold) {
	const td = element("td", "", tr, cold ? "spark cold" : "spark"), log2 = histogram ? histogram.log2 : [];
	const svg = svgElement("svg", { viewBox: `0 0 ${bars * 10} 26`, preserveAspectRatio: "none" }, td), max = Math.max(1, ...log2);
	log2.forEach((n, k) => {
		const h = 26 * n / max, bar = svgElement("rect", { x: k * 10, y: 26 - h, width: 9, height: h }, svg);
		svgElement("title", {}, bar).textContent = (k ? "below " + count(2 ** k) : "0") + ": " + count(n);
	});
}

const AGE_COLUMNS = [["idle_at_hit", "idle at a hit"], ["idle_at_eviction", "idle at eviction"], ["refault_distance", "refault distance, evictions"]];

function agesTable(parent, board, i) {
	const rows = board.rows.filter(row => row.cells[i] && row.cells[i].idle_at_hit);
	if (!rows.length)
		return;
	const section = element("section", "", parent), details = element("details", "", section);
	element("summary", "Ages with " + count(board.sizes[i]) + " blocks, " + (rows[0].cells[i].kind === "conc" ? "in µs" : "in requests"), details);
	const body = tableOf(details, [""].concat(AGE_COLUMNS.map(c => c[1]), ["near refaults, %", "evicted unused, %"]));
	const bars = AGE_COLUMNS.map(([name]) => Math.max(1, ...rows.map(row => row.cells[i][name].log2.length)));
	for (const row of rows) {
		const run = row.cells[i], tr = element("tr", "", body, row.reference ? "reference" : "");
		element("th", row.policy, tr);
		AGE_COLUMNS.forEach(([name], k) => spark(tr, run[name], bars[k], k > 0));
		element("td", (100 * run.refaults_near / Math.max(1, run.prompt_blocks)).toFixed(2), tr);
		element("td", (100 * run.evicted_unused / Math.max(1, run.evictions)).toFixed(1), tr);
	}
	element("p", "A bar for each doubling from 0 on. Near refaults: blocks filled again within one pool's worth of evictions, of all prompt blocks.", details, "dim hint");
}

function showComparison({ runs }) {
	for (const trace of new Set(runs.map(r => r.trace))) {
		const of = runs.filter(r => r.trace === trace), parent = element("div", "", $("comparison")), board = boardOf(of);
		element("h2", trace + ": " + count(of[0].requests || 0) + " requests, " + count(of[0].prompt_blocks) + " prompt blocks, " +
			(of.some(r => r.kind === "conc") ? "side by side in time" : "one after the other"), parent, "title");
		if (board.sizes.length)
			boardChart(parent, board);
		boardTable(parent, board);
		board.sizes.forEach((_, i) => tiersTable(parent, board, i));
		board.sizes.forEach((_, i) => agesTable(parent, board, i));
	}
}

/* ---- several recordings ---- */

/* Mean over time: each value lasts until the next moment. */
function mean(rec, values) {
	let sum = 0, over = 0;
	for (let i = 0; i + 1 < rec.x.length; i++) {
		sum += values[i] * (rec.x[i + 1] - rec.x[i]);
		over += rec.x[i + 1] - rec.x[i];
	}
	return over ? sum / over : values[0] || 0;
}

const hitsOf = (rec, i) => TIERS.reduce((n, [name]) => n + (rec.col[name] ? rec.col[name][i] : 0), 0);

const MEASURES = [
	["memory that requests asked for, %", rec => rec.results && rec.results.results.asked_occupancy_ppm / 1e4, 1],
	["held, with what is rounded up, %", rec => rec.col.held && 100 * mean(rec, rec.col.held) / rec.head.blocks, 1],
	["hits, %", rec => rec.col.accesses && 100 * hitsOf(rec, rec.x.length - 1) / last(rec.col.accesses), 1],
	["of the device, %", rec => rec.col.hits_host && 100 * last(rec.col.hits_device) / last(rec.col.accesses), 1],
	["runs a request", rec => rec.col.runs && last(rec.col.runs) / last(rec.col.requests), -1],
	["descriptors a request", rec => rec.col.descriptors && last(rec.col.descriptors) / last(rec.col.requests), -1],
	["mean of free runs", rec => rec.col.free_runs && mean(rec, rec.col.free_runs), -1],
	["found no run", rec => rec.col.fails && last(rec.col.fails), -1],
	["blocks moved", rec => rec.col.moved && last(rec.col.moved), -1],
	["blocks evicted", rec => rec.col.evicted && last(rec.col.evicted), -1],
];

function recordingTable(recordings) {
	const { section } = panel($("comparison"), "Recordings side by side", "bold: the best of a row");
	const body = tableOf(section, [""].concat(recordings.map(titleOf)));
	for (const [name, of, sign] of MEASURES) {
		const values = recordings.map(rec => rec.x.length ? of(rec) : undefined), known = values.filter(v => Number.isFinite(v));
		if (!known.some(v => v))
			continue;
		const tr = element("tr", "", body), best = sign > 0 ? Math.max(...known) : Math.min(...known);
		element("th", name, tr);
		for (const v of values)
			element("td", Number.isFinite(v) ? (Math.abs(v) < 1000 ? v.toFixed(2) : count(v)) : "–", tr, v === best && known.some(other => other !== best) ? "best" : "");
	}
}

/* Runs of different length on one axis: how much of each is over. */
function overlay(recordings, title, values) {
	const series = recordings.filter(rec => rec.x.length > 1 && (values(rec) || []).some(v => v)).map(rec => {
		const all = values(rec), n = 300, points = [];
		for (let k = 0; k <= n; k++) {
			const v = all[sampleAt(rec, rec.x[0] + (lastX(rec) - rec.x[0]) * k / n)];
			if (typeof v === "number")
				points.push([100 * k / n, v]);
		}
		return { name: titleOf(rec), points };
	});
	if (series.length > 1)
		lineChart($("comparison"), title, series, {
			at: v => v / 100, ticks: [0, 20, 40, 60, 80, 100].map(v => [v, v + " %"]), name: "of each recording",
		}, " %", 100);
}

function compareRecordings(recordings) {
	recordingTable(recordings);
	overlay(recordings, "Hit rate so far", rec => rec.col.accesses && rec.x.map((_, i) => rec.col.accesses[i] ? 100 * hitsOf(rec, i) / rec.col.accesses[i] : null));
	overlay(recordings, "Held, with what is rounded up", rec => rec.col.held && rec.col.held.map(v => 100 * v / rec.head.blocks));
}
