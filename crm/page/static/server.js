/** The HTTP API. Addresses are relative to the page, so that it works behind a proxy with a path of its own. */

/** @param {string} path @returns {URL} */
export const address = (path) => new URL(`api/${path}`, document.baseURI);

/** The server refused; the message is the server's. */
export class Refused extends Error {}

/**
 * An answer as JSON; `body` is sent by POST.
 * @param {string} path @param {any} [body] @param {AbortSignal} [signal] @returns {Promise<any>}
 */
export async function ask(path, body, signal) {
  return read(await send(path, body, signal));
}

/** @param {string} path @param {any} body @param {AbortSignal} [signal] */
async function send(path, body, signal) {
  const post = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
  try {
    return await fetch(address(path), body === undefined ? { signal } : { ...post, signal });
  } catch (error) {
    return unreachable(error);
  }
}

/** @param {any} error @returns {never} as it is, where the request was given up */
function unreachable(error) {
  if (error instanceof DOMException) throw error;
  throw new Refused('The server cannot be reached. Try again in a moment.');
}

/** @param {Response} answer @returns {Promise<any>} */
async function read(answer) {
  if (!answer.ok) {
    const { error } = await answer.json().catch(() => ({}));
    throw new Refused(error || `The server answered with status ${answer.status}.`);
  }
  return answer.json().catch(unreachable); // a body that is cut off is no empty answer
}

/** @param {any} profile @param {AbortSignal} [signal] @returns {Promise<any>} its ranking */
export const ranking = (profile, signal) => ask('rank', profile, signal);
