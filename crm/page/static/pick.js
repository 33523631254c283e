/** Not sure? Pick between two answers, until the page knows what you care about. */

import { byId, el, plural } from './dom.js';
import { changed, ownLines, page } from './main.js';
import { ask } from './server.js';
import { line, profileOf } from './state.js';

const ENOUGH_TO_TELL = 8;
/** @type {any} */
let session = null;

export async function startPicking() {
  session = { picks: [], seed: Math.floor(Math.random() * 2 ** 31), reply: null, chosen: '' };
  byId('stage').hidden = true;
  byId('picking').hidden = false;
  document.addEventListener('keydown', keys);
  await next();
}

function stop() {
  document.removeEventListener('keydown', keys);
  byId('picking').hidden = true;
  byId('stage').hidden = false;
  byId('pick-open').focus();
}

async function next() {
  session.chosen = '';
  try {
    session.reply = await ask('picks', { profile: profileOf({ ...page.wanted, lines: ownLines() }), picks: session.picks, seed: session.seed });
    show();
  } catch (error) {
    byId('picking').replaceChildren(el('p', { class: 'wrong', role: 'alert' }, error.message), el('button', { onclick: stop }, 'Close'));
  }
}

function show() {
  const { reply } = session;
  if (reply.ended) return showEnd();
  const title = el('h2', { tabindex: -1 }, `Which answer do you prefer? Pick ${reply.picked + 1}`);
  const side = (name, text) => el('div', {},
    el('button', { 'data-choice': name, onclick: () => choose(name) }, name === 'left' ? '← This one' : 'This one →'),
    el('div', { class: 'answer', tabindex: 0 }, text));
  byId('picking').replaceChildren(title,
    el('p', {}, el('em', {}, reply.next.text)),
    el('div', { class: 'pair' }, side('left', reply.next.left_text), side('right', reply.next.right_text)),
    el('div', { class: 'line' }, el('button', { 'data-choice': 'same', onclick: () => choose('same') }, 'The same to me (↓)')),
    el('div', { id: 'reasons', class: 'line', role: 'group', 'aria-label': 'Because of' }),
    so(reply), el('div', { class: 'line' }, reply.picked > 0 && el('button', { onclick: take }, 'Stop here and rank'),
      el('button', { onclick: stop }, 'Leave')));
  title.focus();
}

/** What it seems so far. @param {any} reply */
function so(reply) {
  const names = reply.criteria.slice(0, 4).map((one) => one.text);
  const caption = reply.picked < ENOUGH_TO_TELL ? `After ${plural(ENOUGH_TO_TELL, 'pick')} you see what you seem to like; usually it takes 10 to 25 until your ranking is settled.`
    : names.length ? `You seem to like: ${names.join(', ')}.` : 'Nothing is clear yet.';
  return el('p', { class: 'quiet', role: 'status' }, caption);
}

/** @param {string} choice */
function choose(choice) {
  session.chosen = choice;
  const { reasons } = session.reply.next;
  if (choice === 'same' || !reasons.length) return add(null);
  document.querySelectorAll('[data-choice]').forEach((button) =>
    button.setAttribute('aria-pressed', String(/** @type {HTMLElement} */ (button).dataset.choice === choice)));
  const chips = reasons.map((reason) => el('button', { onclick: () => add(reason.place) }, reason[choice]));
  byId('reasons').replaceChildren('Because of: ', ...chips, el('button', { onclick: () => add(null) }, 'Nothing of these'));
  chips[0].focus();
}

/** @param {number | null} reason */
function add(reason) {
  const { query, left, right, random, reasons } = session.reply.next;
  const offered = session.chosen === 'same' ? [] : reasons.map((one) => one.place);
  session.picks.push({ query, left, right, random, choice: session.chosen, offered, reason });
  return next();
}

function showEnd() {
  const { reply } = session;
  const undecided = reply.undecided.length > 1 ? `It is undecided between ${reply.undecided.join(', ')}: your picks do not say more.` : '';
  const none = reply.criteria.length ? '' : 'Your picks show no clear like or dislike. ';
  const title = el('h2', { tabindex: -1 }, reply.decided ? 'Your ranking is settled' : 'No more questions');
  byId('picking').replaceChildren(title, el('p', {}, none + undecided),
    el('ul', {}, ...reply.criteria.map((one) => el('li', {}, `${one.kind === 'like' ? '' : 'Not: '}${one.text}: weight ${one.weight.toFixed(1)} [${one.low.toFixed(1)}, ${one.high.toFixed(1)}]`))),
    el('div', { class: 'line' }, el('button', { class: 'strong', onclick: take }, 'Show my ranking'), el('button', { onclick: stop }, 'Leave')));
  title.focus();
}

/** The ranking over what the picks say, and what they say as chips. */
function take() {
  const { picks, seed, reply } = session;
  const typed = ownLines();
  page.example = false;
  stop();
  page.wanted.lines = reply.criteria.map((one) => line(one.text, one.kind, Math.min(100, Math.max(0.01, +one.weight.toFixed(2)))));
  changed('words', { picks, seed, bank: reply.bank, typed });
}

/** @param {KeyboardEvent} event */
function keys(event) {
  const choice = { ArrowLeft: 'left', ArrowRight: 'right', ArrowDown: 'same' }[event.key];
  const writes = event.target instanceof HTMLElement && event.target.matches('input, textarea, select, .answer');
  if (event.key === 'Escape') stop();
  else if (choice && session.reply?.next && !session.chosen && !writes) { event.preventDefault(); choose(choice); }
}
