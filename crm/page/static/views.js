/** What stands below the ranking: topics, cost, two people, files, and what researchers ask. */

import { compare } from './compare.js';
import { el, percent, svg } from './dom.js';
import { nameOf, page, rowsShown } from './main.js';
import { address } from './server.js';
import { queryOf } from './state.js';

const BIBTEX = `@article{jia2025usercentric,
  title={User-centric Subjective Leaderboard by Customizable Reward Modeling},
  author={Jia, Qi and Song, Xiujie and Zhang, Zicheng and Guo, Yijin and Zhang, Kaiwei and Chen, Zijian and
    Zhai, Guangtao},
  journal={arXiv preprint arXiv:2508.09463},
  year={2025}
}`;

/** Win rates by topic, coloured by how far they are from one half. @param {HTMLElement} panel */
function topics(panel) {
  const rows = rowsShown();
  const column = (topic) => (rows.some((row) => `topic ${topic}` in row) ? `topic ${topic}` : topic); // one called "rank", say
  const names = Object.keys(page.bank.topics).filter((topic) => rows.some((row) => typeof row[column(topic)] === 'number'));
  if (!names.length) return panel.replaceChildren(el('h2', {}, 'By topic'), el('p', {}, 'This ranking has no topics to show.'));
  const cell = (share) => {
    const made = el('td', {}, typeof share === 'number' ? String(Math.round(100 * share)) : '');
    made.style.setProperty('--side', share >= 0.5 ? '#7aa7ff' : '#f39a68');
    made.style.setProperty('--part', `${typeof share === 'number' ? Math.round(Math.min(1, 2 * Math.abs(share - 0.5)) * 90) : 0}%`);
    return made;
  };
  const head = el('tr', {}, el('th', { scope: 'col' }, 'Model'), ...names.map((topic) => el('th', { scope: 'col' }, topic)));
  const body = rows.map((row) => el('tr', {}, el('th', { scope: 'row' }, nameOf(row.model)), ...names.map((topic) => cell(row[column(topic)]))));
  panel.replaceChildren(el('h2', {}, 'By topic'),
    el('p', { class: 'quiet' }, 'Win rate in percent: blue above one half, orange below it. Few questions make a cell unsure.'),
    el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Win rates by topic' },
      el('table', { class: 'heat' }, el('thead', {}, head), el('tbody', {}, ...body))));
}

/** Win rate against price, with the models that none beats in both. @param {HTMLElement} panel */
function cost(panel) {
  const rows = rowsShown().map((row) => ({ ...row, usd: page.bank.facts?.[row.model]?.usd_out }));
  const priced = rows.filter((row) => typeof row.usd === 'number').sort((a, b) => a.usd - b.usd || b.win_rate - a.win_rate);
  const missing = rows.filter((row) => typeof row.usd !== 'number').map((row) => nameOf(row.model));
  const title = el('h2', {}, 'Win rate and price');
  if (!priced.length) {
    return panel.replaceChildren(title, el('p', {}, 'No price of any model is known. Whoever runs this page can put a models.csv beside the bank.'));
  }
  const most = Math.max(...priced.map((row) => row.usd), 0.01);
  const x = (usd) => 50 + 520 * Math.sqrt(usd / most);
  const y = (share) => 290 - 260 * share;
  let best = -1;
  const front = priced.filter((row) => row.win_rate > best && (best = row.win_rate) >= 0);
  const ticks = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [svg('line', { class: 'axis', x1: 50, x2: 600, y1: y(share), y2: y(share) }),
    svg('text', { x: 8, y: y(share) + 4 }, `${100 * share} %`)]);
  const prices = [0, most / 9, (4 * most) / 9, most].map((usd) => svg('text', { x: x(usd), y: 312, 'text-anchor': 'middle' }, `$${+usd.toPrecision(2)}`));
  const dots = priced.map((row, at) => [svg('circle', { class: 'mine', cx: x(row.usd), cy: y(row.win_rate), r: 5 }),
    svg('text', { x: x(row.usd) + (at === priced.length - 1 ? -8 : 8), y: y(row.win_rate) - 7,
      'text-anchor': at === priced.length - 1 ? 'end' : 'start' }, nameOf(row.model))]);
  const caption = front.map((row) => `${nameOf(row.model)}: $${row.usd}, ${percent(row.win_rate)}`).join('; ');
  panel.replaceChildren(title,
    el('p', { class: 'quiet' }, 'Dollars for a million tokens of answers. On the line: no other model is better and cheaper.'),
    svg('svg', { class: 'chart', viewBox: '0 0 680 320', role: 'img', 'aria-label': `Best for their price: ${caption}` },
      ...ticks, ...prices, svg('polyline', { class: 'best', points: front.map((row) => `${x(row.usd)},${y(row.win_rate)}`).join(' ') }), ...dots),
    el('p', {}, `Best for their price: ${caption}.`), missing.length ? el('p', { class: 'quiet' }, `Price missing: ${missing.join(', ')}.`) : '');
}

/** Link, files and settings that this browser keeps. @param {HTMLElement} panel */
function share(panel) {
  const query = queryOf(page.step?.profile || {});
  const link = /** @type {HTMLInputElement} */ (el('input', { id: 'link', readonly: true, value: location.href }));
  const reply = el('span', { role: 'status' });
  const copy = el('button', { onclick: async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      reply.textContent = 'Copied.';
    } catch { // not allowed, or a page without https
      link.select();
      reply.textContent = 'Press Ctrl+C to copy it.';
    }
  } }, 'Copy');
  const name = /** @type {HTMLInputElement} */ (el('input', { id: 'saved-name', maxlength: 80 }));
  const list = el('ul', {}, ...savedLinks());
  const save = el('form', { class: 'line', onsubmit: (event) => {
    event.preventDefault();
    if (!name.value.trim()) { reply.textContent = 'Give it a name first.'; return name.focus(); }
    localStorage.setItem('profiles', JSON.stringify({ ...saved(), [name.value.trim()]: location.search }));
    list.replaceChildren(...savedLinks());
    reply.textContent = 'Saved in this browser.';
  } }, el('label', { class: 'grow' }, 'Save these settings in this browser as', name), el('button', {}, 'Save'));
  const file = page.step?.agreement ? null : el('a', { href: `${address('export/csv')}?${query}`, download: true }, 'Download CSV');
  panel.replaceChildren(el('h2', {}, 'Share and keep'),
    el('div', { class: 'line' }, el('label', { class: 'grow' }, 'Link to this ranking', link), copy, reply),
    el('p', { class: 'line' }, file), save, list);
}

/** @returns {Record<string, string>} */
function saved() {
  try {
    return JSON.parse(localStorage.getItem('profiles') || '{}') || {};
  } catch {
    return {};
  }
}

function savedLinks() {
  return Object.entries(saved()).map(([name, query]) =>
    el('li', {}, el('a', { href: `?${String(query).replace(/^\?/, '')}` }, name)));
}

/** @param {HTMLElement} panel */
function research(panel) {
  const { bank, step } = page;
  const asked = step?.queries ? step.queries * (step.leaderboard.length - 1) : 0;
  const curl = `curl -s ${address('rank')} -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(step?.profile || {}).replaceAll("'", "'\\''")}'`;
  const facts = [['Bank', `${bank.name}: ${bank.queries} questions, ${bank.models.length} models`], ['Judge', bank.judge],
    ['Version', bank.version], ['Baseline', page.wanted.baseline || bank.baseline],
    ['Comparisons without a verdict', `${step?.failed ?? 0} of ${asked}`],
    ['Both orders', 'one number: a response is scored alone']];
  panel.replaceChildren(el('h2', {}, 'For researchers'),
    el('dl', {}, ...facts.flatMap(([name, value]) => [el('dt', {}, el('strong', {}, name)), el('dd', {}, value)])),
    el('h3', {}, 'The same over HTTP'), el('pre', { tabindex: 0 }, curl),
    el('p', {}, el('a', { href: 'openapi.json' }, 'Every route and field (OpenAPI)')),
    el('h3', {}, 'To cite'), el('pre', { tabindex: 0 }, BIBTEX));
}

export const views = { topics, cost, compare, share, research };
