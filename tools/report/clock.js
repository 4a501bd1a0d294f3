/* SPDX-License-Identifier: Apache-2.0 */
/* ---- two maps with one clock, an owner's life, and a link that keeps the view ---- */

/* What a stranger calls a run of kvmm-replay frag among others, where that tells it from them. */
function titleOf(rec) {
	const title = ({ results: { results: r } }) => r.alloc === "buddy" ? "Power-of-two buddy" : r.compact ? "With moving" : "Without moving";
	const all = headlineOf(page.recordings) ? page.recordings.map(title) : [];
	return all.length > 1 && new Set(all).size === all.length ? title(rec) : rec.name;
}

/* ---- the headline ---- */

const fullness = r => (r.asked_occupancy_ppm / 1e4).toFixed(0) + " %";

const pieces = r => r.runs === r.admitted ? "every request in one piece" : (r.runs / r.admitted).toFixed(2) + " pieces a request";

/* Of runs that place requests as ranges, the fullest first. Return: two sentences and how it was counted, or null. */
function headlineOf(recordings) {
	const runs = recordings.map(rec => rec.results && rec.results.results).filter(r => r && r.kind === "frag" && r.asked_occupancy_ppm);
	if (!runs.length || runs.length < recordings.length || runs.some(r => r.trace !== runs[0].trace))
		return null;
	const [best, ...rest] = [...runs].sort((a, b) => b.asked_occupancy_ppm - a.asked_occupancy_ppm);
	const others = rest.map(r => (r.alloc === "buddy" ? "with power-of-two buddy " : r.compact ? "with moving " : "without moving ") + fullness(r));
	const text = others.join(", ");
	return ["Memory " + fullness(best) + " full and " + pieces(best), text && text[0].toUpperCase() + text.slice(1) + ".",
		"mean share of the memory that requests asked for, over the middle 80 % of " + count(best.requests) + " requests"];
}

function showHeadline() {
	const head = headlineOf(page.recordings);
	if (!head)
		return;
	$("title").textContent = head[0];
	$("lead").textContent = head[1];
	$("lead").hidden = !head[1];
	$("subtitle").textContent = head[2] + " · " + $("subtitle").textContent;
}

/* ---- the second map ---- */

/* Recordings of the same blocks, over the same kind of time. */
const fitsBeside = (a, b) => a !== b && b.x.length > 1 && ["x", "blocks", "cells", "owner"].every(k => a.head[k] === b.head[k]);

/* Some thirty moments: in a whole run no request can be told from the next. */
function viewWindow() {
	const middle = map.rec.x[map.rec.x.length >> 1], wide = 15 * map.rec.head.every;
	setView(middle - wide, middle + wide, 0, map.rec.head.cells);
}

function showBeside(i) {
	const rec = page.recordings[i] || null;
	views[1].rec = rec;
	$("beside").value = rec ? i : -1;
	$("other").hidden = !rec;
	$("map-panel").classList.toggle("two", !!rec);
	for (const [id, of] of [["name", map.rec], ["name2", rec]])
		$(id).textContent = of && page.recordings.length > 1 ? titleOf(of) : "";
	if (rec && !rec.states)
		survey(rec);
}

function offerBeside(rec) {
	const others = page.recordings.filter(other => fitsBeside(rec, other)), select = $("beside");
	select.textContent = "";
	element("option", "nothing", select).value = -1;
	for (const other of others)
		element("option", titleOf(other), select).value = page.recordings.indexOf(other);
	$("beside-label").hidden = !others.length;
	showBeside(others.length ? page.recordings.indexOf(others[0]) : -1);
}

/* ---- the clock ---- */

let playing = 0, playedAt = 0;

function sayNow() {
	views.forEach(({ rec }, k) => {
		const i = rec && map.now !== null ? sampleAt(rec, map.now) : -1, out = $(k ? "now2" : "now");
		out.textContent = i < 0 ? "" : when(rec, map.now, map.x1 - map.x0 < 3e8) + ": " +
			(map.now > lastX(rec) ? "all requests are done" : poolAt(rec, i) || "");
	});
}

function setNow(x) {
	map.now = x === null ? null : Math.max(map.rec.x[0], Math.min(lastEnd(), x));
	$("clock").value = map.now === null ? 0 : 1000 * (map.now - map.x0) / (map.x1 - map.x0);
	drawMark();
	sayNow();
	keepLink();
}

/* What is seen passes in twenty seconds; at its end the view moves on. */
function tick(at) {
	const wide = map.x1 - map.x0;
	if (map.now === null || map.now >= lastEnd() || map.now < map.x0)
		map.now = map.x0;
	const x = map.now + wide * Math.min(200, at - playedAt) / 20000;
	playedAt = at;
	if (x > map.x1)
		setView(map.x0 + wide / 2, map.x1 + wide / 2, map.c0, map.c1);
	setNow(x);
	if (map.now >= lastEnd())
		pause();
	else
		playing = requestAnimationFrame(tick);
}

function pause() {
	cancelAnimationFrame(playing);
	playing = 0;
	$("play").textContent = "play";
}

$("play").onclick = () => {
	if (playing)
		return pause();
	$("play").textContent = "pause";
	playedAt = performance.now();
	playing = requestAnimationFrame(tick);
};
$("clock").oninput = () => setNow(map.x0 + $("clock").value / 1000 * (map.x1 - map.x0));

/* ---- the life of an owner ---- */

/* Its runs in a picture: "5+3 9+1", in blocks. */
function placesOf(rec, row, owner) {
	const runs = [];
	for (let c = 0; c < row.length; c++) {
		if (ownerOf(row[c]) !== owner || stateOf(row[c]) === FREE)
			continue;
		const from = c;
		while (c + 1 < row.length && ownerOf(row[c + 1]) === owner && stateOf(row[c + 1]) !== FREE)
			c++;
		runs.push([blockAt(rec, from), blockAt(rec, c + 1) - 1]);
	}
	return runs;
}

const sizeOf = runs => runs.reduce((n, [a, b]) => n + b - a + 1, 0);

/* [[moment, what happened, runs], ...] */
function lifeOf(rec, owner) {
	const life = [];
	let was = [], text = "";
	rec.rows.forEach((row, i) => {
		if (i && row === rec.rows[i - 1])
			return;
		const runs = placesOf(rec, row, owner), now = runs.join(" "), grown = sizeOf(runs) - sizeOf(was);
		if (now !== text)
			life.push([i, !was.length ? "got its blocks" : !runs.length ? "gone" : grown > 0 ? "grew" : grown < 0 ? "gave blocks back" : "moved", runs]);
		[was, text] = [runs, now];
	});
	return life;
}

const MOST_EVENTS = 8;

function tellLife(rec, owner, parent) {
	const box = element("div", "", parent), life = lifeOf(rec, owner), list = element("ol", "", box);
	list.before(element("b", ownerName(rec, owner) + (page.recordings.length > 1 ? ", " + titleOf(rec).toLowerCase() : ""), box));
	for (const [i, what, runs] of life.length > MOST_EVENTS ? [...life.slice(0, MOST_EVENTS - 1), life[life.length - 1]] : life)
		element("li", when(rec, rec.x[i], true) + ": " + what + (runs.length ? ", " + (runs.length > 4 ? count(runs.length) + " runs" :
			runs.map(([a, b]) => count(a) + "–" + count(b)).join(" and ")) + ", " + count(sizeOf(runs)) + " blocks" : ""), list);
	if (life.length > MOST_EVENTS)
		element("span", count(life.length - MOST_EVENTS) + " more between", box, "dim");
	if (!life.length)
		element("span", "lived between two moments, and is in no picture", box, "dim");
}

/* The same one again, or what has no owner: none. */
function choose(owner) {
	map.owner = owner === NOBODY || owner === map.owner ? null : owner;
	$("life").textContent = "";
	$("life").hidden = map.owner === null;
	for (const { rec } of views)
		if (rec && map.owner !== null)
			tellLife(rec, map.owner, $("life"));
	drawMap();
	keepLink();
}

/* ---- the link ---- */

let keeping = 0, linked = false;

function link() {
	const out = new URLSearchParams({ r: shown, b: $("beside").value || -1, k: $("colour").value, d: root.dataset.theme });
	for (const key of ["x0", "x1", "c0", "c1", "now", "owner"])
		if (map[key] !== null)
			out.set(key, +map[key].toFixed(2));
	return "#" + out;
}

/* Not at every step of a drag: browsers refuse too many. */
function keepLink() {
	clearTimeout(keeping);
	if (linked)
		keeping = setTimeout(() => history.replaceState(null, "", link()), 300);
}

/* Whatever stands in a link is checked: it may be of another page. */
function followLink(text) {
	const of = new URLSearchParams(text.replace(/^#/, ""));
	const number = key => of.has(key) && of.get(key) !== "" && Number.isFinite(+of.get(key)) ? +of.get(key) : null;
	if (["dark", "light"].includes(of.get("d")))
		setTheme(of.get("d"));
	if (number("r") !== null && page.recordings[number("r")])
		show(number("r"));
	if (!map.rec || !map.rec.head.cells || $("map-panel").hidden)
		return;
	if (number("b") !== null)
		showBeside(fitsBeside(map.rec, page.recordings[number("b")] || map.rec) ? number("b") : -1);
	if ([...$("colour").options].some(o => o.value === of.get("k")))
		$("colour").value = of.get("k");
	recolour();
	if (["x0", "x1", "c0", "c1"].every(key => number(key) !== null))
		setView(number("x0"), number("x1"), number("c0"), number("c1"));
	if (number("owner") !== null && number("owner") >= 0)
		choose(number("owner"));
	if (number("now") !== null)
		setNow(number("now"));
}
$("beside").onchange = () => {
	showBeside(+$("beside").value);
	showCharts(map.rec);
	showLatencies(map.rec);
	choose(NOBODY);
	setView(map.x0, map.x1, map.c0, map.c1);
	recolour();
};
