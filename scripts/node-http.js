// Replaces imports of node:http by a module with the same exports, except those that Node.js loads
// when they are read: its WebSocket client. An import from an ECMAScript module reads all exports,
// so it would load that client, which takes 14 MB of memory and 60 ms of each start.
import http from 'node:http';

export const replacedModule = 'node:http';

/** Source of the replacement. */
export function replacementSource() {
  const names = Object.entries(Object.getOwnPropertyDescriptors(http))
    .filter(([, { get }]) => get === undefined)
    .map(([name]) => name);
  return [
    `const http = process.getBuiltinModule('${replacedModule}');`,
    'export default http;',
    ...names.map((name) => `export const ${name} = http.${name};`),
  ].join('\n');
}
