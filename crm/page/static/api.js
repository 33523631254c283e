/** The HTTP API in words: every route, what is sent, what comes back, field by field. */

import { byId, el } from './dom.js';

const said = await (await fetch('../openapi.json')).json();
const bodies = said.components.schemas;

/** @param {any} schema @returns {any} what a reference stands for */
const whole = (schema) => (schema?.$ref ? bodies[schema.$ref.split('/').pop()] : schema);

/** @param {any} schema @returns {string} such as "list of text" */
function kind(schema) {
  if (schema.enum || schema.const) return (schema.enum || [schema.const]).map((one) => JSON.stringify(one)).join(' or ');
  if (schema.anyOf || schema.oneOf) return (schema.anyOf || schema.oneOf).map(kind).join(' or ');
  if (schema.$ref) return whole(schema).title;
  if (schema.type === 'array') return `list of ${kind(schema.items || {})}`;
  return { string: 'text', null: 'null', boolean: 'true or false' }[schema.type] || schema.type || 'anything';
}

/** @param {any} schema @returns {any[]} all schemas that stand in it */
function inside(schema) {
  const parts = [schema.items, schema.additionalProperties, ...(schema.anyOf || []), ...(schema.oneOf || [])];
  return schema.$ref || schema.properties ? [schema] : parts.filter((one) => one && typeof one === 'object').flatMap(inside);
}

/** Fields with their words, and below them those of what stands in them. @param {any} schema */
function fields(schema) {
  const own = whole(schema);
  return el('dl', {}, ...Object.entries(own.properties || {}).flatMap(([name, field]) => [
    el('dt', {}, el('code', {}, name), ` ${kind(field)}${(own.required || []).includes(name) ? '' : ', may be left out'}`),
    el('dd', {}, (field.description || '').replaceAll('``', ''), ...inside(field).map(fields)),
  ]));
}

/** @param {any} content by media type */
const body = (content) => Object.values(content || {}).flatMap(({ schema }) => inside(schema)).map(fields);

/** @param {string} method @param {string} path @param {any} route */
function article(method, path, route) {
  const asked = route.parameters?.map((one) => el('li', {}, el('code', {}, one.name))) || [];
  return el('article', {}, el('h2', {}, el('code', {}, `${method.toUpperCase()} ${path}`)),
    el('p', {}, route.description.replaceAll('``', '')),
    asked.length > 0 && el('ul', { 'aria-label': 'In the address' }, ...asked),
    route.requestBody && el('details', {}, el('summary', {}, 'What is sent'), ...body(route.requestBody.content)),
    el('details', {}, el('summary', {}, 'What comes back'), ...body(route.responses[200]?.content)));
}

byId('routes').replaceChildren(...Object.entries(said.paths).flatMap(([path, routes]) =>
  Object.entries(routes).map(([method, route]) => article(method, path, route))));
