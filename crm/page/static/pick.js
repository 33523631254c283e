/** Not sure? Pick between two answers, or give votes, until the page knows what you care about. */

import { showFilters } from './chips.js';
import { byId, el, markdown, plural, rounded } from './dom.js';
import { ask, line, newest, ownLines, page, profileOf } from './state.js';
import { savePicks } from './views.js';

/** @type {any} held while somebody looks at something else */
let session = null;
const turn = newest();

export async function startPicking() {
  const profile = profileOf({ ...page.wanted, lines: ownLines() });
  const typed = ownLines();
  if (JSON.stringify(session?.profile) !== JSON.stringify(profile)) {
    session = { profile, typed, picks: [], seed: Math.floor(Math.random() * 2 ** 31), bank: '', reply: null };
  }
  session.wanted = page.wanted; // Back replaces it
  open(true);
  await next();
}

/** While somebody picks, nothing else can be changed. @param {boolean} picking */
function open(picking) {
  for (const id of ['wanted', 'ranking', 'views', 'panel-box']) byId(id).hidden = picking;
  byId('picking').hidden = !picking;
  document[picking ? 'addEventListener' : 'removeEventListener']('keydown', keys);
  if (!picking) byId('pick-open').focus();
}

/** Until the answer is there `reply` is null, and no click counts. */
async function next() {
  session.reply = null;
  const signal = turn();
  const { profile, picks, seed, bank } = session;
  try {
    session.reply = await ask('picks', { profile, picks, seed, bank }, signal);
    session.bank = session.reply.bank;
    show();
  } catch (error) {
    if (!signal.aborted) byId('picking').replaceChildren(el('p', { class: 'wrong', role: 'alert' }, error.message),
      el('div', { class: 'line' }, el('button', { onclick: next }, 'Try again'), again(), leave()));
  }
}

/** Picks wait only as long as what they were made for. */
const leave = (text = 'Leave (your picks wait until you change a line or filter)') =>
  el('button', { onclick: () => { turn(); open(false); } }, text);
const again = () => el('button', { onclick: () => { session = null; return startPicking(); } }, 'Start again');

function show() {
  const { reply } = session;
  if (reply.ended) return showEnd();
  const title = el('h2', { tabindex: -1 }, `Which answer do you prefer? Pick ${reply.picked + 1}`);
  const side = (name, text) => el('div', {},
    el('button', { 'data-choice': name, onclick: () => choose(name) }, name === 'left' ? '← This one' : 'This one →'),
    el('div', { class: 'answer', tabindex: 0 }, ...markdown(text)));
  byId('picking').replaceChildren(title, el('p', {}, el('em', {}, reply.next.text)),
    el('div', { class: 'pair' }, side('left', reply.next.left_text), side('right', reply.next.right_text)),
    el('div', { class: 'line' }, el('button', { 'data-choice': 'same', onclick: () => choose('same') }, 'The same to me (↓)')),
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
  const asked = { profile: session.profile, picks: session.picks, seed: session.seed, bank: session.bank };
  byId('picking').replaceChildren(title, el('p', {}, none + undecided), criteria(reply.criteria),
    el('div', { class: 'line' }, el('button', { class: 'strong', onclick: take }, 'Show my ranking'),
      el('button', { onclick: back }, 'Back'), savePicks(asked), leave()));
  title.focus();
}

/** @param {any[]} found */
const criteria = (found) => el('ul', {}, ...found.map((one) => el('li', {},
  `${one.kind === 'like' ? '' : 'Not: '}${one.text}: counts ${rounded(one.weight)} times (95 %: ${rounded(one.low)} to ${rounded(one.high)})`)));

/** @param {any[]} found @returns {any[]} as lines */
const lines = (found) => found.map((one) => line(one.text, one.kind, Math.min(100, Math.max(0.01, +one.weight.toFixed(2)))));

/** The ranking over what the picks say, and what they say as chips. */
function take() {
  if (!session.reply) return;
  const { picks, seed, bank, typed, reply, wanted } = session;
  session = null;
  page.example = false;
  page.wanted = { ...wanted, lines: lines(reply.criteria) };
  showFilters(byId('filters'));
  open(false);
  page.changed('words', { picks, seed, bank, typed });
}

/** What somebody's votes show. @param {File} file */
export async function readVotes(file) {
  open(true);
  const [signal, close] = [turn(), leave('Close')];
  byId('picking').replaceChildren(el('p', { role: 'status' }, 'Reading your votes …'), close);
  try {
    const found = await ask('votes', { file: await file.text(), name: file.name }, signal);
    const { agreed, asked } = found.agreement;
    const use = el('button', { class: 'strong', onclick: () => {
      page.example = false;
      page.wanted.lines = lines(found.criteria);
      open(false);
      page.changed('words');
    } }, 'Rank by these');
    const title = el('h2', { tabindex: -1 }, `What your ${plural(found.votes, 'vote')} show`);
    byId('picking').replaceChildren(title,
      el('p', {}, found.criteria.length ? `These criteria predict ${agreed} of ${asked} votes for a side, each from the others.`
        : 'They say nothing clear about any criterion that is known here.',
      found.unread > 0 && ` ${plural(found.unread, 'vote')} could not be read.`),
      criteria(found.criteria), el('div', { class: 'line' }, found.criteria.length > 0 && use, close));
    title.focus();
  } catch (error) {
    if (!signal.aborted) byId('picking').replaceChildren(el('p', { class: 'wrong', role: 'alert' }, error.message), close);
  }
}

/** Only where a pair is on the screen. @param {KeyboardEvent} event */
function keys(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.repeat || !byId('reasons')) return;
  const choice = { ArrowLeft: 'left', ArrowRight: 'right', ArrowDown: 'same' }[event.key];
  const writes = event.target instanceof HTMLElement && event.target.matches('input, textarea, select, .answer');
  if (choice && session?.reply?.next && !writes) { event.preventDefault(); choose(choice); }
}
