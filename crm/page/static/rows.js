/** The ranking: the verdict, a row a model beside its general place, and under an open row why it stands there. */

import { byId, el, listed, markdown, percent, plural, rounded, signed, svg } from './dom.js';
import { ask, baseline, general, nameOf, newest, page, profileOf, refused, rowsShown, unpriced } from './state.js';

const FEW = 10;
const MANY = 15;
const TIED = 4;
const FLAWS = { empty: 'empty', truncated: 'cut off', repeating: 'repetitive', stuffed: 'quoting your words' };
/** @type {Map<string, HTMLElement>} */
const shown = new Map();
const turn = newest();

/** @returns {Map<string, any>} the published ranking by model */
const usual = () => new Map((page.bank.published?.rows || []).map((row) => [row.model, row]));

/** What the ranking says, in a few sentences. */
export function verdict() {
  const { step } = page;
  if (refused()) return ['No ranking', step.refusal];
  const rows = rowsShown();
  if (!rows.length) return ['No model is left', nothing()];
  const all = (general() ? page.bank.published.rows : step.leaderboard).length;
  const best = rows.length === all ? '' : rows.length === 1 ? 'the only one left' : `best of the ${rows.length} shown`;
  const leads = `${nameOf(rows[0].model)} ${best ? `is ${best}, place ${place(rows[0])} of ${all}` : 'leads'}`;
  const chosen = Object.keys(profileOf(page.wanted)).length ? ': your questions and baseline count only there' : '';
  if (general()) return [`General ranking: ${leads}`, `It is ${page.bank.published.title}. Say what you prefer to get your own${chosen}.`];
  const read = step.understood || [];
  const lost = read.filter((each) => each.why).map((each) => `“${each.clause}”${each.weight === 1 ? '' : ` (×${rounded(each.weight)})`}`);
  const asked = Math.max(step.lines.length, read.length);
  const who = page.example ? 'in this example' : lost.length ? `by ${asked - lost.length} of your ${asked} criteria` : 'for you';
  const first = rows[0].may_be_first ? rows.filter((row) => row.may_be_first) : rows.filter((row) => row === rows[0] || tied(rows[0], row));
  const names = first.map((row) => nameOf(row.model));
  const headline = first.length > TIED ? `Not enough signal: ${plural(step.queries, 'question')}, ${first.length} models could be ${best || 'first'}`
    : first.length > 1 ? `${listed(names)} are tied${best && `, ${best},`} ${who}` : `${leads} ${who}`;
  const parts = [page.example ? 'Type what you prefer, and the ranking is yours.' : '',
    lost.length ? `${listed(lost)} ${lost.length === 1 ? 'does' : 'do'} not count.` : '', first.length > 1 ? cheapest(first) : '', wordsOf(rows), because(rows), changes(rows)];
  return [headline, parts.filter(Boolean).join(' ')];
}

/** Why filters leave no model, and which to loosen. */
function nothing() {
  const { open, under } = page.wanted;
  const [count, without] = [rowsShown(0).length, unpriced()];
  if (!count) return 'No model is known to have open weights: take that filter away.';
  const none = without ? `, and ${without} ${without === 1 ? 'has' : 'have'} none` : '';
  return `No model${open ? ' with open weights' : ''} has a list price under $${under}${none}: choose ${count > without ? 'a higher one, or ' : ''}“any price”.`;
}

/** @param {any[]} first */
function cheapest(first) {
  const price = (row) => page.bank.facts?.[row.model]?.usd_out ?? Infinity;
  const least = first.reduce((one, row) => (price(row) < price(one) ? row : one));
  return Number.isFinite(price(least)) ? `The cheapest with a known price is ${nameOf(least.model)} ($${price(least)} a million tokens).` : '';
}

/** @param {any[]} rows */
function wordsOf(rows) {
  if (!rows[0].mean_words) return '';
  const all = page.step.leaderboard.reduce((sum, row) => sum + row.mean_words / page.step.leaderboard.length, 0);
  return `${nameOf(rows[0].model)} writes ${Math.round(rows[0].mean_words)} words an answer, all models ${Math.round(all)}.`;
}

/** What cancels, where the first is furthest ahead of the general first, or of the mean, and where behind; lines of one criterion in sum. @param {any[]} rows */
function because(rows) {
  if (!rows[0].shares?.length) return '';
  const other = page.bank.published && rows.slice(1).find((row) => row.model === page.bank.published.rows[0].model);
  const mean = rows[0].shares.map((_, at) => rows.reduce((sum, row) => sum + row.shares[at], 0) / rows.length);
  const ahead = rows[0].shares.map((share, at) => share - (other || { shares: mean }).shares[at]);
  const criteria = page.step.lines.map((text) => clauses(text).map((each) => each.criterion).join() || text);
  const groups = [...new Set(criteria)].map((name) => criteria.flatMap((each, at) => (each === name ? [at] : [])));
  const sum = (shares, group) => group.reduce((whole, at) => whole + shares[at], 0);
  const opposed = groups.filter((group) => rows.some((row) => Math.abs(row.shares[group[0]]) > 0.005) && rows.every((row) => Math.abs(sum(row.shares, group)) < 0.005));
  const gaps = groups.map((group) => ({ by: sum(ahead, group), lines: [...group].sort((one, two) => ahead[one] - ahead[two]) })).sort((one, two) => one.by - two.by);
  const behind = gaps.filter(({ by }) => by < -0.1).map(({ lines }) => `“${label(lines[0])}”`);
  const most = gaps[gaps.length - 1];
  return [...opposed.map((group) => `${listed(group.map((at) => `“${page.step.lines[at]}”`))} cancel each other.`),
    most.by > 0.1 && `It is ahead of ${other ? `${nameOf(other.model)}, the general first,` : 'the others'} mostly by “${label(most.lines[most.lines.length - 1])}”.`,
    most.by > 0.1 && behind.length && `It is behind in ${listed(behind)}.`].filter(Boolean).join(' ');
}

/** @param {any[]} rows */
function changes(rows) {
  const places = usual();
  const moved = rows.filter((row) => places.has(row.model)).map((row) => [row, places.get(row.model).rank - row.rank]);
  const far = (sign) => moved.filter(([, by]) => sign * by > 2).sort((one, two) => sign * (two[1] - one[1])).slice(0, 2)
    .map(([row]) => `${nameOf(row.model)} (${places.get(row.model).rank} → ${row.rank})`).join(', ');
  const parts = [far(1) && `up ${far(1)}`, far(-1) && `down ${far(-1)}`].filter(Boolean);
  return parts.length ? `Against the general ranking: ${parts.join('; ')}.` : '';
}

/** @param {string} text of a line @returns {any[]} its clauses that count */
const clauses = (text) => (page.step.understood || []).filter((each) => each.line === text && !each.why);

/** @param {number} at @returns {string} what a line of the profile was read as */
function label(at) {
  const text = page.step.lines[at];
  return clauses(text).map((each) => each.meaning).join(', ') || `${at < (page.step.profile.criteria || []).length ? '' : 'not: '}${text}`;
}

/** @param {(model: string) => void} open */
export function showRows(open) {
  const rows = rowsShown();
  const some = page.all || rows.length <= MANY ? rows : rows.slice(0, Math.max(FEW, rows.findIndex((row) => row.model === page.opened) + 1));
  for (const [model, item] of shown) {
    if (!some.some((row) => row.model === model)) { item.remove(); shown.delete(model); }
  }
  const list = byId('rows');
  some.forEach((row, at) => {
    if (!shown.has(row.model)) shown.set(row.model, el('li', {}));
    const item = /** @type {HTMLElement} */ (shown.get(row.model));
    fillRow(item, row, open);
    if (list.children[at] !== item) list.insertBefore(item, list.children[at] || null);
  });
  byId('heads').replaceChildren(...[['', 'Place'], ['', 'Model'], ['picture', ''], ['number', 'Win rate'],
    ['number own', 'General'], ['number own wide', 'Words'],
    ['number own wide', 'Flawed'], ['number wide', '$']].map(([kind, text]) => el('span', { class: kind }, text)));
  byId('ranking').classList.toggle('general', general());
  byId('ranking').classList.toggle('alone', !page.bank.published);
  byId('heads').hidden = !rows.length;
  byId('more').hidden = some.length === rows.length;
  byId('more').textContent = `Show all ${rows.length}`;
  byId('legend').replaceChildren(...(rows.length ? legend() : []));
}

/** Are two not clearly different? Rankings by picks name no ties: their places overlap. @param {any} one @param {any} other */
const tied = (one, other) => (one.tied_with ? one.tied_with.includes(other.model)
  : one.rank_low <= other.rank_high && other.rank_low <= one.rank_high);

/** Among all models, whatever is shown. @param {any} row */
function place(row) {
  const [low, high] = [row.rank_low ?? row.rank, row.rank_high ?? row.rank];
  return low === high ? `${low}` : `${low}–${high}`;
}

/** @param {HTMLElement} item @param {any} row @param {(model: string) => void} open */
function fillRow(item, row, open) {
  const facts = page.bank.facts?.[row.model] || {};
  const base = row.model === baseline();
  const before = general() ? null : usual().get(row.model);
  const moved = before && (before.rank < row.rank_low || before.rank > row.rank_high) ? before.rank - row.rank : 0;
  const places = place(row);
  const limits = row.low === null || row.low === undefined ? '' : `${Math.round(100 * row.low)}–${Math.round(100 * row.high)}`;
  const about = [facts.maker, facts.released, facts.licence || (facts.open_weights && 'open weights'), base && 'baseline',
    row.unread > 0 && `${plural(row.unread, 'comparison')} not read`].filter(Boolean).join(' · ');
  const caption = [`${places}. ${nameOf(row.model)}`, `win rate ${percent(row.win_rate)}`, limits && `${limits.replace('–', ' to ')} percent`,
    before && `in general ${before.rank}`, flawed(row), facts.usd_out && `$${facts.usd_out}`, base && 'the model that all others are compared with'];
  const button = item.querySelector('button') || el('button', { class: 'row', onclick: () => open(row.model) });
  button.setAttribute('aria-label', caption.filter(Boolean).join(', '));
  button.setAttribute('aria-expanded', String(page.opened === row.model));
  button.toggleAttribute('disabled', base || general());
  button.replaceChildren(
    el('span', { class: 'number' }, places), el('span', { class: 'name' }, nameOf(row.model), el('small', {}, about,
      facts.usd_out && el('span', { class: 'narrow' }, `${about && ' · '}$${facts.usd_out}`))),
    picture(row, before), el('span', { class: 'number' }, percent(row.win_rate), limits && el('small', {}, limits)),
    el('span', { class: `number own ${moved > 0 ? 'up' : moved < 0 ? 'down' : ''}` }, before && before.rank, moved ? ` ${moved > 0 ? '▲' : '▼'}` : ''),
    el('span', { class: 'number own wide' }, row.mean_words ? Math.round(row.mean_words) : ''),
    el('span', { class: 'number own wide', title: flawed(row) }, row.flaws ? percent(row.flawed / page.step.queries) : ''),
    el('span', { class: 'number wide' }, facts.usd_out ?? ''));
  if (!button.parentNode) item.append(button);
  if (page.opened !== row.model) item.querySelector('.why')?.remove();
}

/** @param {any} row @returns {string} which of its responses are no answers whatever one prefers */
function flawed(row) {
  if (!row.flaws) return '';
  const kinds = Object.entries(row.flaws).map(([kind, count]) => `${count} ${FLAWS[kind]}`);
  return `${row.flawed} of ${plural(page.step.queries, 'response')} flawed${kinds.length ? `: ${listed(kinds)}` : ''}`;
}

/** @param {any} row @param {any} before */
function picture(row, before) {
  const x = (share) => `${2 + 96 * share}%`;
  return svg('svg', { class: 'interval', 'aria-hidden': 'true', focusable: 'false' },
    svg('line', { class: 'half', x1: '50%', x2: '50%', y1: 0, y2: '100%' }),
    row.low !== null && row.low !== undefined && svg('line', { class: 'range', x1: x(row.low), x2: x(row.high), y1: '50%', y2: '50%' }),
    before && svg('circle', { class: 'usual', cx: x(before.win_rate), cy: '50%', r: 4 }),
    svg('circle', { class: 'mine', cx: x(row.win_rate), cy: '50%', r: 4.5 }));
}

function legend() {
  const base = nameOf(baseline());
  const prices = Object.values(page.bank.facts || {}).some((known) => known.usd_out) ? ' $: for a million tokens of answers.' : '';
  if (general()) return [`Win rate against ${base}.${prices}`];
  return [`Win rate against ${base}: ${page.bank.win_rate}. Interval: 95 %, over questions like these. A place such as 3–5: these models are not clearly different.`,
    ...(page.bank.published ? [el('span', { class: 'picture' }, ' Ring and'), ' General: the published ranking; an arrow where yours is clearly another place.'] : []),
    el('span', { class: 'wide' }, ' Flawed: responses that are empty, cut off, repeat themselves or quote your words.'), `${prices} Choose a model to see why.`];
}

/** Why the open model stands where it does. */
export async function showWhy() {
  const signal = turn();
  const item = shown.get(page.opened);
  const row = rowsShown().find((one) => one.model === page.opened);
  if (!item || !row) return;
  const name = nameOf(row.model);
  const games = el('div', {}, el('p', { class: 'quiet' }, 'Looking for examples …'));
  const panel = el('section', { class: 'why', 'aria-label': `Why ${name}` }, el('h3', {}, `Why ${name}?`), ...bars(row),
    el('p', { class: 'quiet' }, flawed(row)), games);
  item.querySelector('.why')?.remove();
  item.append(panel);
  if (page.step.agreement) return games.replaceChildren(el('p', {}, 'It follows from your picks; a change of a chip ranks by the chips.'));
  try {
    const found = await ask('why', { profile: page.step.profile, model: row.model }, signal);
    games.replaceChildren(...found.duels.map((duel) => example(duel, row.model)));
  } catch (error) {
    if (!signal.aborted) games.replaceChildren(el('p', { class: 'wrong' }, error.message));
  }
}

/** What each line adds; in log-odds they add up. @param {any} row */
function bars(row) {
  if (!row.shares?.length) return [];
  const lost = page.step.not_understood || [];
  const parts = row.shares.map((share, at) => [label(at), share]).filter((_, at) => !lost.includes(page.step.lines[at]));
  const rest = row.log_odds - row.shares.reduce((sum, share) => sum + share, 0);
  if (Math.abs(rest) > 0.005) parts.push(['whatever is asked', rest]);
  const most = Math.max(1, ...parts.map(([, share]) => Math.abs(share)));
  return [el('p', { class: 'quiet' }, `What each line adds to its mean log-odds, ${signed(row.log_odds, 2)} in sum; 2.2 on every question is a win rate of 90 %.`),
    ...parts.map(([text, share]) => bar(text, share, (48 * Math.abs(share)) / most))];
}

/** @param {string} text @param {number} share @param {number} width */
function bar(text, share, width) {
  const rect = svg('rect', { class: share < 0 ? 'minus' : 'plus', x: `${share < 0 ? 50 - width : 50}%`, y: 2, width: `${width}%`, height: 12 });
  return el('div', { class: 'bar' }, el('span', {}, text),
    svg('svg', { 'aria-hidden': 'true' }, svg('line', { class: 'half', x1: '50%', x2: '50%', y1: 0, y2: 16 }), rect),
    el('span', {}, signed(share, 2)));
}

/** @param {any} duel @param {string} model */
function example(duel, model) {
  const [won, lost] = [duel.probability > 0.5, duel.probability < 0.5];
  const side = (who, text, better) => el('div', {},
    el('p', {}, el('strong', {}, nameOf(who)), `, ${plural((text.match(/\S+/g) || []).length, 'word')}`),
    el('div', { class: `answer${better ? ' better' : ''}`, tabindex: 0 }, ...markdown(text)));
  const number = (count) => Number(count.toFixed(count < 10 ? 2 : 0));
  const counted = Object.entries(duel.counts).map(([of, [own, other]]) => `${of} ${number(own)} against ${number(other)}`).join('; ');
  return el('article', {}, el('h4', {}, `A typical ${won ? 'win' : lost ? 'loss' : 'tie'}: ${percent(duel.probability)}`),
    el('p', {}, el('em', {}, duel.query)), counted && el('p', {}, `Counted: ${counted}.`),
    el('div', { class: 'pair' }, side(model, duel.response, won),
      side(baseline(), duel.baseline_response, lost)));
}
