/** Elements from plain values. Text is always text: nothing here reads markup. */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * An element. `on...` are listeners, `data` are data attributes, other names are attributes; false leaves one out.
 * @param {string} name @param {Record<string, any>} [given] @param {...(Node | string | number | null | false | Node[])} inside
 * @returns {HTMLElement}
 */
export function el(name, given = {}, ...inside) {
  return fill(document.createElement(name), given, inside);
}

/**
 * The same for pictures.
 * @param {string} name @param {Record<string, any>} [given] @param {...(Node | string | number | null | false | Node[])} inside
 * @returns {SVGElement}
 */
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

/** @param {number} value @returns {string} with its sign */
export const signed = (value) => `${['−', '±', '+'][Math.sign(Math.round(value)) + 1]}${Math.abs(Math.round(value))}`;

/** @param {number} count @param {string} one @param {string} [many] @returns {string} */
export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
