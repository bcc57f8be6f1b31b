// Faults of the page that is shown, as sentences. Arguments: least pixels of a target, least contrast of text.
const [least, contrast] = arguments;
const found = [], say = (what, ...of) => found.push(`${what}: ${of.map(named).join(' and ')}`);
const named = (e) => typeof e === 'string' ? e : `${e.nodeName.toLowerCase()}${e.id ? '#' + e.id : ''}` +
  `${e.getAttribute('class') ? '.' + e.getAttribute('class') : ''} "${(e.textContent || e.value || '').trim().replace(/\s+/g, ' ').slice(0, 40)}"`;
const isShown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !e.closest('.hidden, .skip, .cards thead:not(.queue thead), .defs, title, desc, option, datalist');
const titled = (e) => e.closest('[title]') || e.closest('a')?.querySelector(':scope > title') || [...e.children].some((c) => c.matches?.('title, [title]'));

if (document.documentElement.scrollWidth > innerWidth) say('wider than the window', `${document.documentElement.scrollWidth} px`);

// What is read: each piece of text with the box that its letters take.
const texts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const owner = node.parentElement;
  if (!node.nodeValue.trim() || !isShown(owner) || owner.matches('script, style, textarea, select')) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const boxes = owner.ownerSVGElement ? [owner.getBoundingClientRect()] : [...range.getClientRects()];
  for (const box of boxes) if (box.width > 1 && box.height > 1) texts.push({ owner, box, range });
}

const clips = (e) => ['hidden', 'clip', 'auto', 'scroll'].includes(getComputedStyle(e).overflowX);
// The part of a box that is seen.
const seen = (owner, { left, right, top, bottom }) => {
  for (let at = owner; at && at !== document.body; at = at.parentElement) {
    if (!clips(at)) continue;
    const by = at.getBoundingClientRect();
    [left, right, top, bottom] = [Math.max(left, by.left), Math.min(right, by.right), Math.max(top, by.top), Math.min(bottom, by.bottom)];
  }
  return { left, right, top, bottom };
};

// Cut: by its own box, or by that of the picture that it stands in.
for (const { owner, box } of texts) {
  for (let at = owner; at && at !== document.body; at = at.parentElement) {
    if (!clips(at)) continue;
    if (['auto', 'scroll'].includes(getComputedStyle(at).overflowX)) break;
    const by = at.getBoundingClientRect();
    if (box.left < by.left - 1 || box.right > by.right + 1 || box.top < by.top - 3 || box.bottom > by.bottom + 3) {
      if (!titled(owner) && !titled(at)) say('cut without a title', owner);
      break;
    }
  }
}
for (const each of document.querySelectorAll('input[placeholder]')) {
  if (!isShown(each) || each.value) continue;
  const pen = document.createElement('canvas').getContext('2d'), style = getComputedStyle(each);
  pen.font = style.font;
  const room = each.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  if (pen.measureText(each.placeholder).width > room + 1) say('cut without a title', `"${each.placeholder}"`);
}

// Overlaps of letters by more than what lines of text share.
const read = texts.map(({ owner, box }) => ({ owner, box: seen(owner, box) })).sort((one, other) => one.box.top - other.box.top);
const told = new Set();
read.forEach(({ owner, box }, number) => {
  for (let next = number + 1; next < read.length && read[next].box.top < box.bottom - 3; next++) {
    const { owner: other, box: its } = read[next];
    if (owner === other || owner.closest('.output') || told.has(owner)) continue;
    const across = Math.min(box.right, its.right) - Math.max(box.left, its.left), down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
    if (across > 2 && down > 4) { told.add(owner); say('overlap', owner, other); }
  }
});

// What is clicked or typed into; links within a sentence and the bars of a picture are as large as they are.
const targets = [...document.querySelectorAll('a[href], button, input, select, textarea, summary')].filter((e) => isShown(e) && !e.closest('svg') && e.type !== 'hidden');
const places = targets.map((e) => { const label = e.closest('label'); return (label && !/text|search|number/.test(e.type) ? label : e).getBoundingClientRect(); });
const inSentence = (e) => e.nodeName === 'A' && [...e.parentElement.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim().length > 2);
targets.forEach((each, number) => {
  const box = places[number];
  if (inSentence(each) || Math.min(box.width, box.height) >= least - 0.5) return;
  const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
  const near = targets.findIndex((other, at) => {
    if (at === number || other.contains(each) || each.contains(other)) return false;
    const its = places[at], isSmall = Math.min(its.width, its.height) < least;
    const reach = isSmall ? Math.hypot((its.left + its.right) / 2 - x, (its.top + its.bottom) / 2 - y) - least / 2
      : Math.hypot(Math.max(its.left - x, 0, x - its.right), Math.max(its.top - y, 0, y - its.bottom));
    return reach < least / 2 - 0.5;
  });
  if (near >= 0) say(`small (${Math.round(box.width)} x ${Math.round(box.height)} px) and close`, each, targets[near]);
});

// Contrast of text, also in pictures: against what is painted below its middle.
const parse = (text) => { const [r, g, b, a] = (text.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number); return [r, g, b, a ?? 1]; };
const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
const solid = (e) => { let a = 1; for (let at = e; at; at = at.parentElement) a *= Number(getComputedStyle(at).opacity); return a; };
const paint = (e) => { const style = getComputedStyle(e), shape = e.ownerSVGElement && e.matches('rect, path, circle');
  const colour = parse(shape ? (style.fill.startsWith('rgb') ? style.fill : 'rgba(0,0,0,0)') : style.backgroundColor);
  return [...colour.slice(0, 3), colour[3] * solid(e) * (shape ? Number(style.fillOpacity) : 1)]; };
const pale = new Set();
for (const { owner, range } of texts) {
  const isDrawn = Boolean(owner.ownerSVGElement), style = getComputedStyle(owner);
  if (isDrawn && style.stroke !== 'none') continue; // with an edge of its own
  const key = `${owner.getAttribute('class')} ${owner.parentElement.getAttribute('class')} ${isDrawn}`;
  if (pale.has(key) || owner.disabled) continue;
  owner.scrollIntoView({ block: 'nearest' });
  const here = isDrawn ? owner.getBoundingClientRect() : range.getClientRects()[0];
  if (!here || here.left < 0 || here.right > innerWidth) continue;
  const layers = document.elementsFromPoint((here.left + here.right) / 2, (here.top + here.bottom) / 2);
  const below = [...layers.filter((e) => e !== owner && e.nodeName !== 'text'), document.body].map(paint);
  let back = [255, 255, 255, 1];
  for (const each of below.reverse()) back = over(each, back);
  const ink = over([...parse(isDrawn ? style.fill : style.color).slice(0, 3), solid(owner)], back);
  const [low, high] = [light(ink), light(back)].sort((a, b) => a - b), is = (high + 0.05) / (low + 0.05);
  if (is < contrast - 0.01) { pale.add(key); say(`pale (${is.toFixed(1)})`, owner); }
}
scrollTo(0, 0);

// A row or a picture without anything in it.
for (const each of document.querySelectorAll('main svg[role]')) {
  if (isShown(each) && !each.querySelector('rect, circle, path, text')) say('empty', `svg ${each.getAttribute('aria-label') ?? ''}`);
}
for (const each of document.querySelectorAll('main section, main table tbody')) {
  if (isShown(each) && !each.innerText.trim()) say('empty', each);
}
return found;
