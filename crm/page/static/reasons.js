/** What each line adds: the win rate with it less the one without it. */

import { anybody, nameOf, page } from './main.js';
import { signed } from './dom.js';
import { ranking } from './server.js';
import { profileOf } from './state.js';

/** @type {Map<string, Promise<any>>} rankings without one line */
const known = new Map();

/**
 * @param {string} model @param {AbortSignal} signal
 * @returns {AsyncGenerator<{text: string, kind: string, points: number}>}
 */
export async function* adds(model, signal) {
  const { lines } = page.wanted;
  const full = rateOf(page.step, model);
  for (const [at, one] of lines.entries()) {
    const others = lines.filter((_, place) => place !== at);
    const profile = others.length ? profileOf({ ...page.wanted, lines: others }) : anybody();
    yield { text: one.text, kind: one.kind, points: 100 * (full - rateOf(await without(profile, signal), model)) };
  }
}

/** @param {any} profile @param {AbortSignal} signal */
function without(profile, signal) {
  const key = JSON.stringify(profile);
  if (!known.has(key)) {
    known.set(key, ranking(profile, signal).catch((error) => { known.delete(key); throw error; }));
  }
  return known.get(key);
}

/** @param {any} step @param {string} model */
const rateOf = (step, model) => step.leaderboard.find((row) => row.model === model)?.win_rate ?? 0.5;

/** The line that does most for the first model, and who comes next. @param {AbortSignal} signal */
export async function because(signal) {
  const [first, ...rest] = page.step.leaderboard.filter((row) => row.rank_low === 1);
  const reply = document.getElementById('because')?.textContent || '';
  if (rest.length || !first) return reply;
  let best = null;
  for await (const one of adds(first.model, signal)) if (!best || one.points > best.points) best = one;
  if (!best || best.points < 1) return reply;
  const words = best.kind === 'like' ? best.text : `no ${best.text}`;
  return `${reply} Because of “${words}”: ${signed(best.points)} points for ${nameOf(first.model)}.`.trim();
}
