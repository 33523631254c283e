/** A model of one's own: added by a file or from the server's endpoint, and taken away again by whoever added it. */

import { el, plural } from './dom.js';
import { page, reload } from './main.js';
import { address, read, steps } from './server.js';

/** @returns {Record<string, string>} tokens by model, kept in this browser alone */
const tokens = () => JSON.parse(localStorage.getItem('added') || '{}');

let last = ''; // what was said, for a panel that is drawn again meanwhile

/** @param {HTMLElement} panel */
export function models(panel) {
  const said = el('p', { id: 'add-said', role: 'status' }, last);
  const title = el('h2', {}, 'Add a model');
  if (!page.bank.additions) return panel.replaceChildren(title, el('p', {}, 'This server takes no models.'));
  const name = el('input', { id: 'add-name', maxlength: 100, required: true });
  const file = el('input', { id: 'add-file', type: 'file', accept: '.jsonl,.json,.csv,.tsv,.gz' });
  const form = el('form', { onsubmit: async (event) => {
    event.preventDefault();
    await attempt(said, 'Reading the file …', () => add(/** @type {any} */ (name).value, /** @type {any} */ (file).files[0]));
  } }, el('p', {}, el('label', {}, 'Name of the model', name)), el('p', {}, el('label', {}, 'File of its responses ', file)),
  el('button', {}, 'Add the file'));
  const endpoint = page.bank.endpoint && el('button', { onclick: () => attempt(said, 'Asking for responses …', () =>
    askEndpoint(/** @type {any} */ (name).value, said)) }, `Ask ${page.bank.endpoint} for its responses`);
  const own = Object.entries(tokens()).filter(([model]) => page.bank.models.includes(model)).map(([model, token]) =>
    el('li', {}, `${model} `, el('button', { class: 'small', 'aria-label': `Remove ${model}`,
      onclick: () => attempt(said, 'Removing …', () => remove(model, token)) }, 'Remove')));
  panel.replaceChildren(title, el('p', {}, 'One model more, for everybody who uses this server. The file has a row for every question: ',
    el('code', {}, 'query_id'), ' (or ', el('code', {}, 'query'), ') and ', el('code', {}, 'text'),
    ', as JSON Lines, JSON, CSV or TSV, also as .gz. ', el('a', { href: String(address('queries')), download: true }, 'The questions with their ids')),
  form, ...(endpoint ? [endpoint] : []), said, ...(own.length ? [el('h3', {}, 'Added from this browser'), el('ul', {}, ...own)] : []));
}

/** @param {HTMLElement} said @param {string} now @param {() => Promise<string>} work */
async function attempt(said, now, work) {
  said.textContent = now;
  last = '';
  try {
    const done = await work();
    last = done;
    await reload();
    const place = document.getElementById('panel');
    if (place) models(place);
    const again = document.getElementById('add-said');
    if (again) again.textContent = done;
  } catch (error) {
    said.textContent = error instanceof TypeError ? 'The file could not be sent to its end; try again.' : error.message;
  }
}

/** @param {string} name @param {File | undefined} file */
async function add(name, file) {
  if (!file) throw new Error('Choose a file first.');
  const asked = new URLSearchParams({ name, file: file.name });
  return keep(await read(await fetch(`${address('models')}?${asked}`, { method: 'POST', body: file })));
}

/** @param {any} answer */
function keep(answer) {
  localStorage.setItem('added', JSON.stringify({ ...tokens(), [answer.model]: answer.token }));
  return `Added: the bank has ${plural(answer.models.length, 'model')} now.`;
}

/** @param {string} name @param {HTMLElement} said */
async function askEndpoint(name, said) {
  let last = null;
  for await (last of steps('models/ask', { name })) if (!last.token) said.textContent = `${last.done} of ${last.total} responses`;
  if (!last?.token) throw new Error('The server stopped asking; try again, what is there is kept.');
  return keep(last);
}

/** @param {string} model @param {string} token */
async function remove(model, token) {
  const asked = new URLSearchParams({ name: model, token });
  const answer = await read(await fetch(`${address('models')}?${asked}`, { method: 'DELETE' }));
  const { [model]: _, ...others } = tokens();
  localStorage.setItem('added', JSON.stringify(others));
  return `Removed: the bank has ${plural(answer.models.length, 'model')} now.`;
}
