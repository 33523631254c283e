/** Two people on the same questions: a line a model between two rankings. */

import { el, signed, svg } from './dom.js';
import { nameOf, page } from './main.js';
import { lineOf } from './chips.js';
import { ask } from './server.js';
import { fromQuery, profileOf } from './state.js';

let last = '';

/** @param {HTMLElement} panel */
export function compare(panel) {
  const field = /** @type {HTMLTextAreaElement} */ (el('textarea', { id: 'other', rows: 2 }, last));
  const out = el('div', { 'aria-live': 'polite' });
  const form = el('form', { onsubmit: (event) => {
    event.preventDefault();
    last = field.value;
    show(out, field.value);
  } }, el('label', {}, 'The link of a friend, or what they care about, a line each', field), el('button', {}, 'Compare'));
  panel.replaceChildren(el('h2', {}, 'Compare with somebody'), form, out);
  if (last) show(out, last);
}

/** What the other person wants, on my questions. @param {string} text @returns {any[]} lines */
export function linesOf(text) {
  const query = text.trim().split('?')[1];
  if (query && /^\s*https?:/.test(text)) return fromQuery(query.split('#')[0]).lines;
  return text.split('\n').map(lineOf).filter((one) => one !== null);
}

/** @param {HTMLElement} out @param {string} text */
async function show(out, text) {
  const mine = page.step?.profile;
  if (!mine || page.step.agreement) return out.replaceChildren(el('p', { class: 'wrong' }, 'Make a ranking by likes and dislikes first.'));
  if (!text.trim()) return out.replaceChildren(el('p', { class: 'wrong' }, 'Paste a link, or write what they care about.'));
  out.replaceChildren(el('p', {}, 'Ranking for both …'));
  try {
    const theirs = profileOf({ ...page.wanted, lines: linesOf(text) });
    const found = await ask('compare', { first: mine, second: theirs });
    if (page.step.profile !== mine) return;
    out.replaceChildren(el('p', {}, sentence(found)), picture(found.models), gains(found.models));
  } catch (error) {
    out.replaceChildren(el('p', { class: 'wrong' }, error.message));
  }
}

/** @param {any} found */
function sentence(found) {
  if (found.tau === null) return 'One of you likes all models equally well, so that there is no order to compare.';
  const how = found.tau > 0.8 ? 'nearly the same ranking' : found.tau > 0.3 ? 'rankings that are alike'
    : found.tau > -0.3 ? 'rankings that have little to do with each other' : 'opposite rankings';
  const two = (value) => (value === null ? '–' : value.toFixed(2));
  return `You have ${how}: Kendall’s tau ${two(found.tau)} [${two(found.low)}, ${two(found.high)}], where 1 is the same order and −1 the opposite.`;
}

/** @param {any[]} models */
function picture(models) {
  const y = (rank) => 34 + 22 * (rank - 1);
  const name = (row) => (nameOf(row.model).length > 26 ? `${nameOf(row.model).slice(0, 25)}…` : nameOf(row.model));
  const lines = models.map((row) => {
    const moved = row.rank_first - row.rank_second;
    return [svg('line', { class: moved > 0 ? 'rise' : moved < 0 ? 'fall' : 'half', 'stroke-width': Math.abs(moved) > 2 ? 3 : 1.5,
      x1: 236, x2: 444, y1: y(row.rank_first) - 4, y2: y(row.rank_second) - 4 }),
    svg('text', { x: 228, y: y(row.rank_first), 'text-anchor': 'end' }, `${name(row)}  ${row.rank_first}`),
    svg('text', { x: 452, y: y(row.rank_second) }, `${row.rank_second}  ${name(row)}`)];
  });
  const first = (side) => nameOf((models.find((row) => row[side] === 1) || models[0]).model);
  return svg('svg', { class: 'chart', viewBox: `0 0 680 ${y(models.length) + 12}`, role: 'img',
    'aria-label': `Two rankings. First for you: ${first('rank_first')}. First for them: ${first('rank_second')}.` },
  svg('text', { x: 228, y: 12, 'text-anchor': 'end' }, 'You'), svg('text', { x: 452, y: 12 }, 'They'), ...lines);
}

/** @param {any[]} models */
function gains(models) {
  const points = (row) => `${nameOf(row.model)} (${signed(100 * row.change)})`;
  const up = models.filter((row) => row.change > 0.005).slice(0, 3).map(points);
  const down = models.filter((row) => row.change < -0.005).slice(-3).reverse().map(points);
  return el('p', {}, up.length ? `They gain with the other person: ${up.join(', ')}. ` : '',
    down.length ? `They lose: ${down.join(', ')}. ` : '', 'In points of the win rate.');
}
