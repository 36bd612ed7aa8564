import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const tests = fileURLToPath(new URL('dist/test', import.meta.url));
const ending = '.test.js';

/** Files whose tests wait long for other programs, and use little of the processor meanwhile. */
const waiting = [
  'shared-master/processes',
  'quick-start',
  'shared-master/campaign',
  'heat-bridge/openapi',
  'security/minions',
  'heat-bridge/python-wheel',
  'salt-api/connections',
  'crash',
  'signal-crash',
  'heat-bridge/crash',
  'cli/master-process',
  'master/hostile',
].map(nameOf);

/** Others that are begun between two of those, so that about one of those is under way at a time. */
const between = 8;

/** Files that count what their thread does, or change its environment. */
const alone = [
  'master/eauth/pam',
  'minion-protocol/payload-limits',
  'minion-protocol/zeromq-listener',
  'runtime/json',
].map(nameOf);

/** Bytes of the files that one thread loads together: as many as the largest file has. */
const maxTogether = 60_000;
const togetherName = /(?:^|\/)together-\d+\.test\.js$/;

function nameOf(name) {
  return `${name}${ending}`;
}

/** Names of files below `tests`, in their order. */
function testFiles() {
  if (!existsSync(tests)) return [];
  const found = readdirSync(tests, { recursive: true }).filter((name) => name.endsWith(ending));
  return found.filter((name) => !togetherName.test(name)).sort();
}

/**
 * A thread for each file loads the whole product each time, which is a third of the time of all
 * tests. `.ci/run` has ten minutes: there, neighbours of a folder are loaded by one thread, and so
 * are all files for which a machine needs real minions.
 */
function loadTogether(names) {
  const groups = new Map();
  let bytes = 0;
  let group = [];
  for (const name of names) {
    if (waiting.includes(name) || alone.includes(name)) continue;
    const folder = path.dirname(name);
    const size = folder === 'interop' ? 0 : statSync(path.join(tests, name)).size;
    if (bytes + size > maxTogether || path.dirname(group[0] ?? '') !== folder) {
      bytes = 0;
      group = [];
    }
    bytes += size;
    group.push(name);
    groups.set(group[0], group);
  }
  return [...groups.values()].filter(({ length }) => length > 1);
}

function writeGroup(names, index) {
  const file = path.join(path.dirname(names[0]), nameOf(`together-${index + 1}`));
  const imports = names.map((name) => `import './${path.basename(name)}';\n`);
  writeFileSync(path.join(tests, file), imports.join(''));
  return file;
}

const isShort = process.env.SALTBRIDGE_SHORT !== undefined && process.env.SALT_MINION === undefined;
const names = testFiles();
const groups = isShort ? loadTogether(names) : [];
const grouped = groups.flat();
const written = groups.map(writeGroup);

/** The files by name, with those that wait spread over the first of them. */
function order() {
  const files = [...names.filter((name) => !grouped.includes(name)), ...written];
  const others = files.filter((name) => !waiting.includes(name)).sort();
  const spread = waiting.filter((name) => files.includes(name));
  return others.flatMap((name, index) =>
    index % between === 0 ? [...spread.splice(0, 1), name] : [name],
  );
}

const places = new Map(order().map((name, place) => [path.join(tests, name), place]));

// biome-ignore lint/style/noDefaultExport: AVA wants it.
export default {
  files: [
    `dist/test/**/*${ending}`,
    ...(isShort ? grouped.map((name) => `!dist/test/${name}`) : ['!dist/test/**/together-*']),
  ],
  timeout: '60s',
  // More than the processors of a small machine: many tests wait for programs, disks and threads.
  concurrency: 4,
  sortTestFiles: (a, b) => (places.get(a) ?? 0) - (places.get(b) ?? 0),
};
