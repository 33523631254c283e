/** Lines as chips, examples to start from, and which questions and models take part. */

import { byId, el, listed, plural, rounded } from './dom.js';
import { line, nameOf, ownLines, page, scorer, topicName } from './state.js';

/** @typedef {import('./state.js').Line} Line */

const STRENGTHS = [1, 2, 3, 0.5];
const PRICES = [1, 5, 20];
const distinct = (values) => [...new Set(values)].filter(Boolean);
export const MOST = 20;

/** Add a line, or say why not. @param {string} typed */
export function addLine(typed) {
  const text = typed.trim().replace(/\s+/g, ' ');
  if (!text) return;
  const lines = ownLines();
  if (lines.some((one) => one.text.toLowerCase() === text.toLowerCase())) return mistake('This is there already.');
  if (lines.length >= MOST) return mistake(`At most ${MOST} lines are read; take one away first.`);
  byId('words').value = '';
  setLines([...lines, line(text, 'like')], 'words');
}

/** @param {string} text */
export function mistake(text) {
  byId('mistake').textContent = text;
}

/** @param {Line[]} lines @param {string} [focus] an id */
function setLines(lines, focus) {
  page.example = false;
  page.wanted.lines = lines;
  page.changed(focus);
}

export function showExamples() {
  const buttons = page.bank.examples.map((text, at) => el('button', { id: `example-${at}`, type: 'button', class: 'small',
    onclick: () => addLine(text) }, text));
  byId('examples').replaceChildren(byId('examples').firstElementChild, ...buttons);
}

export function showChips() {
  const { lines, picks } = page.wanted;
  const { not_understood: lost = [], understood = [] } = page.step || {};
  const chips = lines.map((one, at) => chip(one, at, understood.filter((each) => each.line === one.text), lost));
  const forget = () => { page.changed('words'); };
  const picked = picks.length > 0 && el('li', { class: 'chip' }, el('span', { class: 'reply' }, `from ${plural(picks.length, 'pick')}`,
    el('small', {}, 'a change of a chip replaces them')), button('Forget the picks', '×', 'picked', forget));
  byId('chips').replaceChildren(...chips, ...(picked ? [picked] : []));
}

/** @param {Line} one @param {number} at @param {any[]} read what its clauses are read as @param {string[]} lost */
function chip(one, at, read, lost) {
  const { lines } = page.wanted;
  const change = (given, id) => setLines(lines.map((each) => (each === one ? { ...each, ...given } : each)), id);
  const turn = () => change({ kind: one.kind === 'like' ? 'dislike' : 'like' }, `turn-${at}`);
  const stronger = () => change({ weight: STRENGTHS[(STRENGTHS.indexOf(one.weight) + 1) % STRENGTHS.length] }, `weigh-${at}`);
  const remove = () => setLines(lines.filter((each) => each !== one), 'words');
  const kind = one.kind === 'like' ? 'Like' : 'Dislike';
  const gone = lost.includes(one.text);
  const weight = rounded(read.length === 1 ? read[0].weight : one.weight); // "above all" doubles it
  const note = read.map(meaning).join('; ') || (gone ? 'not understood' : page.example ? 'an example' : '');
  const others = [...new Set(read.flatMap((each) => each.nearest))].filter((text) => lines.every((each) => each.text !== text)).slice(0, 5).map((text) =>
    el('button', { type: 'button', class: 'small', onclick: () => change({ text }, `turn-${at}`) }, text));
  return el('li', { class: `chip ${one.kind}${gone ? ' lost' : ''}` },
    button(`${kind}: ${one.text}. Turn it round`, one.kind === 'like' ? '+' : '−', `turn-${at}`, turn),
    el('span', { class: 'reply' }, one.text, note && el('small', {}, note)),
    !gone && button(`${one.text} counts ${weight} times. Change it`, `×${weight}`, `weigh-${at}`, stronger),
    button(`Take away: ${one.text}`, '×', `remove-${at}`, remove),
    others.length > 0 && el('details', { open: gone }, el('summary', {}, gone ? 'Did you mean' : 'Not what you meant?'),
      el('div', { class: 'line' }, one.kind === 'dislike' && 'Not: ', ...others)));
}

/** @param {string} label @param {string} text @param {string} id @param {() => void} onclick */
const button = (label, text, id, onclick) => el('button', { id, type: 'button', 'aria-label': label, title: label, onclick }, text);

/** @param {any} each a clause @returns {string} what it is read as, or why it does not count */
export const meaning = (each) => (each.why ? `does not count: ${each.why}${each.how}` : `read as: ${each.meaning} (${each.confidence.toFixed(2)})${scorer(each) && `, by ${scorer(each)}`}`);

/** Topics that can be ranked on, those with fewer questions together or not at all, and what a link names. @returns {{label: string, names: string[]}[]} */
function groups() {
  const { topics, least } = page.bank;
  const count = (names) => names.reduce((sum, name) => sum + (topics[name] || 0), 0);
  const small = Object.keys(topics).filter((name) => topics[name] < least);
  const offered = Object.keys(topics).filter((name) => topics[name] >= least).map((name) => [name]);
  if (count(small) >= least) offered.push(small);
  const others = page.wanted.topics.filter((name) => !offered.flat().includes(name)).map((name) => [name]);
  return [...offered, ...others].map((names) => ({ label: `${listed(names.map(topicName))} (${count(names)})`, names }));
}

/** As wanted when it is opened, or the address changed. @param {any} details */
export function showFilters(details) {
  const { bank, wanted } = page;
  const facts = Object.values(bank.facts || {});
  const box = (label, checked, onchange) => el('label', {}, el('input', { type: 'checkbox', checked, onchange }), ` ${label}`);
  const options = (first, values, chosen) => [el('option', { value: '' }, first),
    ...values.map(([value, label]) => el('option', { value, selected: value === chosen }, label))];
  const topics = groups().map(({ label, names }) => box(label, names.every((name) => wanted.topics.includes(name)),
    (event) => set({ topics: Object.keys(bank.topics).filter((name) => (names.includes(name) ? event.target.checked : page.wanted.topics.includes(name))) })));
  const baseline = el('select', { onchange: (event) => set({ baseline: event.target.value }) }, ...options(
    nameOf(bank.baseline), distinct([...bank.models, wanted.baseline]).filter((name) => name !== bank.baseline).map((name) => [name, nameOf(name)]), wanted.baseline));
  const number = el('input', { type: 'number', min: 0, max: bank.queries, value: wanted.queries || '',
    placeholder: 'all', onchange: ({ target }) => (target.checkValidity() ? set({ queries: Number(target.value) })
      : mistake(`Number of questions: a whole number from 0, which is all, to ${bank.queries}.`)) });
  const only = facts.some((known) => known.usd_out !== null || known.open_weights !== null) || wanted.open || wanted.under;
  details.querySelector('div').replaceChildren(
    el('fieldset', {}, el('legend', {}, 'Only questions on (none chosen: all)'), ...topics),
    only ? el('fieldset', {}, el('legend', {}, 'Show only'), box('open weights', wanted.open, (event) => set({ open: event.target.checked })),
      el('label', {}, 'answers under ', el('select', { onchange: (event) => set({ under: Number(event.target.value) }) },
        ...options('any price', distinct([...PRICES, wanted.under]).sort((one, two) => one - two).map((usd) => [usd, `$${usd} a million tokens`]), wanted.under)))) : '',
    el('p', {}, box('leave out flawed responses: questions to which an answer is empty, cut off, repeats itself or quotes you',
      wanted.drop_flawed, (event) => set({ drop_flawed: event.target.checked }))),
    el('p', {}, el('label', {}, 'Compared with ', baseline), ' ', el('label', {}, 'Number of questions ', number)));
}

/** @param {Record<string, any>} given */
function set(given) {
  Object.assign(page.wanted, given);
  page.changed(undefined, 'open' in given || 'under' in given ? {} : { picks: [] });
}

/** What is chosen, beside the closed box. */
export function showChoice() {
  const { topics, queries, drop_flawed, baseline, open, under } = page.wanted;
  const parts = [topics.map(topicName).join(', ') || 'all', queries && `${queries} questions`, drop_flawed && 'without flawed responses', baseline && `compared with ${nameOf(baseline)}`,
    open && 'open weights', under && `under $${under}`];
  byId('filters-caption').textContent = parts.filter(Boolean).join('; ');
}
