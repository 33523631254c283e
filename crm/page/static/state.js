/** What a person asked for, which the address holds, and the HTTP API. */

/**
 * @typedef {{text: string, kind: 'like' | 'dislike', weight: number}} Line
 * @typedef {{query: number, left: number, right: number, random: boolean, choice: string, offered: number[],
 *   reason: number | null}} Pick
 * @typedef {{lines: Line[], topics: string[], baseline: string, queries: number, drop_flawed: boolean,
 *   open: boolean, under: number, picks: Pick[], seed: number, bank: string, typed: Line[]}} Wanted
 */

const CHOICES = ['left', 'same', 'right'];

/** @param {string} query of an address @returns {Wanted} */
export function fromQuery(query) {
  const given = new URLSearchParams(query);
  const weights = given.getAll('weights').map(Number);
  const kinds = { criteria: 'like', dislikes: 'dislike' };
  const lines = [...given].filter(([name]) => name in kinds).map(([name, text]) => line(text, kinds[name]));
  if (weights.length === lines.length) likesFirst(lines).forEach((one, at) => { one.weight = weights[at] || 1; });
  return {
    lines,
    topics: given.getAll('topics'),
    baseline: given.get('baseline') || '',
    queries: Number(given.get('queries')) || 0,
    drop_flawed: given.get('drop_flawed') === 'true',
    open: given.has('open'),
    under: Number(given.get('under')) || 0,
    picks: (given.get('picks') || '').split('_').map(toPick).filter((pick) => pick !== null),
    seed: Number(given.get('seed')) || 0,
    bank: given.get('bank') || '',
    typed: given.getAll('typed').flatMap((text) => [...text.matchAll(/^([+-])(?:([\d.]+)~)?(.+)$/gs)])
      .map(([, sign, weight, words]) => line(words, sign === '-' ? 'dislike' : 'like', Number(weight) || 1)),
  };
}

/** @type {any} what all parts of the page share; `changed` and `draw` are of main.js */
export const page = {
  bank: null, wanted: fromQuery(location.search), example: false, step: null, opened: '', view: '', anyway: false, all: false,
  changed: () => {}, draw: () => {},
};

/** @param {string} text @param {'like' | 'dislike'} kind @param {number} [weight] @returns {Line} */
export function line(text, kind, weight = 1) {
  return { text, kind, weight };
}

/** What the person typed: an example is not theirs. @returns {Line[]} */
export const ownLines = () => (page.example ? [] : page.wanted.lines);

/** @param {string} model @returns {string} as it is called on the page */
export const nameOf = (model) => page.bank.facts?.[model]?.display || model;

/** @param {string} topic @returns {string} as it is called on the page */
export const topicName = (topic) => (topic === 'untagged' ? 'no topic given' : topic);

/** @param {any} each a clause @returns {string} who has scored it, where it is not the page's judge */
export const scorer = (each) => (each.why || ['counting', page.bank.judge].includes(each.scored_by) ? '' : each.scored_by);

/** @returns {string} what counts in the ranking that is shown */
export function sees() {
  const others = [...new Set((page.step?.understood || []).map(scorer).filter(Boolean))];
  return others.length ? `Scores by ${others.join(', ')} count in your ranking.` : page.bank.sees;
}

/** @returns {boolean} whether the ranking must not be shown */
export const refused = () => Boolean(page.step?.refusal) && !page.anyway;

/** @returns {boolean} whether the published ranking is shown */
export const general = () => Boolean(page.bank.published) && !page.step;

/** @returns {string} whom the ranking that is shown compares with */
export const baseline = () => page.step?.profile.baseline || page.bank.baseline;

/** Rows after the filters of the page. @param {number} [under] a price, as wanted @returns {any[]} */
export function rowsShown(under = page.wanted.under) {
  const { open } = page.wanted;
  const rows = general() ? page.bank.published.rows : refused() ? [] : page.step?.leaderboard || [];
  return rows.filter((row) => {
    const facts = page.bank.facts?.[row.model] || {};
    return (!open || facts.open_weights === true) && (!under || (facts.usd_out ?? Infinity) <= under);
  });
}

/** @returns {number} models that a limit of the price hides because nobody knows theirs */
export const unpriced = () => (page.wanted.under ? rowsShown(0).filter((row) => (page.bank.facts?.[row.model]?.usd_out ?? null) === null).length : 0);

/** @param {Line[]} lines @returns {Line[]} in the order of the API's weights */
function likesFirst(lines) {
  return ['like', 'dislike'].flatMap((kind) => lines.filter((one) => one.kind === kind));
}

/** As the API takes it. @param {Wanted} wanted @returns {Record<string, any>} only what is not as usual */
export function profileOf(wanted) {
  const lines = likesFirst(wanted.lines);
  const weights = lines.map((one) => one.weight);
  const all = {
    criteria: lines.filter((one) => one.kind === 'like').map((one) => one.text),
    dislikes: lines.filter((one) => one.kind === 'dislike').map((one) => one.text),
    topics: wanted.topics,
    baseline: wanted.baseline,
    queries: wanted.queries,
    drop_flawed: wanted.drop_flawed,
    weights: weights.every((weight) => weight === 1) ? [] : weights,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => (Array.isArray(value) ? value.length : value)));
}

/** @param {Record<string, any>} profile @returns {string} the query of its link */
export function queryOf(profile) {
  const pairs = Object.entries(profile).flatMap(([name, value]) => [value].flat().map((one) => [name, String(one)]));
  return new URLSearchParams(pairs).toString();
}

/** @param {Wanted} wanted @returns {string} of the page's address, lines in their order */
export function toQuery(wanted) {
  const { criteria, dislikes, ...rest } = profileOf(wanted);
  const lines = wanted.lines.map((one) => queryOf({ [one.kind === 'like' ? 'criteria' : 'dislikes']: one.text }));
  const own = {
    open: wanted.open ? 1 : [],
    under: wanted.under || [],
    ...(wanted.picks.length ? { picks: wanted.picks.map(ofPick).join('_'), seed: wanted.seed, bank: wanted.bank,
      typed: wanted.typed.map((one) => `${one.kind === 'like' ? '+' : '-'}${one.weight}~${one.text}`) } : {}),
  };
  return [...lines, queryOf({ ...rest, ...own })].filter(Boolean).join('&');
}

/** @param {Pick} pick @returns {string} such as `12.0.3.0.2.5-7.5`: question, sides, drawn at random, choice, reasons */
function ofPick(pick) {
  const numbers = [pick.query, pick.left, pick.right, Number(pick.random), CHOICES.indexOf(pick.choice)];
  return [...numbers, pick.offered.join('-'), pick.reason ?? ''].join('.');
}

/** @param {string} text @returns {Pick | null} */
function toPick(text) {
  const [query, left, right, random, choice, offered, reason] = text.split('.');
  if (reason === undefined || !CHOICES[Number(choice)]) return null;
  return {
    query: Number(query), left: Number(left), right: Number(right), random: random === '1',
    choice: CHOICES[Number(choice)], offered: offered ? offered.split('-').map(Number) : [],
    reason: reason === '' ? null : Number(reason),
  };
}

/** @returns {any} the request for the ranking by picks */
export function picksAsked() {
  const { picks, seed, bank, typed } = page.wanted;
  return { profile: profileOf({ ...page.wanted, lines: typed }), picks, seed, bank };
}

/** Relative to the page, so that it works behind a proxy with a path of its own. @param {string} path @returns {URL} */
export const address = (path) => new URL(`api/v1/${path}`, document.baseURI);

/** @returns {() => AbortSignal} of a new request, which gives up the one before */
export function newest() {
  let turn = new AbortController();
  return () => { turn.abort(); turn = new AbortController(); return turn.signal; };
}

/** The server refused; the message is the server's. */
export class Refused extends Error {}

/** There was no whole answer. */
export class Unreachable extends Error {}

/**
 * An answer; `body` is sent by POST.
 * @param {string} path @param {any} [body] @param {AbortSignal} [signal] @param {'json' | 'blob'} [kind] @returns {Promise<any>}
 */
export async function ask(path, body, signal, kind = 'json') {
  const post = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
  const answer = await fetch(address(path), body === undefined ? { signal } : { ...post, signal }).catch(unreachable);
  if (answer.ok) return answer[kind]().catch(unreachable); // a body that is cut off is no empty answer
  const { error } = await answer.json().catch(() => ({}));
  throw new Refused(answer.status === 413 ? 'This is more than 4 MB: give fewer votes.' : error || `The server answered with status ${answer.status}.`);
}

/** @param {any} error @returns {never} as it is, where the request was given up */
function unreachable(error) {
  if (error instanceof DOMException) throw error;
  throw new Unreachable('The server cannot be reached.');
}
