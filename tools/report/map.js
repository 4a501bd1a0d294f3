/* SPDX-License-Identifier: Apache-2.0 */
/* ---- the memory map: time to the right, block numbers upwards ---- */

/* @now: the moment of the clock; @owner: its life is shown; both may be null. */
const map = { rec: null, x0: 0, x1: 1, c0: 0, c1: 1, cross: null, now: null, owner: null, colours: null, onview: () => {} };
const canvas = $("map"), mark = $("mark"), tip = $("tip");

/* One above the other, over the same time; the second has no recording where there is nothing to compare. */
const views = [{ canvas, mark, rec: null }, { canvas: $("map2"), mark: $("mark2"), rec: null }];

function showTip(x, y, text) {
	tip.textContent = text;
	tip.style.display = "block";
	const w = tip.offsetWidth, h = tip.offsetHeight;
	tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - w - 8)) + "px";
	tip.style.top = (y + h + 24 > innerHeight ? Math.max(4, y - h - 10) : y + 16) + "px";
}
function hideTip() { tip.style.display = "none"; }

/* ---- colours ---- */

function hslToRgb(h, s, l) {
	const a = s * Math.min(l, 1 - l);
	return [0, 8, 4].map(n => {
		const k = (n + h / 30) % 12;
		return Math.round(255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
	});
}

const pack = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
const unpack = v => "rgb(" + [v & 255, v >> 8 & 255, v >> 16 & 255].join(",") + ")";
const mix = (a, b, f) => a.map((v, i) => Math.round(v + (b[i] - v) * f));

const AGES = [[255, 226, 138], [246, 186, 84], [226, 140, 62], [186, 92, 66], [128, 60, 76], [66, 40, 74]];
const AGE_LEVELS = 64, OWNER_SHADES = 256;

/*
 * Owners are cool, so that what is free, pinned or on its way stands out; neighbours in number get hues
 * far apart. What is cached is the same hue, but fainter.
 */
function makeColours() {
	const dark = root.dataset.theme === "dark";
	const shade = (sat, light) => Uint32Array.from({ length: OWNER_SHADES }, (_, i) =>
		pack(hslToRgb(168 + i * 137.508 % 112, sat, light + (i * 5 % 8 - 3.5) * .035)));
	const state = (dark ?
		[[10, 12, 16], [92, 152, 250], [58, 88, 138], [240, 160, 90], [150, 120, 220], [92, 203, 152], [8, 10, 13]] :
		[[255, 247, 224], [52, 112, 214], [168, 196, 238], [216, 112, 36], [138, 92, 200], [46, 150, 98], [120, 128, 140]]).map(pack);
	return {
		state: Uint32Array.from(state),
		strong: dark ? shade(.48, .52) : shade(.5, .52),
		faint: dark ? shade(.25, .29) : shade(.38, .8),
		moved: pack(dark ? [255, 140, 60] : [200, 80, 0]),
		age: Uint32Array.from({ length: AGE_LEVELS }, (_, i) => {
			const f = i / (AGE_LEVELS - 1) * (AGES.length - 1), k = Math.min(AGES.length - 2, Math.floor(f));
			return pack(mix(AGES[k], AGES[k + 1], f - k));
		}),
	};
}

/* Five levels for each doubling of how many requests ago. */
const ageLevel = age => Math.min(AGE_LEVELS - 1, Math.round(Math.log2(1 + Math.max(0, age)) * 4));

/* What has an age: cached blocks, or, where nothing is cached, those in use. */
const agedState = rec => rec.col.cached ? CACHED : ACTIVE;

/* A function from cells to colours, for one moment. */
function painter(how, colours, newest, aged) {
	const { state, strong, faint, age } = colours;
	if (how === "state")
		return cell => state[stateOf(cell)];
	if (how === "age")
		return cell => {
			const s = stateOf(cell), owner = ownerOf(cell);
			return s === aged && owner !== NOBODY ? age[ageLevel(newest - 1 - owner)] : state[s];
		};
	return cell => {
		const s = stateOf(cell), owner = ownerOf(cell);
		if (owner === NOBODY || s === FREE || s === MOVING || s === AWAY || s === PINNED)
			return state[s];
		return (s === CACHED ? faint : strong)[owner & OWNER_SHADES - 1];
	};
}

function drawLegend() {
	const legend = $("map-legend"), c = map.colours, how = $("colour").value, seen = map.rec.states;
	const swatch = (colours, text) => {
		const s = element("span", "", legend);
		for (const colour of colours)
			element("i", "", s).style.cssText = "background:" + unpack(colour) + (colour === c.state[FREE] ? ";outline:1px solid var(--line)" : "");
		s.append(text);
	};
	legend.textContent = "";
	swatch([c.state[FREE]], "free");
	if (how === "age") {
		if (agedState(map.rec) === CACHED)
			swatch([c.state[ACTIVE]], "in use");
		swatch([c.age[0]], (agedState(map.rec) === CACHED ? "cached" : "in use") + ", of the newest " + ownerWord());
		swatch([c.age[ageLevel(30)]], "30 before it");
		swatch([c.age[ageLevel(1000)]], "1,000 before");
		swatch([c.age[ageLevel(30000)]], "30,000 before");
	} else if (how === "owner") {
		swatch(c.strong.slice(0, 4), "in use, a shade for each " + ownerWord());
		if (seen.has(CACHED))
			swatch(c.faint.slice(0, 4), "cached");
	}
	if (views.some(({ rec }) => rec && rec.col.moved && last(rec.col.moved)))
		swatch([c.moved], "stripe on top: blocks were moved");
	for (const s of seen)
		if (s !== FREE && (how === "state" || how === "owner" && (s === PINNED || s >= STAGED)))
			swatch([c.state[s]], STATE_NAMES[s]);
}

/* Which states there are, and whether anybody owns anything: in a hundred of the moments. */
function survey(rec) {
	const states = new Set();
	rec.owned = false;
	for (let i = 0; i < rec.rows.length; i += Math.ceil(rec.rows.length / 100))
		for (const cell of rec.rows[i]) {
			states.add(stateOf(cell));
			rec.owned = rec.owned || ownerOf(cell) !== NOBODY;
		}
	rec.states = new Set([...states].sort());
}

/* How many owners there have been until each moment: ages are counted from there. */
function newestOf(rec) {
	if (!rec.newest)
		rec.newest = rec.col.requests || (most => rec.rows.map((row, i) => {
			if (i === 0 || row !== rec.rows[i - 1])
				for (const cell of row)
					if (ownerOf(cell) !== NOBODY && ownerOf(cell) >= most)
						most = ownerOf(cell) + 1;
			return most;
		}))(0);
	return rec.newest;
}

/* ---- drawing ---- */

const lastX = rec => rec.x[rec.x.length - 1];
const endX = rec => Math.max(lastX(rec), rec.x[0] + 1);

function drawMap() {
	views.filter(view => view.rec).forEach(paintView);
	drawScales();
	drawMark();
}

/* Half way to the background. */
const fade = v => (((v >>> 1 & 0x7f7f7f) + (root.dataset.theme === "dark" ? 0x0a0a0a : 0x7c7c7c)) | 255 << 24) >>> 0;

/* All else steps back while one owner is chosen. */
const withChosen = paint => map.owner === null ? paint :
	cell => ownerOf(cell) === map.owner && stateOf(cell) !== FREE ? pack([255, 196, 0]) : fade(paint(cell));

/* A stripe on top wherever blocks were moved. */
function paintMoves(out, w, h, x, moved) {
	for (let y = 0; moved && y < Math.min(h, 4); y++)
		out[y * w + x] = map.colours.moved;
}

function paintView({ canvas, mark, rec }) {
	const scale = Math.min(2, devicePixelRatio || 1);
	const w = canvas.width = mark.width = Math.max(1, Math.round(canvas.clientWidth * scale));
	const h = canvas.height = mark.height = Math.max(1, Math.round(canvas.clientHeight * scale));
	const context = canvas.getContext("2d"), image = context.createImageData(w, h);
	const out = new Uint32Array(image.data.buffer), how = $("colour").value, newest = how === "age" ? newestOf(rec) : [];
	const cellOf = Uint32Array.from({ length: h }, (_, y) =>
		Math.min(rec.head.cells - 1, Math.floor(map.c1 - (y + .5) / h * (map.c1 - map.c0))));
	for (let x = 0, last = -1; x < w; x++) {
		const i = sampleAt(rec, map.x0 + (x + .5) / w * (map.x1 - map.x0)), row = rec.rows[i];
		if (i === last) {	/* with its stripe */
			for (let y = 0; y < h; y++)
				out[y * w + x] = out[y * w + x - 1];
			continue;
		}
		const paint = withChosen(painter(how, map.colours, newest[i] || 0, agedState(rec)));
		for (let y = 0; y < h; y++)
			out[y * w + x] = paint(row[cellOf[y]]);
		paintMoves(out, w, h, x, rec.col.moved && rec.col.moved[i] > rec.col.moved[last < 0 ? Math.max(0, i - 1) : last]);
		last = i;
	}
	context.putImageData(image, 0, 0);
}

/* Block numbers from cells, and back to what a cell is. */
const blockAt = (rec, cell) => Math.round(cell * rec.head.blocks / rec.head.cells);

function drawScales() {
	const rec = map.rec, places = [$("places"), $("places2")], times = $("times");
	const b0 = blockAt(rec, map.c0), b1 = blockAt(rec, map.c1), step = Math.max(1, niceStep(b1 - b0, 7)), wide = canvas.clientWidth;
	times.textContent = "";
	for (const scale of places) {
		scale.textContent = "";
		for (let b = Math.ceil(b0 / step) * step; b <= b1; b += step)
			element("span", count(b), scale).style.top = 100 * (b1 - b) / Math.max(1, b1 - b0) + "%";
	}
	for (const [x, text] of ticks(rec, map.x0, map.x1, Math.max(2, Math.min(9, Math.floor(wide / 62))))) {
		const at = 100 * (x - map.x0) / (map.x1 - map.x0);
		const label = element("span", text, times);
		label.style.left = at + "%";
		if (at * wide < 2500 || (100 - at) * wide < 2500)	/* or it would lie outside */
			label.style.transform = at < 50 ? "none" : "translateX(-100%)";
	}
	$("view").textContent = when(rec, map.x0) + " to " + when(rec, map.x1) + ", blocks " + count(b0) + " to " + count(Math.max(b0, b1 - 1));
}

/* ---- what is under the cross ---- */

/* The run that a cell belongs to, and since when and until when that cell has been so. */
function runAt(rec, i, cell) {
	const row = rec.rows[i], what = row[cell];
	let lo = cell, hi = cell, since = i, until = i;
	while (lo > 0 && row[lo - 1] === what)
		lo--;
	while (hi + 1 < row.length && row[hi + 1] === what)
		hi++;
	while (since > 0 && rec.rows[since - 1][cell] === what)
		since--;
	while (until + 1 < rec.rows.length && rec.rows[until + 1][cell] === what)
		until++;
	return { what, lo, hi, since, until };
}

const ownerWord = () => map.rec.head.owner || "owner";

function ownerName(rec, owner) {
	return rec.owners.get(owner) || (rec.head.owner || "owner") + " " + count(owner);
}

function explain({ rec, i, cell }) {
	const run = runAt(rec, i, cell), state = stateOf(run.what), owner = ownerOf(run.what);
	const b0 = blockAt(rec, run.lo), b1 = blockAt(rec, run.hi + 1) - 1;
	const about = rec.head.cells < rec.head.blocks ? "about " : "";
	const fine = map.x1 - map.x0 < 3e8, lines = [when(rec, rec.x[i], fine)];
	lines.push(about + (b0 === b1 ? "block " + count(b0) : "blocks " + count(b0) + " to " + count(b1) + ", a run of " + count(b1 - b0 + 1)));
	lines.push(STATE_NAMES[state] + (owner === NOBODY ? "" : (state === CACHED ? ", filled by " : ", by ") + ownerName(rec, owner)));
	lines.push((run.since ? "since " + when(rec, rec.x[run.since], fine) + ", for " + span(rec, rec.x[i] - rec.x[run.since]) : "from the beginning") +
		(run.until + 1 < rec.x.length ? "; until " + when(rec, rec.x[run.until + 1], fine) : "; to the end"));
	if (rec.col.held)
		lines.push("pool: " + poolAt(rec, i));
	return lines.join("\n");
}

function poolAt(rec, i) {
	const { held, free_runs: runs, largest } = rec.col;
	return !held ? "" : (100 * held[i] / rec.head.blocks).toFixed(1) + " % in use" +
		(runs ? ", " + count(runs[i]) + " free runs" : "") + (largest ? ", longest " + count(largest[i]) : "");
}

/* Where the cross is: at a moment and a cell. */
function crossAt(fx, fy, rec = map.rec) {
	return {
		rec,
		i: sampleAt(rec, map.x0 + fx * (map.x1 - map.x0)),
		cell: Math.max(0, Math.min(rec.head.cells - 1, Math.floor(map.c1 - fy * (map.c1 - map.c0)))),
	};
}

function toView(x, cell) {
	return [(x - map.x0) / (map.x1 - map.x0) * mark.width, (map.c1 - cell) / (map.c1 - map.c0) * mark.height];
}

/* The moment of the clock or of the cross, in both maps. */
function drawTime(context, x, alpha) {
	const [at] = toView(x, 0);
	context.fillStyle = css("--ink");
	context.globalAlpha = alpha;
	context.fillRect(Math.round(at), 0, Math.max(1, mark.width / canvas.clientWidth), mark.height);
	context.globalAlpha = 1;
}

function drawMark() {
	const cross = map.cross;
	for (const view of views) {
		const context = view.mark.getContext("2d");
		context.clearRect(0, 0, view.mark.width, view.mark.height);
		if (map.now !== null)
			drawTime(context, map.now, 1);
		if (cross && view.rec === cross.rec)
			drawCross(context, cross);
		else if (cross)
			drawTime(context, cross.rec.x[cross.i], .5);
	}
}

/* A box around the run for as long as it lasts, and a cross. */
function drawCross(context, cross) {
	const { rec } = cross, run = runAt(rec, cross.i, cross.cell);
	const [left, top] = toView(rec.x[run.since], run.hi + 1);
	const [right, bottom] = toView(rec.x[Math.min(run.until + 1, rec.x.length - 1)], run.lo);
	const [x, y] = toView(rec.x[cross.i], cross.cell + .5);
	context.lineWidth = Math.max(1, mark.width / canvas.clientWidth);
	for (const [colour, grow] of [["rgba(0,0,0,.75)", 1], ["rgba(255,255,255,.95)", 0]]) {
		context.strokeStyle = colour;
		context.strokeRect(left - grow, top - grow, Math.max(2, right - left) + 2 * grow, Math.max(2, bottom - top) + 2 * grow);
	}
	context.strokeStyle = css("--ink");
	context.globalAlpha = .35;
	context.beginPath();
	context.moveTo(x, 0);
	context.lineTo(x, mark.height);
	context.moveTo(0, y);
	context.lineTo(mark.width, y);
	context.stroke();
	context.globalAlpha = 1;
}

function pointAt(clientX, clientY, view) {
	const box = view.canvas.getBoundingClientRect();
	map.cross = crossAt((clientX - box.left) / box.width, (clientY - box.top) / box.height, view.rec);
	drawMark();
	showTip(clientX, clientY, explain(map.cross));
}

function dropCross() {
	map.cross = null;
	hideTip();
	if (map.rec)
		drawMark();
}

/* ---- the view ---- */

/* Keep a window of [lo, hi] within [min, max] and no narrower than @least. */
function fit(lo, hi, min, max, least) {
	const width = Math.min(max - min, Math.max(least, hi - lo));
	const middle = (lo + hi) / 2, from = Math.max(min, Math.min(max - width, middle - width / 2));
	return [from, from + width];
}

function setView(x0, x1, c0, c1) {
	const rec = map.rec;
	[map.x0, map.x1] = fit(x0, x1, rec.x[0], lastEnd(), Math.max(1, (lastEnd() - rec.x[0]) / 1e6));
	if (rec.head.cells)
		[map.c0, map.c1] = fit(c0, c1, 0, rec.head.cells, Math.min(8, rec.head.cells));
	drawMap();
	map.onview();
}

const lastEnd = () => Math.max(...views.filter(({ rec }) => rec).map(({ rec }) => endX(rec)));
const viewAll = () => setView(map.rec.x[0], lastEnd(), 0, map.rec.head.cells);

/* Keep what lies at the fractions @fx, @fy where it is. */
function zoom(timeBy, placeBy, fx = .5, fy = .5) {
	const x = map.x0 + fx * (map.x1 - map.x0), c = map.c1 - fy * (map.c1 - map.c0);
	const w = (map.x1 - map.x0) / timeBy, h = (map.c1 - map.c0) / placeBy;
	setView(x - fx * w, x + (1 - fx) * w, c - (1 - fy) * h, c + fy * h);
}

function pan(fx, fy) {
	const w = (map.x1 - map.x0) * fx, h = (map.c1 - map.c0) * fy;
	setView(map.x0 + w, map.x1 + w, map.c0 + h, map.c1 + h);
}

/* Where moments come thickest: that is the close-up. */
function closeUp(rec) {
	const n = Math.min(200, rec.x.length >> 2);
	let best = null;
	for (let i = 0; n > 8 && i + n < rec.x.length; i += n >> 3)
		if (!best || rec.x[i + n] - rec.x[i] < best[1] - best[0])
			best = [rec.x[i], rec.x[i + n]];
	return best && (best[1] - best[0]) * 3 < (endX(rec) - rec.x[0]) * n / rec.x.length ? best : null;
}

function moveCross(dx, dy) {
	const rec = map.rec, box = canvas.getBoundingClientRect();
	const cross = map.cross && map.cross.rec === rec ? map.cross : crossAt(.5, .5), step = Math.max(1, Math.round((map.c1 - map.c0) / 60));
	cross.i = Math.max(0, Math.min(rec.x.length - 1, cross.i + dx));
	cross.cell = Math.max(0, Math.min(rec.head.cells - 1, cross.cell + dy * step));
	map.cross = cross;
	if (rec.x[cross.i] < map.x0 || rec.x[cross.i] > map.x1)
		pan(dx > 0 ? .25 : -.25, 0);
	const [x, y] = toView(rec.x[cross.i], cross.cell + .5), scale = box.width / mark.width;
	drawMark();
	showTip(box.left + x * scale, box.top + y * scale, explain(cross));
}

const KEYS = {
	ArrowLeft: e => e.shiftKey ? moveCross(-1, 0) : pan(-.2, 0),
	ArrowRight: e => e.shiftKey ? moveCross(1, 0) : pan(.2, 0),
	ArrowUp: e => e.shiftKey ? moveCross(0, 1) : pan(0, .2),
	ArrowDown: e => e.shiftKey ? moveCross(0, -1) : pan(0, -.2),
	"+": () => zoom(1.6, 1), "=": () => zoom(1.6, 1), "-": () => zoom(1 / 1.6, 1),
	"]": () => zoom(1, 1.6), "[": () => zoom(1, 1 / 1.6),
	"0": viewAll, Home: viewAll,
	u: () => { const c = closeUp(map.rec); if (c) setView(c[0], c[1], map.c0, map.c1); },
	" ": () => $("play").click(),
	c: () => { const s = $("colour"); s.selectedIndex = (s.selectedIndex + 1) % s.options.length; recolour(); },
};

function recolour() {
	map.colours = makeColours();
	if (!map.rec || !map.rec.head.cells)
		return;
	drawMap();
	drawLegend();
}

/* ---- the pointer ---- */

let drag = null;

for (const view of views)
	followPointer(view);

function followPointer(view) {
	const { canvas } = view;
	canvas.onpointerdown = e => {
		drag = { x: e.clientX, y: e.clientY, view: [map.x0, map.x1, map.c0, map.c1], moved: false };
		canvas.setPointerCapture(e.pointerId);
	};
	canvas.onpointermove = e => {
		if (!drag) {
			pointAt(e.clientX, e.clientY, view);
			return;
		}
		const box = canvas.getBoundingClientRect(), [x0, x1, c0, c1] = drag.view;
		const dx = (drag.x - e.clientX) / box.width * (x1 - x0), dy = (e.clientY - drag.y) / box.height * (c1 - c0);
		drag.moved = drag.moved || Math.hypot(e.clientX - drag.x, e.clientY - drag.y) > 3;
		if (drag.moved) {
			canvas.classList.add("dragging");
			dropCross();
			setView(x0 + dx, x1 + dx, c0 + dy, c1 + dy);
		}
	};
	canvas.onpointerup = e => {
		if (drag && !drag.moved) {
			pointAt(e.clientX, e.clientY, view);
			choose(ownerOf(view.rec.rows[map.cross.i][map.cross.cell]));
		}
		canvas.onpointercancel();
	};
	canvas.onpointercancel = () => { drag = null; canvas.classList.remove("dragging"); };
	canvas.onpointerleave = () => { if (!drag) dropCross(); };
	canvas.onblur = dropCross;
	canvas.ondblclick = e => {
		const box = canvas.getBoundingClientRect();
		zoom(2.5, 2.5, (e.clientX - box.left) / box.width, (e.clientY - box.top) / box.height);
	};
	/* Without the focus the wheel goes on scrolling the page. */
	canvas.addEventListener("wheel", e => {
		if (document.activeElement !== canvas && !e.ctrlKey)
			return;
		e.preventDefault();
		const box = canvas.getBoundingClientRect(), by = Math.exp(-e.deltaY / 400);
		zoom(e.altKey ? 1 : by, e.shiftKey || e.altKey ? by : 1, (e.clientX - box.left) / box.width, (e.clientY - box.top) / box.height);
	}, { passive: false });
}
$("colour").onchange = recolour;
for (const button of document.querySelectorAll("[data-key]"))
	button.onclick = e => KEYS[button.dataset.key](e);
addEventListener("resize", () => { if (map.rec && map.rec.head.cells) drawMap(); });
