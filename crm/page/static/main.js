/** The page: what a person prefers, the ranking that follows, and what can be opened below it. */

import { MOST, addLine, mistake, showChips, showChoice, showExamples, showFilters } from './chips.js';
import { byId, el, plural } from './dom.js';
import { followHistory, readVotes, startPicking } from './pick.js';
import { showRows, showWhy, verdict } from './rows.js';
import { Unreachable, ask, baseline, fromQuery, general, line, newest, ownLines, page, picksAsked, profileOf, refused, rowsShown, sees, toQuery, unpriced } from './state.js';
import { views } from './views.js';

const turn = newest();

/**
 * Something was changed: a new address, and a new ranking.
 * @param {string} [focus] an id @param {Record<string, any>} [picked] what the lines were learned from
 */
page.changed = (focus, picked = { picks: [] }) => {
  Object.assign(page.wanted, picked);
  const query = toQuery({ ...page.wanted, lines: ownLines() });
  if (query !== location.search.slice(1)) history.pushState(null, '', query ? `?${query}` : location.pathname);
  restart();
  if (focus) (byId(focus) || byId('words')).focus();
};

/** Rank as wanted. */
function restart() {
  page.example = page.example || (!page.bank.published && !page.wanted.lines.length && !page.wanted.picks.length && !page.started);
  if (page.example && !page.wanted.lines.length) page.wanted.lines = [line(page.bank.examples[0], 'like')];
  page.started = true;
  mistake('');
  showChips();
  showChoice();
  byId('examples').hidden = ownLines().length > 0;
  return rank();
}

async function rank() {
  const signal = turn();
  const { wanted } = page;
  const profile = profileOf(wanted);
  byId('ranking').setAttribute('aria-busy', 'true');
  try {
    if (page.bank.published && !wanted.lines.length && !wanted.picks.length) page.step = null;
    else if (wanted.picks.length) page.step = { ...await ask('picks', picksAsked(), signal), profile, lines: [] };
    else page.step = { ...await ask('rank', profile, signal), profile };
    page.anyway = false;
    if (page.step) await splitLines(signal);
    page.draw();
  } catch (error) {
    if (!signal.aborted) fail(error);
  }
}

/** Lines of which a clause would be read in another way alone. */
const whole = new Set();

/** A line of several clauses becomes a chip for each: they can be turned, weighed and replaced alone. @param {AbortSignal} signal */
async function splitLines(signal) {
  const { wanted, step } = page;
  const clauses = (one) => (whole.has(one.text) ? [] : step.understood || []).filter((each) => each.line === one.text);
  const split = wanted.lines.filter((one) => clauses(one).length > 1);
  const texts = new Set();
  const lines = wanted.lines.flatMap((one) => (split.includes(one) ? clauses(one).map((each) => part(one, each)) : [one]))
    .filter((one) => !texts.has(one.text) && texts.add(one.text));
  if (page.example || !split.length || lines.length > MOST) return;
  const profile = profileOf({ ...wanted, lines });
  const found = await ask('rank', profile, signal);
  const others = split.filter((one) => clauses(one).some((each) => {
    const [again = { meaning: each.meaning, why: '' }, ...more] = found.understood.filter(({ line: text }) => text === part(one, each).text);
    return more.length || again.meaning !== each.meaning || again.why !== each.why;
  }));
  others.forEach((one) => whole.add(one.text));
  if (others.length) return splitLines(signal);
  wanted.lines = lines;
  page.step = { ...found, profile };
  history.replaceState(history.state, '', `?${toQuery(wanted)}`);
}

/** A clause in words that were typed: of "I hate lists and headings" it dislikes headings, not: likes no headings. @param {any} one @param {any} each @returns {any} */
function part(one, each) {
  const text = each.clause.replace(/[\s,;:.]+$/, '');
  const [sign] = one.text.includes(text) ? [''] : text.match(/^(?:no|more) /) || [''];
  return { ...one, text: text.slice(sign.length), kind: sign !== 'no ' ? one.kind : one.kind === 'like' ? 'dislike' : 'like' };
}

/** Everything on the screen; the focus stays where it was. */
page.draw = () => {
  const focused = document.activeElement?.id;
  const [headline, because] = verdict();
  document.body.classList.remove('first');
  byId('ranking').setAttribute('aria-busy', 'false');
  byId('ranking').classList.remove('old');
  byId('headline').textContent = headline;
  byId('because').textContent = because;
  if (refused() && page.step.leaderboard.length) {
    byId('because').append(' ', el('button', { id: 'anyway', class: 'small', onclick: () => { page.anyway = true; page.draw(); } }, 'Show it anyway'));
  }
  byId('progress').textContent = progress();
  showChips();
  if (general() || page.opened === baseline()) page.opened = '';
  showRows(openWhy);
  if (page.opened) showWhy();
  if (page.view) views[page.view](byId('panel'));
  if (focused && document.activeElement?.id !== focused) (byId(focused) || byId('ranking')).focus();
};

function progress() {
  const { step, bank } = page;
  const parts = [`${plural(bank.models.length, 'model')}${dates()}, ${plural(step?.queries ?? bank.queries, 'question')}`];
  if (step?.left_out) parts.push(`${plural(step.left_out, 'question')} left out, without a score of every model`);
  if (step?.failed) parts.push(`${plural(step.failed, 'comparison')} could not be read`);
  if (step?.agreement?.asked) parts.push(`of ${plural(step.agreement.asked, 'pick')} of random answers your others predict ${step.agreement.agreed}`);
  if (page.wanted.open || page.wanted.under) parts.push(`${rowsShown().length} of ${bank.models.length} models shown${unpriced() ? `, ${unpriced()} without a list price are not` : ''}`);
  return `${parts.join('; ')}. ${sees()}`;
}

/** @returns {string} years in which the models were released */
function dates() {
  const years = Object.values(page.bank.facts || {}).map((known) => known.released?.slice(0, 4)).filter(Boolean).sort();
  if (!years.length) return '';
  return ` of ${years[0] === years[years.length - 1] ? years[0] : `${years[0]}–${years[years.length - 1]}`}`;
}

/** @param {any} error */
function fail(error) {
  document.body.classList.remove('first');
  byId('ranking').setAttribute('aria-busy', 'false');
  const old = byId('rows').children.length > 0;
  byId('ranking').classList.toggle('old', old);
  byId('headline').textContent = old ? 'This ranking is the one from before' : 'No ranking';
  byId('because').textContent = `${error.message || error} `;
  if (error instanceof Unreachable) byId('because').append(el('button', { id: 'retry', class: 'small', onclick: retry }, 'Try again'));
}

/** Enter may come before the bank. */
let waiting = false;
byId('add').addEventListener('submit', (event) => {
  event.preventDefault();
  waiting = !page.bank;
  if (page.bank) addLine(byId('words').value);
  else byId('retry')?.click();
});
addEventListener('online', () => byId('retry')?.click());

const retry = () => (page.bank ? rank() : start());

/** Why a model stands where it does. @param {string} model */
function openWhy(model) {
  page.opened = page.opened === model ? '' : model;
  showRows(openWhy);
  if (page.opened) showWhy();
}

function listen() {
  const buttons = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('nav button'));
  buttons.forEach((button) => button.addEventListener('click', () => {
    page.view = page.view === button.dataset.view ? '' : button.dataset.view;
    byId('panel').hidden = !page.view;
    buttons.forEach((each) => each.setAttribute('aria-expanded', String(each.dataset.view === page.view)));
    if (page.view) views[page.view](byId('panel'));
  }));
  byId('more').addEventListener('click', () => { page.all = true; showRows(openWhy); (document.querySelector('#rows li:nth-child(n+11) .row:enabled') || byId('ranking')).focus(); });
  byId('filters').addEventListener('toggle', () => showFilters(byId('filters')));
  byId('pick-open').addEventListener('click', startPicking);
  byId('votes').addEventListener('change', () => { readVotes(byId('votes').files[0]); byId('votes').value = ''; });
  byId('rows').addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !page.opened) return;
    event.target.closest('li').querySelector('.row').focus();
    openWhy(page.opened);
  });
  addEventListener('popstate', () => {
    page.wanted = fromQuery(location.search);
    page.example = page.started = false;
    if (byId('filters').open) showFilters(byId('filters'));
    restart();
    followHistory();
  });
}

async function start() {
  const signal = turn();
  try {
    page.bank = await ask('bank', undefined, signal);
  } catch (error) {
    return signal.aborted ? undefined : fail(error);
  }
  byId('notice').hidden = !page.bank.simulated;
  byId('notice').textContent = page.bank.simulated;
  byId('licence').textContent = page.bank.licence && `Answers: ${page.bank.licence}.`;
  listen();
  showExamples();
  restart();
  followHistory();
  if (waiting) addLine(byId('words').value);
}

start();
