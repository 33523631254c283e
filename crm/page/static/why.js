/** Why a model stands where it does: what each line adds, a typical win and loss, the sentence that moves the judge. */

import { adds } from './reasons.js';
import { byId, el, percent, signed, svg } from './dom.js';
import { nameOf, openWhy, page } from './main.js';
import { ask } from './server.js';

let turn = new AbortController();

/** @param {string} model @param {boolean} move whether the focus goes to the heading */
export async function showWhy(model, move) {
  turn.abort();
  turn = new AbortController();
  const { signal } = turn;
  const { profile } = page.step;
  const title = el('h2', { tabindex: -1 }, `Why ${nameOf(model)}?`);
  const bars = el('div', {});
  const games = el('div', {}, el('p', { class: 'quiet' }, 'Looking for examples …'));
  const close = el('button', { class: 'small', onclick: () => openWhy(model) }, 'Close');
  byId('why').replaceChildren(title, bars, games, close);
  if (move) title.focus();
  try {
    const found = await ask('why', { profile, model }, signal);
    games.replaceChildren(el('p', {}, `It wins ${found.wins} of ${found.n} questions against ${baseline()}.`),
      ...found.duels.map((duel) => example(duel, model, profile)));
    await showBars(bars, model, signal);
  } catch (error) {
    if (!signal.aborted) games.replaceChildren(el('p', { class: 'wrong' }, error.message));
  }
}

const baseline = () => nameOf(page.wanted.baseline || page.bank.baseline);

/** @param {HTMLElement} where @param {string} model @param {AbortSignal} signal */
async function showBars(where, model, signal) {
  if (!page.wanted.lines.length || page.step.agreement) return;
  where.replaceChildren(el('h3', {}, 'What each line adds to its win rate'));
  const rows = [];
  for await (const one of adds(model, signal)) {
    rows.push(one);
    const most = Math.max(10, ...rows.map((row) => Math.abs(row.points)));
    where.replaceChildren(where.firstElementChild, ...rows.map((row) => bar(row, most)));
  }
}

/** @param {any} row @param {number} most */
function bar(row, most) {
  const width = (48 * Math.abs(row.points)) / most;
  const rect = svg('rect', { class: row.points < 0 ? 'minus' : 'plus', x: `${row.points < 0 ? 50 - width : 50}%`, y: 2,
    width: `${width}%`, height: 12 });
  return el('div', { class: 'bar' }, el('span', {}, row.kind === 'like' ? row.text : `no ${row.text}`),
    svg('svg', { 'aria-hidden': 'true' }, svg('line', { class: 'half', x1: '50%', x2: '50%', y1: 0, y2: 16 }), rect),
    el('span', {}, `${signed(row.points)} pts`));
}

/** @param {any} duel @param {string} model @param {any} profile */
function example(duel, model, profile) {
  const [won, lost] = [duel.probability > 0.5, duel.probability < 0.5];
  const words = [duel.response, duel.baseline_response].map(wordsOf);
  const mine = el('div', { class: `answer${won ? ' better' : ''}`, tabindex: 0 }, ...differing(duel.response, words[1]));
  const theirs = el('div', { class: `answer${lost ? ' better' : ''}`, tabindex: 0 },
    ...differing(duel.baseline_response, words[0]));
  const sentences = el('button', { class: 'small', onclick: () => showSentences(duel, model, profile, mine, sentences) },
    'Which sentence matters?');
  return el('article', {},
    el('h3', {}, `A typical ${won ? 'win' : lost ? 'loss' : 'tie'}`), el('p', {}, el('em', {}, duel.query)),
    el('p', {}, el('strong', {}, nameOf(model)), ` · ${count(duel.response)} words · preferred ${percent(duel.probability)}`),
    mine, sentences, el('p', {}, el('strong', {}, baseline()), ` · ${count(duel.baseline_response)} words`), theirs);
}

/** @param {string} text */
const count = (text) => (text.match(/\S+/g) || []).length;
/** @param {string} text */
const wordsOf = (text) => new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) || []);

/** Text with the words marked that the other answer does not have. @param {string} text @param {Set<string>} others */
function differing(text, others) {
  return (text.match(/[\p{L}\p{N}]+|[^\p{L}\p{N}]+/gu) || []).map((part) =>
    /[\p{L}\p{N}]/u.test(part) && !others.has(part.toLowerCase()) ? el('mark', {}, part) : part);
}

/** @param {any} duel @param {string} model @param {any} profile @param {HTMLElement} where @param {any} button */
async function showSentences(duel, model, profile, where, button) {
  button.disabled = true;
  button.textContent = 'Leaving each sentence out …';
  try {
    const { sentences } = await ask('sentences', { profile, model, query_id: duel.query_id }, turn.signal);
    where.replaceChildren(...sentences.map(({ text, points }) => el('span', { class: effect(points) }, `${text} `,
      Math.abs(points) >= 1 && el('small', {}, `(${signed(points)}) `))));
    button.replaceWith(el('p', { class: 'quiet small' }, 'In brackets: points that the sentence adds to the probability.'));
  } catch (error) {
    button.textContent = error.message;
  }
}

/** @param {number} points */
const effect = (points) => (points >= 1 ? 'helps' : points <= -1 ? 'hurts' : 'neutral');
