/** The page: what a person wants, the ranking that follows, and what can be opened beside it. */

import { addLine, lineOf, showChips, showPresets } from './chips.js';
import { byId, el, plural } from './dom.js';
import { headline, runnersUp, showRows } from './rows.js';
import { Refused, ask, ranking } from './server.js';
import { fromQuery, line, profileOf, queryOf, toQuery } from './state.js';

/** @type {any} */
export const page = {
  bank: null, wanted: fromQuery(location.search), example: false, step: null, most: null, opened: '', view: '', anyway: false,
};
const PREVIEW_MS = 200;
const EXAMPLE = 'This is an example. Type what you prefer, and the ranking is yours. ';
let turn = new AbortController();
/** @type {Map<string, any>} rankings of most people, by everything but the criteria */
const usual = new Map();

/** @param {string} model @returns {string} as it is called on the page */
export const nameOf = (model) => page.bank.facts?.[model]?.display || model;

/** What the person typed: the example that the page starts from is not theirs. @returns {any[]} lines */
export const ownLines = () => (page.example ? [] : page.wanted.lines);

/** @returns {any} a profile without criteria: that of most people, on the same questions */
export const anybody = () => profileOf({ ...page.wanted, lines: [] });

/** Rows after the filters of the page. @returns {any[]} */
export function rowsShown() {
  const { open, under } = page.wanted;
  return (page.step?.leaderboard || []).filter((row) => {
    const facts = page.bank.facts?.[row.model] || {};
    return (!open || facts.open_weights === true) && (!under || (facts.usd_out ?? Infinity) <= under);
  });
}

/**
 * Something was changed: forget the old ranking, keep the address, rank anew.
 * @param {string} [focus] an id @param {Record<string, any>} [picked] what the lines were learned from
 */
export function changed(focus, picked = { picks: [] }) {
  Object.assign(page.wanted, picked);
  page.anyway = false;
  showWanted();
  byId('mistake').textContent = '';
  if (focus) (byId(focus) || byId('words')).focus();
  rank();
}

/** The same for a change of lines, which are the person's own from then on. @param {string} [focus] */
function ownChanged(focus) {
  page.example = false;
  changed(focus);
}

function dropExample() {
  page.wanted.lines = ownLines();
  page.example = false;
  return page.wanted.lines;
}

function showWanted() {
  const query = toQuery({ ...page.wanted, lines: ownLines() });
  history.replaceState(null, '', query ? `?${query}` : location.pathname);
  showPresets(page.bank.presets, page.wanted.lines, dropExample, ownChanged);
  const { not_understood: lost = [], understood = [] } = page.step || {};
  showChips(page.wanted.lines, ownChanged, { lost, understood, example: page.example });
}

/** Rank as wanted; `pending` is a line that is still being typed. @param {any} [pending] */
async function rank(pending) {
  turn.abort();
  turn = new AbortController();
  const { signal } = turn;
  const lines = pending ? [...ownLines(), pending] : page.wanted.lines;
  const profile = profileOf({ ...page.wanted, lines });
  byId('rows').classList.add('faded');
  byId('ranking').setAttribute('aria-busy', 'true');
  byId('progress').textContent = 'Ranking …';
  try {
    if (page.wanted.picks.length && !pending) await rankPicks(signal);
    else take(await ranking(profile, signal), profile, pending);
    if (!signal.aborted) await after(profile, signal, pending);
  } catch (error) {
    if (!signal.aborted) fail(error);
  }
}

/** The ranking over what picks say. @param {AbortSignal} signal */
async function rankPicks(signal) {
  const { picks, seed, bank, typed } = page.wanted;
  const profile = profileOf({ ...page.wanted, lines: typed });
  const step = await ask('picks', { profile, picks, seed, bank }, signal).catch(lostPicks);
  if (!step) return;
  take({ ...step, queries: page.bank.queries, refusal: '', not_understood: [] }, anybody(), null);
}

/** The picks are of another bank: what they say of likes stays, as lines. @param {any} error */
function lostPicks(error) {
  if (!(error instanceof Refused)) throw error;
  changed(undefined, { picks: [] });
  byId('mistake').textContent = `${error.message} The ranking is by the likes that they showed.`;
}

/** @param {any} step @param {any} profile @param {any} pending */
function take(step, profile, pending) {
  if (pending && step.not_understood.includes(pending.text)) return show(); // half a word is no mistake
  page.step = { ...step, profile, preview: Boolean(pending) };
  if (!(profile.criteria || profile.dislikes) && !step.agreement && !page.bank.published) {
    page.most = step.leaderboard;
    usual.set(queryOf(profile), step.leaderboard);
  }
  show();
}

/** The rest, once the ranking is there: most people, reasons, what is open. */
async function after(profile, signal, pending) {
  byId('ranking').setAttribute('aria-busy', 'false');
  const own = page.step;
  if (!page.bank.example) {
    const key = queryOf(anybody());
    if (!usual.has(key)) usual.set(key, (await ranking(anybody(), signal)).leaderboard);
    page.most = usual.get(key);
  }
  if (page.step !== own) return;
  show();
  if (pending) return;
  showWanted();
  if (page.opened) openWhy(page.opened, false);
  if (page.view) openView(page.view);
  if (page.wanted.lines.length && !page.step.refusal && !page.step.agreement) {
    const { because } = await import('./reasons.js');
    byId('because').textContent = await because(signal);
  }
}

/** The ranking on the screen. */
function show() {
  const { step } = page;
  const rows = rowsShown();
  const refused = step.refusal && !page.anyway;
  const mine = page.wanted.lines.length > 0 || step.preview || Boolean(step.agreement);
  byId('rows').classList.remove('faded');
  byId('rows').hidden = refused;
  byId('because').textContent = refused ? step.refusal : rows.length ? runnersUp(rows, nameOf) : '';
  const who = page.example && !step.preview ? 'Example' : mine ? 'For you' : 'For most people';
  byId('headline').textContent = refused ? 'No ranking' : rows.length ? headline(rows, who, nameOf)
    : 'No model is left; loosen the filters';
  if (who === 'Example' && !refused) byId('because').prepend(EXAMPLE);
  if (refused && step.leaderboard.length) {
    byId('because').append(' ', el('button', { class: 'small', onclick: () => { page.anyway = true; show(); } }, 'Show it anyway'));
  }
  byId('progress').textContent = step.leaderboard.length ? progress(step) : '';
  if (!refused) {
    showRows(rows, mine ? page.most : null, { facts: page.bank.facts || {}, open: openWhy, opened: page.opened,
      baseline: page.wanted.baseline || page.bank.baseline });
  }
  byId('legend').textContent = rows.length && !refused ? legend(mine) : '';
}

/** @param {any} step @returns {string} */
function progress(step) {
  const caption = [`${step.queries} of ${page.bank.queries} questions`];
  if (step.failed) caption.push(`${plural(step.failed, 'comparison')} without a verdict`);
  if (step.agreement?.asked) caption.push(`the judge agreed with ${step.agreement.agreed} of ${step.agreement.asked} of your picks`);
  if (page.wanted.open || page.wanted.under) caption.push(`${rowsShown().length} of ${page.bank.models.length} models shown`);
  return `${caption.join('; ')}.`;
}

/** @param {boolean} mine */
const legend = (mine) => `Percent: how often you would prefer the model’s answer to ${nameOf(page.wanted.baseline
  || page.bank.baseline)}’s, with a 95 % interval over questions like these. A place such as 3–4 means that these models
  cannot be told apart.${mine && page.most ? ` The ring is ${page.bank.published ? page.bank.published.title : 'the ranking of most people'}.` : ''} Choose a model to see why.`;

/** @param {any} error */
function fail(error) {
  byId('ranking').setAttribute('aria-busy', 'false');
  byId('rows').classList.remove('faded');
  byId('mistake').textContent = error instanceof Refused ? error.message : 'Something went wrong on this page; reload it.';
  byId('progress').textContent = page.step ? 'The ranking below is the one from before.' : '';
  if (!(error instanceof Refused)) console.error(error);
}

/** Why a model stands where it does. @param {string} model @param {boolean} [move] whether the focus goes there */
export async function openWhy(model, move = true) {
  page.opened = page.opened === model && move ? '' : model;
  byId('why').hidden = !page.opened;
  byId('stage').classList.toggle('open', Boolean(page.opened));
  show();
  if (!page.opened) return;
  const { showWhy } = await import('./why.js');
  await showWhy(model, move);
}

/** What stands below the ranking. @param {string} view */
async function openView(view) {
  page.view = view;
  byId('panel').hidden = !view;
  document.querySelectorAll('nav button').forEach((button) =>
    button.setAttribute('aria-expanded', String(/** @type {HTMLElement} */ (button).dataset.view === view)));
  if (!view) return byId('panel').replaceChildren();
  const { views } = await import('./views.js');
  return views[view](byId('panel'));
}

function listen() {
  byId('add').addEventListener('submit', (event) => {
    event.preventDefault();
    const added = lineOf(byId('words').value);
    const reply = addLine(added ? dropExample() : page.wanted.lines, added);
    if (!reply) byId('words').value = '';
    changed('words');
    byId('mistake').textContent = reply;
  });
  let wait = 0;
  byId('words').addEventListener('input', () => {
    clearTimeout(wait);
    const pending = lineOf(byId('words').value);
    wait = setTimeout(() => rank(pending && pending.text.length > 2 ? pending : null), PREVIEW_MS);
  });
  byId('add').addEventListener('submit', () => clearTimeout(wait));
  document.querySelectorAll('nav button').forEach((button) => button.addEventListener('click', () => {
    const { view } = /** @type {HTMLElement} */ (button).dataset;
    openView(page.view === view ? '' : view || '');
  }));
  byId('filters').addEventListener('toggle', async () => (await import('./filters.js')).showFilters(byId('filters')));
  byId('pick-open').addEventListener('click', async () => (await import('./pick.js')).startPicking());
  addEventListener('popstate', () => location.reload());
}

try {
  page.bank = await ask('bank');
  byId('notice').hidden = !page.bank.simulated;
  byId('notice').textContent = page.bank.simulated;
  page.most = page.bank.published?.rows || null;
  page.example = Boolean(page.bank.example) && !page.wanted.lines.length && !page.wanted.picks.length;
  if (page.example) page.wanted.lines = [line(page.bank.example, 'like')];
  listen();
  showWanted();
  rank();
} catch (error) {
  fail(error);
}
