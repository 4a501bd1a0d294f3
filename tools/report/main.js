/* SPDX-License-Identifier: Apache-2.0 */
/* ---- the page ---- */

let page = { recordings: [], comparisons: [] }, shown = 0;

/* Of an engine, which has no end to say something at: what has grown since the first moment. */
function tilesOf(rec) {
	const { col } = rec, timed = lastX(rec) - rec.x[0];
	const grown = name => col[name] ? last(col[name]) - col[name][0] : 0;
	const tiles = [], asked = grown("accesses"), copied = grown("offloaded_bytes") + grown("loaded_bytes");
	if (asked)
		tiles.push(["prompt blocks that were hit", shortNumber(100 * TIERS.reduce((n, [name]) => n + grown(name), 0) / asked) + " %"]);
	if (col.held && rec.head.blocks)
		tiles.push(["blocks in use, on average", shortNumber(100 * mean(rec, col.held) / rec.head.blocks) + " %"]);
	for (const [name, label] of [["evicted", "blocks evicted"], ["moved", "blocks moved"]])
		if (grown(name))
			tiles.push([label, count(grown(name))]);
	if (copied)
		tiles.push(["copied between tiers", bytes(copied)]);
	if (col.stalled_us && isTimed(rec) && timed)
		tiles.push(["of the time a request waited for memory", shortNumber(100 * grown("stalled_us") / timed) + " %"]);
	return tiles;
}

function showResults(rec) {
	const { results } = rec, timed = rec.x.length > 1;
	for (const id of ["tiles", "summary", "fields"])
		$(id).textContent = "";
	$("summary-panel").hidden = !results || !results.lines || !results.lines.length;
	$("fields-panel").hidden = !results;
	for (const [label, text] of results ? results.tiles || [] : timed ? tilesOf(rec) : []) {
		const tile = element("section", "", $("tiles"));
		element("b", text, tile);
		element("span", label, tile);
	}
	if (!results)
		return;
	showLines(results.lines || []);
	for (const [key, value] of Object.entries(results.results)) {
		const row = element("tr", "", $("fields"));
		element("td", key, row);
		element("td", typeof value === "object" ? JSON.stringify(value) : String(value), row);
	}
}

/* Lines without a label go on with the one before: a drawing in characters. */
function showLines(lines) {
	let before = null;
	for (const [label, text] of lines) {
		if (!label && before) {
			before.parentNode.className = "bars";
			before.textContent += "\n" + text;
			continue;
		}
		const box = element("div", "", $("summary"));
		element("dt", label, box);
		before = element("dd", text, box);
	}
}

function subtitle(rec) {
	const { head } = rec, parts = [head.purpose, head.trace && "trace " + head.trace];
	if (head.cells)
		parts.push(count(head.blocks) + " blocks" + (head.cells < head.blocks ? ", one in " + count(head.blocks / head.cells) + " looked at" : ""));
	if (rec.x.length)
		parts.push(count(rec.x.length) + " moments over " + span(rec, lastX(rec) - rec.x[0]));
	if (!rec.end)
		parts.push("the recording was cut off");
	if (rec.end && rec.end.full)
		parts.push("the recording was full before the end");
	return parts.filter(p => p).join(" · ");
}

function show(i) {
	const rec = page.recordings[shown = i], mapped = rec.head.cells > 0 && rec.x.length > 0;
	map.rec = views[0].rec = rec;
	map.cross = map.now = map.owner = null;
	pause();
	$("life").hidden = true;
	survey(rec);
	$("colour").value = !rec.owned ? "state" : rec.col.requests && rec.col.cached ? "age" : "owner";
	$("title").textContent = rec.head.source || "kvmm";
	offerBeside(rec);
	$("subtitle").textContent = subtitle(rec);
	showHeadline();
	$("which").selectedIndex = i;
	$("map-panel").hidden = !mapped;
	$("closeup").hidden = !mapped || !closeUp(rec);
	map.colours = makeColours();
	map.onview = () => {};
	if (rec.x.length)
		[map.x0, map.x1, map.c0, map.c1] = [rec.x[0], lastEnd(), 0, rec.head.cells];
	showResults(rec);
	showCharts(rec);
	showLatencies(rec);
	map.onview = () => {
		followView();
		setNow(map.now);
	};
	if (mapped) {
		drawMap();
		drawLegend();
		setNow(null);
		if (views[1].rec && rec.head.every)
			viewWindow();
		if (views[1].rec)
			setNow((map.x0 + map.x1) / 2);
	}
}

function setTheme(theme) {
	root.dataset.theme = theme;
	recolour();
	recolourCharts();
	keepLink();
}
const otherTheme = () => setTheme(root.dataset.theme === "dark" ? "light" : "dark");
const help = () => $("help").open ? $("help").close() : $("help").showModal();
const next = () => { if (page.recordings.length) show((shown + 1) % page.recordings.length); };

document.onkeydown = e => {
	if (e.ctrlKey || e.metaKey || e.altKey || (e.key === " " ? /^(SELECT|INPUT|BUTTON|SUMMARY)$/ : /^(SELECT|INPUT)$/).test(e.target.tagName))
		return;
	const act = { "?": help, t: otherTheme, n: next }[e.key] ||
		(!$("map-panel").hidden && !$("help").open && (e.target === canvas || !/^(Arrow|Home)/.test(e.key)) && KEYS[e.key]);
	if (!act)
		return;
	e.preventDefault();
	act(e);
};
$("theme").onclick = otherTheme;
$("help-button").onclick = help;
$("which").onchange = () => show($("which").selectedIndex);

function setUp() {
	page = readPage();
	page.recordings.forEach(rec => element("option", titleOf(rec), $("which")));
	$("which").hidden = page.recordings.length < 2;
	if (page.recordings.length)
		show(0);
	else
		[$("title").textContent, $("subtitle").textContent] = ["kvmm-replay compare", "policies and sizes of a prefix cache, side by side"];
	if (page.recordings.length > 1)
		compareRecordings(page.recordings);
	page.comparisons.forEach(showComparison);
	document.title = [$("title").textContent].concat(page.recordings.map(rec => rec.head.trace || rec.name)).slice(0, 3).join(": ");
	const dark = matchMedia("(prefers-color-scheme: dark)");
	dark.onchange = () => setTheme(dark.matches ? "dark" : "light");
	followLink(location.hash);
	linked = true;
	onhashchange = () => followLink(location.hash);
}

/* ---- #selftest, #selftest-boxes: the page looks at itself, for tests in a browser without a screen ---- */

const pixels = () => new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
const press = (key, shiftKey) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey, bubbles: true, cancelable: true }));
const textOf = id => $(id).textContent;

/* A cell that somebody owns, near the middle. */
function ownedCell(rec) {
	for (let d = 0; d < rec.x.length; d++) {
		const i = (Math.floor(rec.x.length / 2) + d) % rec.x.length, cell = rec.rows[i].findIndex(c => ownerOf(c) !== NOBODY);
		if (cell >= 0)
			return { i, cell };
	}
	return null;
}

function testMap(check) {
	const rec = map.rec, free = map.colours.state[FREE];
	check("map painted", pixels().filter(p => p !== free && p >>> 24 === 255).length > 0);
	const at = ownedCell(rec);
	check("somebody owns something, if anybody should", (at !== null) === rec.owned);
	if (!at)
		return;
	/* To a whole pixel for each cell and moment, then the pointer goes there. */
	setView(rec.x[at.i], rec.x[at.i] + 1, at.cell - 4, at.cell + 4);
	const box = canvas.getBoundingClientRect(), [x, y] = toView((map.x0 + map.x1) / 2, at.cell + .5);
	const event = { clientX: box.left + x / canvas.width * box.width, clientY: box.top + y / canvas.height * box.height };
	canvas.dispatchEvent(new PointerEvent("pointermove", { ...event, bubbles: true }));
	check("hover names the owner", tip.style.display === "block" && textOf("tip").includes(ownerName(rec, ownerOf(rec.rows[at.i][at.cell]))), textOf("tip"));
	check("hover says since when", /since|from the beginning/.test(textOf("tip")));
	canvas.dispatchEvent(new PointerEvent("pointerleave"));
	viewAll();
}

function testKeys(check) {
	const view = () => [map.x0, map.x1, map.c0, map.c1].join();
	viewAll();
	const whole = view(), before = pixels();
	canvas.focus();
	press("+");
	const zoomed = view();
	check("+ zooms in", zoomed !== whole && map.x1 - map.x0 < lastEnd() - map.rec.x[0]);
	press("ArrowRight");
	check("an arrow moves the view", view() !== zoomed);
	check("and what is painted", pixels().some((p, i) => p !== before[i]));
	check("the charts follow", !charts.length || Math.abs(charts[0].graph.xAxisRange()[0] - map.x0) <= 1e-6 * (map.x1 - map.x0));
	press("ArrowRight", true);
	check("shift and an arrow move the cross", map.cross !== null && tip.style.display === "block");
	press("0");
	check("0 shows all again", view() === whole);
	press("?");
	check("? helps", $("help").open);
	press("?");
	check("and ends it", !$("help").open);
	press(" ");
	check("space plays", playing !== 0);
	press(" ");
	const space = new KeyboardEvent("keydown", { key: " ", bubbles: true, cancelable: true });
	$("theme").dispatchEvent(space);
	check("but on a button it is the button's", playing === 0 && !space.defaultPrevented);
}

function testThemes(check) {
	const before = [pixels(), getComputedStyle(document.body).backgroundColor];
	press("t");
	check("dark and light differ", getComputedStyle(document.body).backgroundColor !== before[1]);
	check("in the map, too", pixels().some((p, i) => p !== before[0][i]));
	press("t");
	check("and back", getComputedStyle(document.body).backgroundColor === before[1]);
}

function testColours(check) {
	const seen = new Set();
	for (let i = 0; i < 3; i++, press("c"))
		seen.add(pixels().reduce((sum, p) => (Math.imul(sum, 31) + p) | 0, 0));
	check("three ways to colour", seen.size === 3);
}

/* Whatever a recording has is drawn, and nothing is said to be NaN. */
function testPanels(check) {
	const { latencies, results, col } = map.rec, svgs = [...document.querySelectorAll("#charts svg")];
	check("a histogram for each latency", svgs.length === latencies.filter(l => l.max || l.complete).length);
	check("with all that was counted", latencies.every(l => l.n === l.buckets.reduce((n, b) => n + b[1], 0)));
	check("and bars", svgs.every(svg => svg.querySelectorAll(".bar").length && svg.getAttribute("aria-label").length > 40));
	check("tiles", $("tiles").childElementCount > 1 || (results && !results.tiles));
	check("tiers, if there are any", !(col.host_blocks && last(col.host_blocks)) || charts.length >= 7, charts.length);
	check("no number that is none", !/NaN|undefined|Infinity|\bnull\b/.test(document.querySelector("main").innerText));
}

/* Drawings lie within their panels, and these beside each other. */
function testBoxes(check) {
	const boxes = list => [...list].filter(e => !e.closest("details:not([open])")).map(e => e.getBoundingClientRect()).filter(b => b.width);
	const show = b => [b.left, b.top, b.right, b.bottom].map(Math.round).join();
	const sections = [...document.querySelectorAll("main section")], panels = boxes(sections);
	const out = sections.flatMap(section => {
		const panel = section.getBoundingClientRect();
		return boxes(section.querySelectorAll("canvas, svg")).filter(b => b.left < panel.left - 1 || b.right > panel.right + 1 ||
			b.top < panel.top - 1 || b.bottom > panel.bottom + 1).map(b => show(b) + " in " + show(panel));
	});
	const over = panels.filter((a, i) => panels.some((b, j) => i !== j && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1));
	check("every drawing lies within its panel", !out.length, out.join("; "));
	check("no panel lies on another", !over.length, over.map(show).join("; "));
	testWidth(check);
	testWords(check);
}

/* But for what scrolls by itself. */
function testWidth(check) {
	const wide = [...document.querySelectorAll("main *")].filter(e => !e.closest(".scroll, .bars, select, .dygraph-legend") &&
		e.getBoundingClientRect().right > root.clientWidth + 1);
	check("nothing is wider than the page", root.scrollWidth <= root.clientWidth && !wide.length,
		root.scrollWidth + " of " + root.clientWidth + ": " + wide.map(e => e.tagName + "." + (e.id || e.className)).slice(0, 5).join());
}

/* Words of scales, legends and controls: large enough to be read, and none on another. */
function testWords(check) {
	const box = e => {
		const range = document.createRange();
		range.selectNodeContents(e);
		return (/^(BUTTON|SELECT|INPUT)$/.test(e.tagName) ? e : range).getBoundingClientRect();
	};
	const words = [...document.querySelectorAll("h1, h2, nav button, .tools button, select, .now, .places span, .times span, .legend > span, " +
		".dygraph-axis-label, svg text, #play, #clock, #lead, #subtitle, .hint")].map(e => [e, box(e)]).filter(([, b]) => b.width && b.height);
	const over = words.filter(([a, p], i) => words.some(([b, q], j) => j > i && !a.contains(b) && !b.contains(a) &&
		p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 3 && q.top < p.bottom - 3));
	const small = words.filter(([e, b]) => e.tagName === "text" && b.height < 9);
	check("no word lies on another", !over.length, over.map(([e, b]) => e.textContent + " at " + Math.round(b.left) + "," + Math.round(b.top)).join("; "));
	check("words can be read", !small.length, small.map(([e]) => e.textContent).join());
	const scales = ["#times span", "#places span"].concat(charts.length ? [".dygraph-axis-label-x", ".dygraph-axis-label-y"] : []);
	check("every scale has its labels", $("map-panel").hidden || scales.every(s => [...document.querySelectorAll(s)].filter(e => /\d/.test(e.textContent)).length > 1),
		scales.map(s => document.querySelectorAll(s).length).join());
}

/* The same moment in both maps, a life, and a link that brings all of it back. */
function testClock(check) {
	const rec = map.rec, at = ownedCell(rec);
	if (page.recordings.length > 1 && headlineOf(page.recordings)) {
		check("the headline is of the run", textOf("title").includes(fullness(rec.results.results)), textOf("title"));
		check("two maps, painted", views.every(({ rec, canvas }) => rec && canvas.width > 1));
	}
	setNow((rec.x[0] + lastX(rec)) / 2);
	check("each map says what is now", views.every(({ rec }, k) => !rec || /in use/.test(textOf(k ? "now2" : "now"))), textOf("now"));
	$("play").click();
	check("play plays", playing !== 0 && textOf("play") === "pause");
	$("play").click();
	check("and pauses", playing === 0);
	if (at) {
		const before = pixels();
		choose(ownerOf(rec.rows[at.i][at.cell]));
		check("a life has its beginning", /got its blocks/.test(textOf("life")), textOf("life"));
		check("its owner stands out", pixels().some((p, i) => p !== before[i]));
	}
	zoom(2, 1);
	const kept = link();
	viewAll();
	choose(NOBODY);
	const other = link();
	followLink(kept);
	check("a link keeps the view", link() === kept && kept !== other, kept + " " + link());
	choose(NOBODY);
	followLink("#r=-1&b=x&k=none&d=&x0=1e999&x1=&c0=-5&c1=NaN&owner=<b>&now=%");
	check("what is no link changes nothing", map.rec === rec && Number.isFinite(map.x0) && map.owner === null);
	viewAll();
}

function selftest() {
	const results = [], check = (name, ok, seen) => results.push({ name, ok: !!ok, seen });
	const ms = Math.round(performance.now());	/* until all was drawn */
	try {
		check("nothing to complain about", $("complaint").hidden, textOf("complaint"));
		testBoxes(check);
		if (page.recordings.some(rec => rec.head.cells && rec.x.length > 1)) {
			show(page.recordings.findIndex(rec => rec.head.cells && rec.x.length > 1));
			check("charts drawn", charts.length > 0 && charts.every(({ graph }) => graph.numRows() === map.rec.x.length));
			for (const test of location.hash === "#selftest-boxes" ? [testBoxes] : [testMap, testKeys, testThemes, testColours, testPanels, testClock, testBoxes])
				test(check);
		}
		for (const { runs } of page.comparisons)
			check("curves of the best policies and a bound", document.querySelectorAll("#comparison .curve").length >=
				Math.min(MOST_CURVES, new Set(runs.filter(r => !r.reference).map(hitRate)).size ? 1 : 0));
	} catch (e) {
		check("no exception", false, String(e.stack || e));
	}
	const out = element("pre", JSON.stringify({ ok: results.every(r => r.ok), ms, results }), document.body);
	out.id = "selftest";
}

try {
	setUp();
} catch (e) {
	$("complaint").hidden = false;
	$("complaint").textContent = "This page could not be drawn: " + e.message;
	console.error(e);
}
if (location.hash.startsWith("#selftest"))
	selftest();
