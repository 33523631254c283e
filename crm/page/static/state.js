/** What a person asked for. The address holds all of it, so that a link or a reload is the same page again. */

/**
 * @typedef {{text: string, kind: 'like' | 'dislike', weight: number}} Line
 * @typedef {{query: number, left: number, right: number, random: boolean, choice: string, offered: number[],
 *   reason: number | null}} Pick
 * @typedef {{lines: Line[], topics: string[], about: string, baseline: string, queries: number,
 *   open: boolean, under: number, picks: Pick[], seed: number, bank: string, typed: Line[]}} Wanted
 */

const CHOICES = ['left', 'same', 'right'];

/** @param {string} query of an address @returns {Wanted} */
export function fromQuery(query) {
  const given = new URLSearchParams(query);
  const weights = given.getAll('weights').map(Number);
  const lines = [...given.getAll('criteria').map((text) => line(text, 'like')),
    ...given.getAll('dislikes').map((text) => line(text, 'dislike'))];
  if (weights.length === lines.length) lines.forEach((one, at) => { one.weight = weights[at] || 1; });
  return {
    lines,
    topics: given.getAll('topics'),
    about: given.get('about') || '',
    baseline: given.get('baseline') || '',
    queries: Number(given.get('queries')) || 0,
    open: given.has('open'),
    under: Number(given.get('under')) || 0,
    picks: (given.get('picks') || '').split('_').map(toPick).filter((pick) => pick !== null),
    seed: Number(given.get('seed')) || 0,
    bank: given.get('bank') || '',
    typed: given.getAll('typed').map((text) => line(text.slice(1), text[0] === '-' ? 'dislike' : 'like')),
  };
}

/** @param {string} text @param {'like' | 'dislike'} kind @param {number} [weight] @returns {Line} */
export const line = (text, kind, weight = 1) => ({ text, kind, weight });

/** As the API takes it. @param {Wanted} wanted @returns {Record<string, any>} only what is not as usual */
export function profileOf(wanted) {
  const likes = wanted.lines.filter((one) => one.kind === 'like');
  const dislikes = wanted.lines.filter((one) => one.kind === 'dislike');
  const weights = [...likes, ...dislikes].map((one) => one.weight);
  const all = {
    criteria: likes.map((one) => one.text),
    dislikes: dislikes.map((one) => one.text),
    topics: wanted.about ? [] : wanted.topics,
    about: wanted.about,
    baseline: wanted.baseline,
    queries: wanted.queries,
    weights: weights.every((weight) => weight === 1) ? [] : weights,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => (Array.isArray(value) ? value.length : value)));
}

/** @param {Record<string, any>} profile @returns {string} the query of its link */
export function queryOf(profile) {
  const pairs = Object.entries(profile).flatMap(([name, value]) => [value].flat().map((one) => [name, String(one)]));
  return new URLSearchParams(pairs).toString();
}

/** @param {Wanted} wanted @returns {string} of the page's address */
export function toQuery(wanted) {
  const own = {
    open: wanted.open ? 1 : [],
    under: wanted.under || [],
    ...(wanted.picks.length ? { picks: wanted.picks.map(ofPick).join('_'), seed: wanted.seed, bank: wanted.bank,
      typed: wanted.typed.map((one) => `${one.kind === 'like' ? '+' : '-'}${one.text}`) } : {}),
  };
  return queryOf({ ...profileOf(wanted), ...own });
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
