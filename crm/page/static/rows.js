/** The ranking as rows with pictures: an interval, a dot for most people, a band for models that cannot be told apart. */

import { byId, el, percent, plural, svg } from './dom.js';

/** @typedef {{model: string, rank: number, rank_low: number, rank_high: number, win_rate: number, low: number | null,
 *   high: number | null, unread?: number}} Row */

/** @type {Map<string, HTMLElement>} */
const shown = new Map();

/**
 * @param {Row[]} rows best first @param {Row[] | null} most the ranking of most people
 * @param {{facts: Record<string, any>, open: (model: string) => void, opened: string, baseline: string}} page
 */
export function showRows(rows, most, page) {
  const usual = new Map((most || []).map((row) => [row.model, row]));
  const list = byId('rows');
  for (const [model, item] of shown) {
    if (!rows.some((row) => row.model === model)) { item.remove(); shown.delete(model); }
  }
  rows.forEach((row, at) => {
    if (!shown.has(row.model)) shown.set(row.model, el('li', {}));
    const item = /** @type {HTMLElement} */ (shown.get(row.model));
    const band = bandOf(rows, at);
    item.className = band % 2 ? 'odd' : 'even';
    fillRow(item, row, usual.get(row.model), page);
    if (list.children[at] !== item) list.insertBefore(item, list.children[at] || null);
  });
}

/** Rows whose ranks overlap share a band. @param {Row[]} rows @param {number} at */
function bandOf(rows, at) {
  let band = 0;
  for (let place = 1; place <= at; place += 1) if (rows[place].rank_low !== rows[place - 1].rank_low) band += 1;
  return band;
}

/** @param {HTMLElement} item @param {Row} row @param {Row | undefined} usual @param {any} page */
function fillRow(item, row, usual, page) {
  const facts = page.facts[row.model] || {};
  const moved = usual ? usual.rank - row.rank : 0;
  const place = row.rank_low === row.rank_high ? `${row.rank_low}` : `${row.rank_low}–${row.rank_high}`;
  const limits = row.low === null || row.low === undefined ? '' : `${whole(row.low)}–${whole(row.high)}`;
  const change = moved > 0 ? `up ${moved}` : moved < 0 ? `down ${-moved}` : '';
  const base = row.model === page.baseline;
  const caption = [`${place}. ${row.model}`, `preferred ${percent(row.win_rate)}`, limits && `${limits.replace('–', ' to ')} percent`,
    change && `${change} against most people`, base && 'the model that all others are compared with'];
  const button = item.querySelector('button') || el('button', { class: 'row', onclick: () => page.open(row.model) });
  button.setAttribute('aria-label', caption.filter(Boolean).join(', '));
  button.setAttribute('aria-expanded', String(page.opened === row.model));
  button.toggleAttribute('disabled', base);
  button.replaceChildren(
    el('span', { class: 'place' }, place),
    el('span', { class: 'name' }, facts.display || row.model, facts.open_weights && el('small', {}, 'open weights'),
      base && el('small', {}, 'baseline'), row.unread > 0 && el('small', { class: 'wrong' }, `${row.unread} unread`)),
    picture(row, usual),
    el('span', { class: 'rate' }, percent(row.win_rate), ' ', el('small', {}, limits)),
    el('span', { class: `moved ${moved > 0 ? 'up' : 'down'}` }, moved ? `${moved > 0 ? '▲' : '▼'}${Math.abs(moved)}` : ''),
  );
  if (!button.parentNode) item.append(button);
}

/** @param {number | null} share */
const whole = (share) => Math.round(100 * (share || 0));

/** @param {Row} row @param {Row | undefined} usual */
function picture(row, usual) {
  const x = (share) => `${2 + 96 * share}%`;
  return svg('svg', { class: 'interval', 'aria-hidden': 'true', focusable: 'false' },
    svg('line', { class: 'half', x1: '50%', x2: '50%', y1: 0, y2: '100%' }),
    row.low !== null && row.low !== undefined &&
      svg('line', { class: 'range', x1: x(row.low), x2: x(row.high), y1: '50%', y2: '50%' }),
    usual && svg('circle', { class: 'usual', cx: x(usual.win_rate), cy: '50%', r: 4 }),
    svg('circle', { class: 'mine', cx: x(row.win_rate), cy: '50%', r: 4.5 }));
}

/**
 * What the ranking says, in a sentence.
 * @param {Row[]} rows @param {string} who whose ranking it is @param {(model: string) => string} name
 */
export function headline(rows, who, name) {
  const first = rows.filter((row) => row.rank_low === 1).map((row) => name(row.model));
  if (first.length > 4) return `No clear winner yet: ${plural(first.length, 'model')} could be first`;
  if (first.length > 1) return `${who}: ${first.slice(0, -1).join(', ')} or ${first[first.length - 1]}`;
  return `${who}: ${name(rows[0].model)}`;
}

/** @param {Row[]} rows @param {(model: string) => string} name @returns {string} who comes next, or cannot be told apart */
export function runnersUp(rows, name) {
  const first = rows.filter((row) => row.rank_low === 1);
  if (first.length > 1) return 'These cannot be told apart.';
  const second = rows.filter((row) => row.rank_low === 2).map((row) => name(row.model));
  if (!second.length || second.length > 3) return '';
  return second.length === 1 ? `${second[0]} is the runner-up.` : `Runners-up: ${second.join(', ')}.`;
}
