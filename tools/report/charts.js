/* SPDX-License-Identifier: Apache-2.0 */
/* ---- numbers over time, by the chart library; and latencies, by hand ---- */

const charts = [];	/* { graph, colours } */
let syncing = false;

function panel(parent, title, note) {
	const section = element("section", "", parent), head = element("div", "", section, "head");
	element("h2", title, head);
	return { section, head, legend: element("div", note || "", head, "legend") };
}

/* How fast a running count grows by another, smoothed over a sixtieth of the run: moments come close at times. */
function rate(rec, counts, per) {
	const reach = (lastX(rec) - rec.x[0]) / 120, end = counts.length - 1;
	let a = 0, b = 0;
	return counts.map((_, i) => {
		while (a < i - 1 && rec.x[a + 1] < rec.x[i] - reach)
			a++;
		while (b < end && rec.x[b] < rec.x[i] + reach)
			b++;
		const over = per[b] - per[a];
		return over > 0 ? (counts[b] - counts[a]) / over : null;
	});
}

const last = values => values[values.length - 1];
const ratio = (counts, per) => counts.map((v, i) => per[i] ? v / per[i] : null);

/* A scale for what is usual: the empty pool at both ends of a run would flatten the rest. */
function usual(values) {
	const sorted = [...values].sort((a, b) => a - b);
	return Math.max(1, sorted[Math.floor(sorted.length * .97)] * 1.4);
}

function seriesLegend(legend, series, values, unit, format = v => shortNumber(v) + unit) {
	legend.textContent = "";
	series.forEach((s, i) => {
		const item = element("span", "", legend), v = values && values[i];
		element("i", "", item, "line").style.background = "var(" + s.colour + ")";
		item.append(s.name + (v === null || v === undefined ? "" : " " + format(v)));
	});
}

function axis(rec, unit, format) {
	return {
		x: {
			drawGrid: true, axisLabelWidth: 70, pixelsPerLabel: 90, valueFormatter: x => when(rec, x),
			ticker: (a, b, pixels) => ticks(rec, a, b, Math.max(2, Math.floor(pixels / 90))).map(([v, label]) => ({ v, label })),
		},
		y: { axisLabelWidth: 58, pixelsPerLabel: 34, axisLabelFormatter: v => format ? format(v) : shortNumber(v) + unit },
	};
}

const colourOptions = series => ({
	colors: series.map(s => css(s.colour)), gridLineColor: css("--grid"), axisLineColor: css("--line"),
});

/* All charts and the map show the same time. */
function followView() {
	syncing = true;
	for (const { graph } of charts)
		graph.updateOptions({ dateWindow: [map.x0, map.x1] });
	syncing = false;
}

function viewFrom(graph) {
	const [x0, x1] = graph.xAxisRange();
	if (!syncing && (Math.abs(x0 - map.x0) > 1e-6 * (x1 - x0) || Math.abs(x1 - map.x1) > 1e-6 * (x1 - x0)))
		setView(x0, x1, map.c0, map.c1);
}

/**
 * One chart. @series: [{ name, values, colour, fill }]; @options: unit, min, max, format, note; log: for
 * what lies powers of ten apart, where 0 is nothing and not drawn
 */
function chart(rec, title, series, options = {}) {
	const { section, legend } = panel($("charts"), title), plot = element("div", "", section, "plot");
	const unit = options.unit || "";
	plot.setAttribute("role", "img");
	plot.setAttribute("aria-label", title + " over time: " + series.map(s => s.name).join(", "));
	seriesLegend(legend, series, null, unit);
	if (options.note)
		element("p", options.note, section, "dim hint");
	const perSeries = {};
	for (const s of series)
		perSeries[s.name] = { fillGraph: !!s.fill };
	const graph = new Dygraph(plot, rec.x.map((x, i) => [x].concat(series.map(s => s.values[i]))), {
		labels: ["x"].concat(series.map(s => s.name)), series: perSeries, stepPlot: options.step !== false,
		axes: axis(rec, unit, options.format), legend: "never", strokeWidth: 1.5, fillAlpha: .16,
		valueRange: options.log ? null : [options.min || 0, options.max || null], includeZero: !options.log && !options.min, logscale: !!options.log, highlightCircleSize: 3, rightGap: 6,
		connectSeparatedPoints: true, animatedZooms: false, dateWindow: [map.x0, map.x1], ...colourOptions(series),
		highlightCallback: (e, x, points) => {
			const i = sampleAt(rec, x);
			seriesLegend(legend, series, series.map(s => s.values[i]), unit, options.format);
			if (rec.head.cells && map.cross === null) {
				drawMark();
				for (const view of views)
					drawTime(view.mark.getContext("2d"), x, .7);
			}
		},
		unhighlightCallback: () => { seriesLegend(legend, series, null, unit); dropCross(); },
		drawCallback: (g, first) => { if (!first) viewFrom(g); },
	});
	charts.push({ graph, series });
}

function recolourCharts() {
	for (const { graph, series } of charts)
		graph.updateOptions(colourOptions(series));
}

/* ---- which charts ---- */

function occupancyChart(rec, col) {
	const percent = values => values.map(v => 100 * v / rec.head.blocks);
	const other = views[1].rec && views[1].rec.col.held ? views[1].rec : null;
	const series = [{ name: other ? titleOf(rec) : "in use", values: percent(col.held), colour: "--accent", fill: !other }];
	if (other)
		series.push({ name: titleOf(other), values: percent(rec.x.map(x => other.col.held[sampleAt(other, x)])), colour: "--second" });
	if (col.cached && col.cached.some(v => v))
		series.unshift({ name: "in use or cached", values: percent(col.held.map((v, i) => v + col.cached[i])), colour: "--third", fill: true });
	const low = other ? 10 * Math.floor(Math.min(...series.map(s => [...s.values].sort((a, b) => a - b)[s.values.length >> 5])) / 10) : 0;
	chart(rec, "Occupancy, % of the blocks", series, { min: low, max: 100.5, unit: " %" });
}

const TIERS = [["hits_disk", "disk", "--fourth"], ["hits_host", "host", "--second"], ["hits_device", "device", "--accent"]];

/* Tier by tier, one on top of the other: the device below. */
function hitChart(rec, col) {
	const series = [], sum = rec.x.map(() => 0);
	for (const [name, label, colour] of [...TIERS].reverse()) {
		if (!col[name] || !col[name].some(v => v))
			continue;
		rate(rec, col[name], col.accesses).forEach((v, i) => { sum[i] = v === null ? null : sum[i] + 100 * v; });
		series.unshift({ name: (series.length ? "+ " : "") + label, values: [...sum], colour, fill: true });
	}
	const all = rec.x.map((_, i) => TIERS.reduce((n, [name]) => n + (col[name] ? col[name][i] : 0), 0));
	series.push({ name: "so far", values: ratio(all, col.accesses).map(v => v === null ? null : 100 * v), colour: "--dim" });
	chart(rec, "Hit rate of prompt blocks by tier, %", series,
		{ unit: " %", step: false, note: series.length > 1 ? "" : "No prompt block was found in any tier." });
}

function runsChart(rec, col) {
	const series = [{ name: col.accesses ? "runs of new blocks" : "runs", values: rate(rec, col.runs, col.requests), colour: "--accent" }];
	if (col.descriptors)
		series.push({ name: "descriptors of the prompt", values: rate(rec, col.descriptors, col.requests), colour: "--second" });
	if (series.some(s => s.values.some(v => v !== null && v !== 1)))
		chart(rec, col.descriptors ? "Runs and descriptors a request" : "Runs a request", series, { step: false });
}

function setUpCharts(rec) {
	const col = rec.col, has = (...names) => names.every(name => col[name]);
	const counted = (title, list) => {
		const series = list.filter(([name]) => col[name] && col[name].some(v => v)).map(([name, label, colour]) => ({ name: label, values: col[name], colour }));
		if (series.length)
			chart(rec, title(series.map(s => s.name).join(" and ")), series);
	};
	/* What is counted from the beginning says little as a sum. */
	const rates = (title, list) => {
		const per = isTimed(rec) ? 1e6 : 1, series = list.filter(([name]) => col[name] && last(col[name]) > col[name][0]).map(([name, label, colour]) =>
			({ name: label, values: rate(rec, col[name], rec.x).map(v => v === null ? null : v * per), colour }));
		if (series.length)
			chart(rec, title(series.map(s => s.name).join(" and ")) + (isTimed(rec) ? ", a second" : ", a request"), series, { step: false });
	};
	if (has("held"))
		occupancyChart(rec, col);
	if (has("accesses", "hits_device") && last(col.accesses))
		hitChart(rec, col);
	if (has("runs", "requests"))
		runsChart(rec, col);
	if (has("owned_runs", "owners") && col.owners.some(v => v))
		chart(rec, "Runs an owner has", [{ name: "runs", values: ratio(col.owned_runs, col.owners), colour: "--accent" }]);
	if (has("largest"))
		chart(rec, "Longest free run, in blocks", [{ name: "longest", values: col.largest, colour: "--third" }], { max: usual(col.largest) });
	if (has("free_runs"))
		chart(rec, "Free runs", [{ name: "runs", values: col.free_runs, colour: "--accent" }]);
	rates(names => "Blocks " + names, [["moved", "moved", "--second"], ["evicted", "evicted", "--bad"]]);
	rates(() => "Blocks copied between tiers", [["offloaded", "down", "--accent"], ["loaded", "up", "--second"]]);
	if (has("offloaded_bytes", "loaded_bytes") && isTimed(rec) && last(col.offloaded_bytes) + last(col.loaded_bytes))
		bytesChart(rec, col);
	if (has("host_blocks", "disk_blocks") && last(col.host_blocks) + last(col.disk_blocks))
		counted(() => "Blocks with a copy below the device", [["disk_blocks", "disk", "--fourth"], ["host_blocks", "host", "--second"]]);
	if (has("stalled_us") && isTimed(rec) && last(col.stalled_us) > col.stalled_us[0])
		chart(rec, "Time in which a request waited for memory, %", [{ name: "some", values: rate(rec, col.stalled_us, rec.x).map(v => v === null ? null : Math.min(100, 100 * v)), colour: "--bad", fill: true }], { unit: " %", step: false });
	latenciesChart(rec, col);
	rates(() => "Found no run though enough was free", [["fails", "requests", "--bad"]]);
	if (has("wait_p50", "wait_p99") && col.wait_p99.some(v => v))
		waitChart(rec, col);
	/* The first ones had the whole width until there were others beside them. */
	for (const { graph } of charts)
		graph.resize();
}

function bytesChart(rec, col) {
	const perSecond = values => rate(rec, values, rec.x).map(v => v === null ? null : v * 1e6);
	chart(rec, "Bytes copied between tiers, a second", [
		{ name: "down", values: perSecond(col.offloaded_bytes), colour: "--accent" },
		{ name: "up", values: perSecond(col.loaded_bytes), colour: "--second" },
	], { format: bytes, step: false });
}

const SLOW = [["queue_p99", "in the queue", "--bad"], ["room_p99", "making room", "--accent"], ["offload_p99", "copies down", "--third"],
	["load_p99", "copies up", "--second"], ["disk_p99", "reads from the disk", "--fourth"]];

/* Up to the bound of a bucket; where nothing ended since the moment before there is nothing to say. */
function latenciesChart(rec, col) {
	const series = SLOW.filter(([name]) => col[name] && col[name].some(v => v))
		.map(([name, label, colour]) => ({ name: label, values: col[name].map(v => v || null), colour }));
	if (series.length)
		chart(rec, "99 of 100 took at most (measured)", series, { log: true, format: v => duration(v, "ns") });
}

/* Where nobody was admitted since the moment before there is nothing to say. */
function waitChart(rec, col) {
	const seconds = values => values.map((v, i) => i && col.requests && col.requests[i] === col.requests[i - 1] ? null : v / 1e6);
	chart(rec, "Wait for admission (simulated)", [
		{ name: "99 of 100 at most", values: seconds(col.wait_p99), colour: "--second" },
		{ name: "half at most", values: seconds(col.wait_p50), colour: "--accent" },
	], { unit: " s", step: false });
}

function showCharts(rec) {
	charts.forEach(({ graph }) => graph.destroy());
	charts.length = 0;
	$("charts").textContent = "";
	if (rec.x.length < 2 || !rec.head.columns.length)
		return;
	if (typeof Dygraph === "undefined")
		element("p", "This program was built without its chart library, so there are no time series here.", panel($("charts"), "Time series").section, "dim");
	else
		setUpCharts(rec);
}

/* ---- latencies ---- */

function svgElement(name, attributes, parent) {
	const e = document.createElementNS("http://www.w3.org/2000/svg", name);
	for (const [key, value] of Object.entries(attributes))
		e.setAttribute(key, value);
	parent.append(e);
	return e;
}

function svgText(parent, x, y, anchor, text) {
	svgElement("text", { x, y, "text-anchor": anchor }, parent).textContent = text;
}

/* Buckets into doublings: bar 0 is what took no time, bar k what took from 2^(k-1) to below 2^k. */
function doublings(buckets) {
	const bars = [];
	for (const [limit, n] of buckets) {
		const k = limit ? Math.floor(Math.log2(limit)) + 1 : 0;
		bars[k] = (bars[k] || 0) + n;
	}
	return Array.from(bars, n => n || 0);
}

/* As large as a number of JSON may be: there is no bound. */
const OPEN = 2 ** 53 - 1;

function quantile(latency, q) {
	let below = 0;
	for (const [limit, n] of latency.buckets) {
		below += n;
		if (below >= q * latency.n)
			return Math.min(limit, latency.max);
	}
	return 0;
}

/* "within 5 ms", or "more than 5 s". */
function within(latency, q) {
	const value = quantile(latency, q), bounds = latency.buckets.map(([limit]) => limit);
	return value === OPEN ? "more than " + duration(bounds[bounds.length - 2] || 0, latency.unit) : "within " + duration(value, latency.unit);
}

/* Decades, where they lie between doublings: bar k begins at 2^(k - 1). */
function decades(first, nr, unit) {
	const out = [];
	for (let e = 0; e < 20; e++) {
		const at = e * Math.log2(10) + 1 - first;
		if (at >= 0 && at <= nr)
			out.push([at, duration(10 ** e, unit)]);
	}
	return out;
}

/* @bars: [[count, what it is], ...]; @labels: [[place, text], ...] in bars from the left. */
function drawBars(svg, latency, bars, labels) {
	const W = Math.max(280, svg.parentNode.clientWidth - 38), H = 190, L = 52, B = 22, T = 8, top = Math.max(...bars.map(([n]) => n)) / latency.n;
	const step = niceStep(100 * top, 4), w = (W - L) / bars.length, sy = v => T + (1 - v / top) * (H - T - B);
	svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
	for (let v = 0; v <= 100 * top; v += step) {
		svgElement("line", { class: "grid", x1: L, x2: W, y1: sy(v / 100), y2: sy(v / 100) }, svg);
		svgText(svg, L - 6, sy(v / 100) + 4, "end", shortNumber(v) + " %");
	}
	bars.forEach(([n, what], i) => {
		const y = sy(n / latency.n);
		const bar = svgElement("rect", { class: "bar " + latency.how, x: L + i * w + 1, width: Math.max(1, w - 2), y, height: H - B - y, rx: 1.5 }, svg);
		svgElement("title", {}, bar).textContent = what + ": " + count(n);
		/* What is hardly to be seen can be pointed at all the same. */
		svgElement("title", {}, svgElement("rect", { class: "hit", x: L + i * w, width: w, y: T, height: H - T - B }, svg)).textContent = what + ": " + count(n);
	});
	let last = -1e9;
	for (const [at, text] of labels) {
		const x = Math.min(L + at * w, W - 22);
		if (x - last < 52)
			continue;
		svgText(svg, x, H - 5, "middle", text);
		last = x;
	}
}

/* Eight buckets for each doubling, as a replay counts: a bar for each doubling. */
function drawDoublings(svg, latency) {
	const all = doublings(latency.buckets), first = all[0] ? 0 : Math.max(1, all.findIndex(n => n)), { unit } = latency;
	const name = k => k ? duration(2 ** (k - 1), unit) + " to " + duration(2 ** k, unit) : "none";
	const bars = all.slice(first).map((n, i) => [n, name(first + i)]), labels = decades(first, bars.length, unit);
	drawBars(svg, latency, bars, first ? labels : [[.5, "none"]].concat(labels.filter(([at]) => at > 1)));
}

/* All buckets of an engine's histogram, as they are: a bar for each, from the first to the last with anything. */
function drawBuckets(svg, latency) {
	const { buckets, unit } = latency, first = buckets.findIndex(([, n]) => n), filled = buckets.length - [...buckets].reverse().findIndex(([, n]) => n);
	const from = Math.max(0, Math.min(first, filled - 6)), end = Math.max(filled, Math.min(buckets.length, from + 6));
	const low = i => i ? duration(buckets[i - 1][0], unit) : "0";
	const name = i => buckets[i][0] === OPEN ? "more than " + low(i) : low(i) + " to " + duration(buckets[i][0], unit);
	const shown = buckets.slice(from, end);
	drawBars(svg, latency, shown.map(([, n], i) => [n, name(from + i)]), shown.map((_, i) => [i, low(from + i)])
		.concat(buckets[end - 1][0] === OPEN ? [] : [[shown.length, duration(buckets[end - 1][0], unit)]]));
}

function drawLatency(latency) {
	const { section, legend } = panel($("charts"), "How long " + latency.latency + " (" + latency.how + ")");
	const svg = svgElement("svg", { role: "img" }, section);
	if (latency.complete)
		latency.max = OPEN;
	legend.textContent = count(latency.n) + " in all; half " + within(latency, .5) + ", 99 of 100 " + within(latency, .99) +
		(latency.complete ? ", the longest " + within(latency, 1) : ", longest " + duration(latency.max, latency.unit));
	svg.setAttribute("aria-label", "histogram of how long " + latency.latency + ": " + legend.textContent);
	if (latency.complete)
		drawBuckets(svg, latency);
	else
		drawDoublings(svg, latency);
}

function showLatencies(rec) {
	for (const latency of rec.latencies)
		if (latency.max || latency.complete)	/* else nobody waited, and there is nothing to draw */
			drawLatency(latency);
}
