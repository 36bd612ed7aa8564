// Checks which room imports which. A room is a top-level folder of source code. Other rooms import
// it as `#room`, which is its index.ts, and not by a path. Exits with status 1 if there is a
// violation.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Rooms that each room may import. `#room/*` permits single files of a room. The RSA threads load
 * the listed files, because loading whole rooms would take three times as long.
 */
const rooms = {
  runtime: [],
  acl: ['runtime'],
  template: ['runtime', 'runtime/json.ts'],
  'minion-protocol': ['runtime', 'runtime/errors.ts', 'template/python/*'],
  store: ['runtime'],
  config: ['acl', 'minion-protocol', 'runtime', 'template/python/*'],
  // The worker threads of the master load only the RSA part of the protocol, and limits.
  master: [
    'acl',
    'config',
    'minion-protocol',
    'minion-protocol/rsa-keys.ts',
    'minion-protocol/signing.ts',
    'runtime',
    'runtime/bounded-map.ts',
    'runtime/limits.ts',
    'store',
    'template/python/*',
  ],
  salt: [
    'acl',
    'config',
    'master',
    'minion-protocol',
    'runtime',
    'store',
    'template',
    'template/python/*',
  ],
  cluster: ['config', 'master', 'minion-protocol', 'runtime', 'store'],
  'heat-bridge': [
    'acl',
    'config',
    'master',
    'minion-protocol',
    'runtime',
    'store',
    'template/python/*',
  ],
  guests: [
    'acl',
    'config',
    'heat-bridge',
    'master',
    'minion-protocol',
    'runtime',
    'store',
    'template/python/*',
  ],
  edge: [
    'acl',
    'config',
    'heat-bridge',
    'master',
    'minion-protocol',
    'runtime',
    'store',
    'template/python/*',
  ],
  'salt-api': [
    'acl',
    'config',
    'master',
    'minion-protocol',
    'runtime',
    'store',
    'template/python/*',
  ],
  client: ['config', 'master', 'minion-protocol', 'runtime', 'store'],
};
const libraries = Object.keys(rooms);
// The sockets for LocalClient are a separate extension with its own index.ts.
rooms.server = [...libraries, 'salt-api/localclient/*'];
rooms.cli = [...libraries, 'salt-api/localclient/*', 'server', 'server/*', 'template/python/*'];

const root = fileURLToPath(new URL('..', import.meta.url));
const specifier = /\b(?:from|import)\s*\(?\s*'([#.][^']*)'/g;
const problems = [];
for (const [room, allowed] of Object.entries(rooms)) {
  const names = readdirSync(path.join(root, room), { recursive: true });
  for (const name of names.filter((it) => it.endsWith('.ts'))) {
    const file = path.join(room, name);
    const text = readFileSync(path.join(root, file), 'utf8');
    for (const [, target = ''] of text.matchAll(specifier)) {
      const leaves =
        target.startsWith('.') && path.join(path.dirname(file), target).split('/')[0] !== room;
      const to = target.slice(1);
      const isAllowed =
        target.startsWith('.') ||
        allowed.some((it) => (it.endsWith('*') ? to.startsWith(it.slice(0, -1)) : to === it));
      if (leaves || !isAllowed) problems.push(`${file}: must not import ${target}`);
    }
  }
}
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;
