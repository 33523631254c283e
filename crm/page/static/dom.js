/** Elements from plain values. Text is always text: nothing here reads markup as HTML. */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * An element. `on...` are listeners, other names are attributes; false leaves one out.
 * @param {string} name @param {Record<string, any>} [given] @param {...any} inside
 * @returns {HTMLElement}
 */
export function el(name, given = {}, ...inside) {
  return fill(document.createElement(name), given, inside);
}

/** The same for pictures. @param {string} name @param {Record<string, any>} [given] @param {...any} inside @returns {SVGElement} */
export function svg(name, given = {}, ...inside) {
  return fill(/** @type {SVGElement} */ (document.createElementNS(SVG, name)), given, inside);
}

/** @template {Element} T @param {T} made @param {Record<string, any>} given @param {any[]} inside @returns {T} */
function fill(made, given, inside) {
  for (const [name, value] of Object.entries(given)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === 'function') made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : String(value));
  }
  made.append(...inside.flat().filter((part) => part !== null && part !== false && part !== undefined).map((part) =>
    part instanceof Node ? part : String(part)));
  return made;
}

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/** @param {number} share @returns {string} */
export const percent = (share) => `${Math.round(100 * share)} %`;

/** @param {number} value @param {number} [digits] @returns {string} with its sign */
export function signed(value, digits = 0) {
  const size = Math.abs(value).toFixed(digits);
  return `${Number(size) === 0 ? '±' : value < 0 ? '−' : '+'}${size}`;
}

/** @param {number} value @returns {string} with two significant digits, so that no weight is shown as 0 */
export const rounded = (value) => `${Number(value.toPrecision(2))}`.replace('-', '−');

/** @param {number} count @param {string} one @param {string} [many] @returns {string} */
export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString('en')} ${count === 1 ? one : many}`;

/** @param {string[]} names @returns {string} such as "A, B and C" */
export const listed = (names) => (names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names[names.length - 1]}`);

const BLOCKS = [
  { of: /^#{1,6}\s+/, tag: 'h5' }, { of: /^\s*(?:[-*+]|\d{1,3}[.)])\s+/, tag: 'li' }, { of: /^>\s?/, tag: 'blockquote' },
];

/** Headings, items, quotations, code and emphasis of Markdown; links and everything else stay text. @param {string} text */
export function markdown(text) {
  const made = [];
  for (const [place, part] of text.split(/^```.*$/m).entries()) {
    if (place % 2) made.push(el('pre', {}, part.replace(/^\s*\n|\s+$/g, '')));
    else part.split('\n').filter((row) => row.trim()).forEach((row) => made.push(block(row)));
  }
  return made;
}

/** @param {string} row */
function block(row) {
  const { of = /^/, tag = 'p' } = BLOCKS.find((one) => one.of.test(row)) || {};
  const start = tag === 'li' ? `${row.match(/^\s*(\d+[.)])/)?.[1] || '•'} ` : '';
  return el(tag === 'p' || tag === 'blockquote' ? tag : 'p', { class: tag === 'p' ? null : tag }, start, ...inline(row.replace(of, '')));
}

/** @param {string} text */
function inline(text) {
  return text.split(/(\*\*[^*]+\*\*|__[^_]+__|`[^`]+`|\*[^*\s][^*]*\*)/).map((part) => {
    if (/^(\*\*|__).+\1$/.test(part)) return el('strong', {}, part.slice(2, -2));
    if (/^`.+`$/.test(part)) return el('code', {}, part.slice(1, -1));
    return /^\*.+\*$/.test(part) ? el('em', {}, part.slice(1, -1)) : part;
  });
}
