/** Which questions and models take part. */

import { byId, el } from './dom.js';
import { changed, page } from './main.js';

const PRICES = [1, 5, 20];

/** @param {any} details */
export function showFilters(details) {
  const { bank, wanted } = page;
  const facts = Object.values(bank.facts || {});
  const box = (label, checked, set) => el('label', {}, el('input', { type: 'checkbox', checked, onchange: set }), ` ${label}`);
  const topics = Object.entries(bank.topics).map(([topic, count]) => box(`${topic} (${count})`,
    !wanted.about && (!wanted.topics.length || wanted.topics.includes(topic)), (event) => pickTopic(topic, event.target)));
  const about = el('input', { id: 'about', maxlength: 500, value: wanted.about,
    placeholder: 'I teach chemistry at a school', onchange: (event) => set({ about: event.target.value.trim() }) });
  const baseline = el('select', { onchange: (event) => set({ baseline: event.target.value }) },
    ...bank.models.map((name) => el('option', { value: name === bank.baseline ? '' : name,
      selected: name === (wanted.baseline || bank.baseline) }, name)));
  const number = el('input', { type: 'number', min: 0, max: bank.queries, value: wanted.queries || '',
    placeholder: 'all', onchange: (event) => set({ queries: Math.max(0, Math.round(Number(event.target.value))) }) });
  const only = facts.length ? el('fieldset', {}, el('legend', {}, 'Only'),
    box('open weights', wanted.open, () => show({ open: !wanted.open })),
    el('label', {}, 'answers under ', el('select', { onchange: (event) => show({ under: Number(event.target.value) }) },
      el('option', { value: 0 }, 'any price'), ...PRICES.map((usd) => el('option', { value: usd,
        selected: wanted.under === usd }, `$${usd} a million tokens`))))) : null;
  details.querySelector('div').replaceChildren(...[
    el('fieldset', {}, el('legend', {}, 'Questions on'), ...topics), only,
    el('label', {}, 'Or what you do, in a sentence: the questions nearest to it are used', about),
    el('p', {}, el('label', {}, 'Compared with ', baseline), ' ', el('label', {}, 'Number of questions ', number)),
  ].filter((part) => part !== null));
}

/** @param {Record<string, any>} given */
function set(given) {
  Object.assign(page.wanted, given);
  if (given.about) page.wanted.topics = [];
  tell();
  changed();
}

/** A filter of what is shown: no other ranking. @param {Record<string, any>} given */
function show(given) {
  Object.assign(page.wanted, given);
  tell();
  changed(undefined, {});
}

/** @param {string} topic @param {any} box */
function pickTopic(topic, box) {
  const { bank, wanted } = page;
  const all = Object.keys(bank.topics);
  const chosen = new Set(wanted.topics.length ? wanted.topics : all);
  if (box.checked) chosen.add(topic);
  else chosen.delete(topic);
  byId('mistake').textContent = '';
  if (!chosen.size) {
    box.checked = true;
    byId('mistake').textContent = 'At least one topic is needed; choose another one first.';
    return;
  }
  set({ about: '', topics: chosen.size === all.length ? [] : all.filter((name) => chosen.has(name)) });
  byId('about').value = '';
}

/** What is chosen, beside the closed box. */
function tell() {
  const { wanted } = page;
  const parts = [wanted.about ? `like “${wanted.about}”` : wanted.topics.join(', ') || 'all topics'];
  if (wanted.queries) parts.push(`${wanted.queries} questions`);
  if (wanted.baseline) parts.push(`compared with ${wanted.baseline}`);
  if (wanted.open) parts.push('open weights');
  if (wanted.under) parts.push(`under $${wanted.under}`);
  byId('filters-caption').textContent = parts.join('; ');
}
