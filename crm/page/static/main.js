/** The page: what a person wants, the ranking that follows, and what can be opened beside it. */

import { addLine, lineOf, showChips, showPresets } from './chips.js';
import { byId, el, plural } from './dom.js';
import { headline, runnersUp, showRows } from './rows.js';
import { Refused, ask, rankings } from './server.js';
import { fromQuery, profileOf, queryOf, toQuery } from './state.js';

/** @type {any} */
export const page = {
  bank: null, wanted: fromQuery(location.search), step: null, most: null, opened: '', view: '', anyway: false,
};
const PREVIEW_MS = 200;
let turn = new AbortController();
/** @type {Map<string, any>} rankings of most people, by everything but the criteria */
const usual = new Map();

/** @param {string} model @returns {string} as it is called on the page */
export const nameOf = (model) => page.bank.facts?.[model]?.display || model;

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

function showWanted() {
  const query = toQuery(page.wanted);
  history.replaceState(null, '', query ? `?${query}` : location.pathname);
  const told = { weighs: page.bank.weighs, unheard: page.step?.unheard || [] };
  showPresets(page.wanted.lines, changed);
  showChips(page.wanted.lines, changed, told);
}

/** Rank as wanted; `pending` is a line that is still being typed. @param {any} [pending] */
async function rank(pending) {
  turn.abort();
  turn = new AbortController();
  const { signal } = turn;
  const lines = [...page.wanted.lines, ...(pending ? [pending] : [])];
  const profile = profileOf({ ...page.wanted, lines });
  byId('rows').classList.add('faded');
  byId('ranking').setAttribute('aria-busy', 'true');
  byId('progress').textContent = 'Ranking …';
  byId('stop').hidden = page.bank.instant;
  try {
    if (page.wanted.picks.length && !pending) await rankPicks(signal);
    else for await (const step of rankings(profile, signal)) take(step, profile, pending);
    if (!signal.aborted) await after(profile, signal, pending);
  } catch (error) {
    if (!signal.aborted) fail(error);
  } finally {
    if (!signal.aborted) byId('stop').hidden = true;
  }
}

/** The ranking over what picks say. @param {AbortSignal} signal */
async function rankPicks(signal) {
  const { picks, seed, bank, typed } = page.wanted;
  const profile = profileOf({ ...page.wanted, lines: typed });
  const step = await ask('picks', { profile, picks, seed, bank }, signal).catch(lostPicks);
  if (!step) return;
  const total = page.bank.queries;
  take({ ...step, done: total, total, complete: true, refusal: '', unheard: [] }, anybody(), null);
}

/** Models came or went since: what the picks said stays, as lines. @param {any} error */
function lostPicks(error) {
  if (!(error instanceof Refused)) throw error;
  changed(undefined, { picks: [] });
  byId('mistake').textContent = `${error.message} The ranking is by what they said of your likes.`;
}

/** @param {any} step @param {any} profile @param {any} pending */
function take(step, profile, pending) {
  page.step = { ...step, profile };
  if (!(profile.criteria || profile.dislikes) && !step.agreement) {
    page.most = step.leaderboard;
    if (step.complete) usual.set(queryOf(profile), step.leaderboard);
  }
  show(pending);
}

/** The rest, once the ranking is there: most people, reasons, what is open. */
async function after(profile, signal, pending) {
  byId('ranking').setAttribute('aria-busy', 'false');
  const own = page.step;
  const key = queryOf(anybody());
  if (usual.has(key)) page.most = usual.get(key);
  else for await (const step of rankings(anybody(), signal)) page.most = step.leaderboard;
  usual.set(key, page.most);
  if (page.step !== own) return;
  show(pending);
  if (pending) return;
  showWanted();
  if (page.opened) openWhy(page.opened, false);
  if (page.view) openView(page.view);
  if (page.wanted.lines.length && !page.step.refusal && !page.step.agreement) {
    const { because } = await import('./reasons.js');
    byId('because').textContent = await because(profile, signal);
  }
}

/** The ranking on the screen. @param {any} [pending] */
function show(pending) {
  const { step } = page;
  const rows = rowsShown();
  const refused = step.refusal && !page.anyway;
  const mine = page.wanted.lines.length > 0 || Boolean(pending) || Boolean(step.agreement);
  byId('rows').classList.remove('faded');
  byId('rows').hidden = refused;
  byId('because').textContent = refused ? step.refusal : rows.length ? runnersUp(rows, nameOf) : '';
  byId('headline').textContent = refused ? 'No ranking' : rows.length ? headline(rows, mine, nameOf)
    : step.complete ? 'No model is left; loosen the filters' : 'Reading the first questions …';
  if (refused) {
    byId('because').append(' ', el('button', { class: 'small', onclick: () => { page.anyway = true; show(); } }, 'Show it anyway'));
  }
  byId('progress').textContent = progress(step);
  if (!refused) {
    showRows(rows, mine ? page.most : null, { facts: page.bank.facts || {}, open: openWhy, opened: page.opened,
      baseline: page.wanted.baseline || page.bank.baseline });
  }
  byId('legend').textContent = rows.length && !refused ? legend(mine) : '';
}

/** @param {any} step @returns {string} */
function progress(step) {
  const told = [`${step.done} of ${step.total} questions`];
  if (step.failed) told.push(`${plural(step.failed, 'comparison')} without a verdict`);
  if (step.agreement?.asked) told.push(`the judge agreed with ${step.agreement.agreed} of ${step.agreement.asked} of your picks`);
  if (page.wanted.open || page.wanted.under) told.push(`${rowsShown().length} of ${page.bank.models.length} models shown`);
  return `${step.complete ? '' : 'So far: '}${told.join('; ')}.`;
}

/** @param {boolean} mine */
const legend = (mine) => `Percent: how often you would prefer the model’s answer to ${nameOf(page.wanted.baseline
  || page.bank.baseline)}’s, with a 95 % interval over questions like these. A place such as 3–4 means that these models
  cannot be told apart.${mine ? ' The ring is the ranking of most people.' : ''} Choose a model to see why.`;

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
    const said = addLine(page.wanted.lines, lineOf(byId('words').value));
    if (!said) byId('words').value = '';
    changed('words');
    byId('mistake').textContent = said;
  });
  let wait = 0;
  byId('words').addEventListener('input', () => {
    clearTimeout(wait);
    const pending = lineOf(byId('words').value);
    if (page.bank.instant) wait = setTimeout(() => rank(pending && pending.text.length > 2 ? pending : null), PREVIEW_MS);
  });
  byId('add').addEventListener('submit', () => clearTimeout(wait));
  byId('stop').addEventListener('click', () => {
    turn.abort();
    byId('stop').hidden = true;
    byId('ranking').setAttribute('aria-busy', 'false');
    byId('progress').textContent = `Stopped. ${progress(page.step)}`;
  });
  document.querySelectorAll('nav button').forEach((button) => button.addEventListener('click', () => {
    const { view } = /** @type {HTMLElement} */ (button).dataset;
    openView(page.view === view ? '' : view || '');
  }));
  byId('filters').addEventListener('toggle', async () => (await import('./filters.js')).showFilters(byId('filters')));
  byId('pick-open').addEventListener('click', async () => (await import('./pick.js')).startPicking());
  addEventListener('popstate', () => location.reload());
}

/** What the bank is, and what of it is simulated. */
function showBank() {
  const { bank } = page;
  byId('pick-open').hidden = !bank.picks;
  byId('notice').hidden = !bank.simulated;
  byId('notice').textContent = bank.simulated || '';
}

/** Read the bank again, as after a model was added. */
export async function reload() {
  page.bank = await ask('bank');
  usual.clear();
  showBank();
  changed();
}

try {
  page.bank = await ask('bank');
  showBank();
  listen();
  showWanted();
  rank();
} catch (error) {
  fail(error);
}
