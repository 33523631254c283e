/** The HTTP API. Addresses are relative to the page, so that it works behind a proxy with a path of its own. */

/** @param {string} path @returns {URL} */
export const address = (path) => new URL(`api/${path}`, document.baseURI);

/** What the server refused, in its own words. */
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
    if (error instanceof DOMException) throw error;
    throw new Refused('The server cannot be reached. Try again in a moment.');
  }
}

/** @param {Response} answer @returns {Promise<any>} */
export async function read(answer) {
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(said.error || `The server answered with status ${answer.status}.`);
  return said;
}

/**
 * Rankings on ever more questions. Ending the loop, or `signal`, gives the place in the line up.
 * @param {any} profile @param {AbortSignal} signal
 */
export const rankings = (profile, signal) => steps('rank', profile, signal);

/**
 * Lines of an answer as they come. Raises `Refused` for one that says what went wrong.
 * @param {string} path @param {any} body @param {AbortSignal} [signal]
 */
export async function* steps(path, body, signal) {
  const answer = await send(path, body, signal);
  if (!answer.ok || !answer.body) await read(answer);
  const reader = /** @type {ReadableStream<any>} */ (answer.body).pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value || '')).split('\n');
    rest = lines.pop() || '';
    for (const line of lines.filter(Boolean)) {
      const step = JSON.parse(line);
      if (step.error) throw new Refused(step.error);
      yield step;
    }
    if (done) return;
  }
}

/** The complete ranking. @param {any} profile @param {AbortSignal} signal */
export async function ranking(profile, signal) {
  let last = null;
  for await (const step of rankings(profile, signal)) last = step;
  return last;
}
