/** What stands below the ranking: topics, two people, files, and what researchers ask. */

import { meaning } from './chips.js';
import { el, rounded, signed } from './dom.js';
import { address, ask, baseline, fromQuery, general, line, nameOf, newest, page, picksAsked, profileOf, queryOf, rowsShown, sees, topicName } from './state.js';

const BIBTEX = `@article{jia2025usercentric,
  title={User-centric Subjective Leaderboard by Customizable Reward Modeling},
  author={Jia, Qi and Song, Xiujie and Zhang, Zicheng and Guo, Yijin and Zhang, Kaiwei and Chen, Zijian and
    Zhai, Guangtao},
  journal={arXiv preprint arXiv:2508.09463},
  year={2025}
}`;
let last = '';
const turn = newest();

/** @param {string} label @param {string[]} heads @param {any[][]} rows cells, the first of them a head @param {string} [kind] */
const table = (label, heads, rows, kind) => el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label },
  el('table', { class: kind }, el('thead', {}, el('tr', {}, ...heads.map((head) => el('th', { scope: 'col' }, head)))),
    el('tbody', {}, ...rows.map(([head, ...cells]) => el('tr', {}, el('th', { scope: 'row' }, head), ...cells)))));

/** Win rates by topic, coloured by how far they are from one half. @param {HTMLElement} panel */
function topics(panel) {
  const rows = general() ? [] : rowsShown().filter((row) => row.topics);
  const names = Object.keys(page.bank.topics).filter((topic) => rows.some((row) => topic in row.topics));
  const title = el('h2', {}, 'By topic');
  if (!names.length) return panel.replaceChildren(title, el('p', {}, page.step?.agreement
    ? 'A ranking by picks has no topics: a change of a chip ranks by the chips.' : 'Make a ranking first: say what you prefer.'));
  const few = (name) => page.step.topics[name] < page.bank.least;
  const cell = (share, name) => {
    const made = el('td', { class: few(name) && 'quiet' }, share === undefined ? '' : String(Math.round(100 * share)));
    made.style.setProperty('--side', share >= 0.5 ? '#7aa7ff' : '#f39a68');
    made.style.setProperty('--part', `${share === undefined || few(name) ? 0 : Math.round(Math.min(1, 2 * Math.abs(share - 0.5)) * 90)}%`);
    return made;
  };
  return panel.replaceChildren(title,
    el('p', { class: 'quiet' }, `Win rate in percent: blue above one half, orange below it. Beside a topic: its questions; with fewer than ${page.bank.least} it has no colour.`),
    table('Win rates by topic', ['Model', ...names.map((name) => `${topicName(name)} (${page.step.topics[name]})`)],
      rows.map((row) => [nameOf(row.model), ...names.map((name) => cell(row.topics[name], name))]), 'heat'));
}

/** Two people on the same questions. @param {HTMLElement} panel */
function compare(panel) {
  const field = /** @type {HTMLTextAreaElement} */ (el('textarea', { id: 'other', rows: 2 }, last));
  const out = el('div', { 'aria-live': 'polite' });
  const form = el('form', { onsubmit: (event) => {
    event.preventDefault();
    last = field.value;
    showBoth(out, field.value);
  } }, el('label', {}, 'The link of a friend, or what they care about, a line each', field), el('button', {}, 'Compare'));
  panel.replaceChildren(el('h2', {}, 'Compare with somebody'), form, out);
  if (last) showBoth(out, last);
}

/** @param {string} text a link or lines @returns {any[]} what the other person asks for */
function linesOf(text) {
  return /^\s*https?:/.test(text) ? fromQuery(text.trim().split(/[?#]/)[1] || '').lines : text.split('\n').filter((row) => row.trim()).map((row) => line(row.trim(), 'like'));
}

/** @param {HTMLElement} out @param {string} text */
async function showBoth(out, text) {
  const signal = turn();
  const mine = general() || page.step?.agreement ? null : page.step?.profile;
  const lines = linesOf(text);
  const wrong = !mine ? 'Make a ranking by chips first.' : lines.length ? '' : 'This has no criteria: paste another link, or write what they care about.';
  if (wrong) return out.replaceChildren(el('p', { class: 'wrong' }, wrong));
  out.replaceChildren('Comparing …');
  try {
    const found = await ask('compare', { first: mine, second: profileOf({ ...page.wanted, lines }) }, signal);
    const read = (one) => found.understood.filter((each) => each.line === one.text);
    const weight = (one) => rounded(read(one).length === 1 ? read(one)[0].weight : one.weight);
    out.replaceChildren(el('p', {}, alike(found)), el('p', {}, 'The other person, on your questions:'),
      el('ul', {}, ...lines.map((one) => el('li', {}, `${one.kind === 'like' ? '+' : '−'} ${one.text} ×${weight(one)}, ${read(one).map(meaning).join('; ') || 'counts'}`))), table('Two rankings', ['Model', 'You', 'Other person', 'Win rate changes by'],
      found.models.map((row) => [nameOf(row.model), ...[row.rank_first, row.rank_second, signed(100 * row.change)].map((cell) => el('td', {}, cell))])));
  } catch (error) {
    if (!signal.aborted) out.replaceChildren(el('p', { class: 'wrong' }, error.message));
  }
}

/** @param {any} found */
function alike(found) {
  if (found.tau === null) return 'One of you likes all models equally well, so that there is no order to compare.';
  const how = found.tau > 0.8 ? 'nearly the same ranking' : found.tau > 0.3 ? 'rankings that are alike'
    : found.tau > -0.3 ? 'rankings that have little to do with each other' : found.tau > -0.8 ? 'rankings that rather disagree' : 'opposite rankings';
  const two = (value) => (value === null ? '–' : value.toFixed(2).replace('-', '−'));
  return `You have ${how}: Kendall’s tau ${two(found.tau)} [${two(found.low)}, ${two(found.high)}], where 1 is the same order and −1 the opposite.`;
}

/** Link and files. @param {HTMLElement} panel */
function share(panel) {
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
  const rows = rowsShown();
  const models = rows.length < page.step?.leaderboard.length ? rows.map((row) => row.model) : [];
  const csv = rows.length > 0 && !general() && !page.step.agreement && !page.step.refusal
    && el('a', { href: `${address('export/csv')}?${queryOf({ ...page.step.profile, models })}`, download: true }, 'Ranking as CSV');
  const picks = page.wanted.picks.length > 0 && savePicks(picksAsked());
  panel.replaceChildren(el('h2', {}, 'Share and keep'),
    el('div', { class: 'line' }, el('label', { class: 'grow' }, 'Link to this ranking', link), copy, reply),
    el('p', { class: 'line' }, csv, picks));
}

/** A button, and why it failed. @param {any} asked a request for picks */
export function savePicks(asked) {
  const reply = el('span', { class: 'wrong', role: 'alert' });
  return [el('button', { onclick: async () => {
    try {
      const url = URL.createObjectURL(await ask('picks/csv', asked, undefined, 'blob'));
      el('a', { href: url, download: 'picks.csv' }).click();
      URL.revokeObjectURL(url);
      reply.textContent = '';
    } catch (error) {
      reply.textContent = error.message;
    }
  } }, 'Your picks as CSV'), reply];
}

/** @param {HTMLElement} panel */
function research(panel) {
  const { bank, step } = page;
  const [route, body] = page.wanted.picks.length ? ['picks', picksAsked()] : ['rank', step?.profile || {}];
  const curl = `curl -s ${address(route)} -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
  const asked = step?.queries ? (step.queries + step.left_out) * (bank.models.length - 1) : 0;
  const facts = [['Bank', `${bank.name}: ${bank.queries} questions, ${bank.models.length} models`], ['Licence of the answers', bank.licence || 'not stated'],
    ['Judge', [`${bank.judge}. ${sees()} `, bank.card && el('a', { href: address('card') }, 'Model card')]],
    ['Version', bank.version], ['Baseline', baseline()],
    ['Comparisons that could not be read', `${step?.failed ?? 0} of ${asked}`],
    ['General ranking', bank.published?.title || 'none is published for this bank'],
    ['First', 'Models that no other beats clearly: multiple comparisons with the best, 95 %. Places: paired t-tests of all pairs, Holm.']];
  panel.replaceChildren(el('h2', {}, 'For researchers'),
    el('dl', {}, ...facts.flatMap(([name, value]) => [el('dt', {}, el('strong', {}, name)), el('dd', {}, ...[value].flat())])),
    el('h3', {}, 'The same over HTTP'), el('pre', { tabindex: 0 }, curl),
    el('p', {}, el('a', { href: 'openapi.json' }, 'Every route and field (OpenAPI)')),
    el('h3', {}, 'To cite'), el('pre', { tabindex: 0 }, BIBTEX));
}

export const views = { topics, compare, share, research };
