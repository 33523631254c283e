/** Likes and dislikes as chips, and sets of them to start from. */

import { byId, el } from './dom.js';
import { line } from './state.js';

/** @typedef {import('./state.js').Line} Line */

/** @type {[string, string[], string[]?][]} name, likes, dislikes */
const PRESETS = [
  ['In a hurry', ['Prefers concise answers', 'Prefers direct answers'], []],
  ['Student', ['Prefers detailed answers', 'Wants concrete examples'], []],
  ['Analyst', ['Prefers evidence and data', 'Prefers bulleted lists'], []],
  ['Writer', ['Prefers flowing prose', 'Prefers humorous answers'], ['Bulleted lists']],
  ['Careful', ['Prefers cautious answers', 'Prefers formal language'], []],
];
const STRENGTHS = [1, 2, 3, 0.5];
const MOST = 20;

/** @param {string} typed @returns {Line | null} the judge reads the whole line, "no" included */
export function lineOf(typed) {
  const text = typed.trim().replace(/\s+/g, ' ');
  return text ? line(text, 'like') : null;
}

/** @param {Line[]} lines @param {Line | null} added @returns {string} why it cannot be added; empty where it was */
export function addLine(lines, added) {
  if (!added) return '';
  if (lines.some((one) => one.text === added.text && one.kind === added.kind)) return 'This is there already.';
  if (lines.length >= MOST) return `At most ${MOST} likes and dislikes are read; take one away first.`;
  lines.push(added);
  return '';
}

/**
 * Buttons of the judge's presets, or of `PRESETS`: a second press takes it away again; what was typed stays.
 * @param {[string, string[]][]} presets @param {Line[]} lines @param {() => Line[]} own the lines without the page's example
 * @param {(focus?: string) => void} changed
 */
export function showPresets(presets, lines, own, changed) {
  const buttons = (presets.length ? presets : PRESETS).map(([name, likes, dislikes = []]) => {
    const preset = [...likes.map((text) => line(text, 'like')), ...dislikes.map((text) => line(text, 'dislike'))];
    const held = () => preset.every((one) => lines.some((other) => other.text === one.text && other.kind === one.kind));
    const toggle = () => {
      if (held()) preset.forEach((one) => lines.splice(lines.findIndex((other) => other.text === one.text), 1));
      else { const mine = own(); preset.forEach((one) => addLine(mine, { ...one })); }
      changed();
    };
    return el('button', { type: 'button', 'aria-pressed': String(held()), onclick: toggle }, name);
  });
  byId('presets').replaceChildren(byId('presets').firstElementChild, ...buttons);
}

/**
 * @param {Line[]} lines @param {(focus?: string) => void} changed
 * @param {{lost: string[], understood: any[], example: boolean}} caption lines that are not understood; what the clauses
 *   of a line are read as; whether these are an example
 */
export function showChips(lines, changed, { lost, understood, example }) {
  byId('chips').replaceChildren(...lines.map((one, at) => {
    const turn = () => { one.kind = one.kind === 'like' ? 'dislike' : 'like'; changed(`turn-${at}`); };
    const stronger = () => {
      one.weight = STRENGTHS[(STRENGTHS.indexOf(one.weight) + 1) % STRENGTHS.length];
      changed(`weigh-${at}`);
    };
    const remove = () => { lines.splice(at, 1); changed('words'); };
    const kind = one.kind === 'like' ? 'Like' : 'Dislike';
    const read = understood.filter((each) => each.line === one.text).map(meaning).join('; ');
    const note = read || (lost.includes(one.text) ? 'not understood' : example ? 'an example' : '');
    return el('li', { class: `chip ${one.kind}${lost.includes(one.text) ? ' lost' : ''}` },
      el('button', { id: `turn-${at}`, type: 'button', 'aria-label': `${kind}: ${one.text}. Turn it round`,
        title: 'Turn it round', onclick: turn }, one.kind === 'like' ? '+' : '−'),
      el('span', { class: 'reply' }, one.text, note !== '' && el('small', {}, note)),
      el('button', { id: `weigh-${at}`, type: 'button', title: 'How much it counts',
        'aria-label': `${one.text} counts ${weight(one)} times. Change it`, onclick: stronger }, `×${weight(one)}`),
      el('button', { type: 'button', 'aria-label': `Take away: ${one.text}`, title: 'Take away', onclick: remove }, '×'));
  }));
}

/** @param {any} each a clause @returns {string} what it is read as, or why it does not count */
const meaning = (each) => (each.why ? `“${each.clause}”: ${each.why}`
  : `read as: ${each.meaning} (${each.confidence.toFixed(2)})`);

/** @param {Line} one */
const weight = (one) => Number(one.weight.toFixed(1));
