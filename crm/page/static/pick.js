/** Not sure? Pick between two answers, or give votes, until the page knows what you care about. */

import { byId, el, markdown, plural, rounded } from './dom.js';
import { ask, line, newest, ownLines, page, profileOf } from './state.js';
import { savePicks } from './views.js';

/** @type {any} */
let session = null;
const turn = newest();

/** What waits in this tab; null where its storage is blocked. @param {any} [given] to hold from now on */
function held(given) {
  try {
    if (given) sessionStorage.setItem('picks', JSON.stringify(given));
    return JSON.parse(sessionStorage.getItem('picks') || 'null');
  } catch { return null; }
}

/** By the button, or where history leads to it. */
export async function startPicking() {
  const profile = profileOf({ ...page.wanted, lines: ownLines() });
  session = session || held();
  if (JSON.stringify(session?.profile) !== JSON.stringify(profile)) {
    session = { profile, typed: ownLines(), picks: [], seed: Math.floor(Math.random() * 2 ** 31), bank: '' };
  }
  if (!history.state?.picking) history.pushState({ picking: true }, '');
  open(true);
  await next();
}

/** As the place in the history says. */
export function followHistory() {
  if (history.state?.picking) startPicking();
  else if (!byId('picking').hidden) close();
}

function close() {
  turn();
  open(false);
}

/** While somebody picks, nothing else can be changed. @param {boolean} picking */
function open(picking) {
  for (const id of ['wanted', 'ranking', 'views', 'panel-box']) byId(id).hidden = picking;
  byId('picking').hidden = !picking;
  document[picking ? 'addEventListener' : 'removeEventListener']('keydown', keys);
  if (!picking) byId('pick-open').focus();
}

/** @returns {any} the request for the next pair */
const asked = () => ({ profile: session.profile, picks: session.picks, seed: session.seed, bank: session.bank });

/** Until the answer is there `reply` is null, and no click counts. */
async function next() {
  session.reply = null;
  const signal = turn();
  try {
    session.reply = await ask('picks', asked(), signal);
    session.bank = session.reply.bank;
    held({ ...asked(), typed: session.typed });
    show();
  } catch (error) {
    if (!signal.aborted) byId('picking').replaceChildren(el('p', { class: 'wrong', role: 'alert' }, error.message),
      el('div', { class: 'line' }, el('button', { onclick: next }, 'Try again'), again(), leave()));
  }
}

/** Picks wait only as long as what they were made for. */
const leave = () => el('button', { onclick: () => history.back() }, 'Leave (your picks wait until you change a line or filter)');
const again = () => el('button', { onclick: () => { session = { profile: null }; return startPicking(); } }, 'Start again');

function show() {
  const { reply } = session;
  if (reply.ended) return showEnd();
  const title = el('h2', { tabindex: -1 }, `Which answer do you prefer? Pick ${reply.picked + 1}`);
  const key = (arrow) => el('span', { class: 'wide' }, ` (${arrow})`);
  const side = (name, text) => el('div', {},
    el('button', { 'data-choice': name, onclick: () => choose(name) }, ...(name === 'left' ? ['The first', key('←')] : ['The second', key('→')])),
    el('div', { class: 'answer', tabindex: 0 }, ...markdown(text)));
  byId('picking').replaceChildren(title, el('p', {}, el('em', {}, reply.next.text)),
    el('div', { class: 'pair' }, side('left', reply.next.left_text), side('right', reply.next.right_text)),
    el('div', { class: 'line' }, el('button', { 'data-choice': 'same', onclick: () => choose('same') }, 'The same to me', key('↓'))),
    el('div', { id: 'reasons', class: 'line', role: 'group', 'aria-label': 'Because of', tabindex: -1 }), soFar(reply),
    el('div', { class: 'line' }, reply.picked > 0 && el('button', { onclick: back }, 'Back'),
      reply.picked > 0 && el('button', { onclick: take }, 'Stop here and rank'), leave()));
  title.focus();
}

/** @param {any} reply */
function soFar(reply) {
  const names = reply.criteria.slice(0, 4).map((one) => one.text);
  const caption = reply.picked < 8 ? 'After 8 to 25 picks your ranking is settled.'
    : names.length ? `You seem to like: ${names.join(', ')}.` : 'Nothing is clear yet.';
  return el('p', { class: 'quiet', role: 'status' }, caption);
}

/** @param {string} choice */
function choose(choice) {
  if (!session.reply) return;
  const { reasons } = session.reply.next;
  if (choice === 'same' || !reasons.length) return add(choice, null, []);
  document.querySelectorAll('[data-choice]').forEach((button) =>
    button.setAttribute('aria-pressed', String(/** @type {HTMLElement} */ (button).dataset.choice === choice)));
  const offered = reasons.map((one) => one.place);
  const chips = reasons.map((reason) => el('button', { onclick: () => add(choice, reason.place, offered) }, reason[choice]));
  byId('reasons').replaceChildren('Because of: ', ...chips, el('button', { onclick: () => add(choice, null, offered) }, 'Nothing of these'),
    el('button', { onclick: () => add(choice, null, []) }, 'I cannot say'));
  byId('reasons').focus();
}

/** @param {string} choice @param {number | null} reason @param {number[]} offered places of criteria; none where somebody did not say */
function add(choice, reason, offered) {
  if (!session.reply) return;
  const { query, left, right, random } = session.reply.next;
  session.picks.push({ query, left, right, random, choice, offered, reason });
  return next();
}

function back() {
  if (!session.reply) return;
  session.picks.pop();
  return next();
}

function showEnd() {
  const { reply } = session;
  const undecided = reply.undecided.length > 1 ? `It is undecided between ${plural(reply.undecided.length, 'model')}: your picks do not say more.` : '';
  const none = reply.criteria.length ? '' : 'Your picks show no clear like or dislike. ';
  const title = el('h2', { tabindex: -1 }, reply.decided ? 'Your ranking is settled' : 'No more questions');
  byId('picking').replaceChildren(title, el('p', {}, none + undecided), criteria(reply.criteria),
    el('div', { class: 'line' }, el('button', { class: 'strong', onclick: take }, 'Show my ranking'),
      el('button', { onclick: back }, 'Back'), again(), savePicks(asked()), leave()));
  title.focus();
}

/** @param {any[]} found */
const criteria = (found) => el('ul', {}, ...found.map((one) => el('li', {},
  `${one.kind === 'like' ? '' : 'Not: '}${one.text}: counts ${rounded(one.weight)} times (95 %: ${rounded(one.low)} to ${rounded(one.high)})`)));

/** The ranking over what the picks say, and what they say as chips. */
function take() {
  if (!session.reply) return;
  const { picks, seed, bank, typed, reply } = session;
  session = null;
  use(reply.criteria, { picks, seed, bank, typed });
}

/** Rank by what was found. @param {any[]} found @param {Record<string, any>} [picked] what it was learned from */
function use(found, picked) {
  page.example = false;
  page.wanted.lines = found.map((one) => line(one.text, one.kind, Math.min(100, Math.max(0.01, +one.weight.toFixed(2)))));
  open(false);
  page.changed('words', picked);
}

/** What somebody's votes show. @param {File} file */
export async function readVotes(file) {
  open(true);
  const [signal, shut] = [turn(), el('button', { onclick: close }, 'Close')];
  byId('picking').replaceChildren(el('p', { role: 'status' }, 'Reading your votes …'), shut);
  try {
    const found = await ask('votes', { file: await file.text(), name: file.name }, signal);
    const { agreed, asked } = found.agreement;
    const rank = el('button', { class: 'strong', onclick: () => use(found.criteria) }, 'Rank by these');
    const clear = found.criteria.length > 0;
    const title = el('h2', { tabindex: -1 }, clear ? `What your ${plural(found.votes, 'vote')} show` : 'Your votes show nothing clear');
    byId('picking').replaceChildren(title,
      el('p', {}, clear ? `These criteria predict ${agreed} of the ${plural(asked, 'vote')} between answers that differ in them, each from the others.`
        : `Votes for random sides would look the same.${found.more ? ` About ${found.more} more might show what you like.` : ''}`,
      found.unread > 0 && ` ${plural(found.unread, 'vote')} could not be read.`),
      criteria(found.criteria), el('div', { class: 'line' }, clear && rank, shut));
    title.focus();
  } catch (error) {
    if (!signal.aborted) byId('picking').replaceChildren(el('p', { class: 'wrong', role: 'alert' }, error.message), shut);
  }
}

/** Only where a pair is on the screen. @param {KeyboardEvent} event */
function keys(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.repeat || !byId('reasons')) return;
  const choice = { ArrowLeft: 'left', ArrowRight: 'right', ArrowDown: 'same' }[event.key];
  const writes = event.target instanceof HTMLElement && event.target.matches('input, textarea, select, .answer');
  if (choice && session?.reply?.next && !writes) { event.preventDefault(); choose(choice); }
}
