import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const tests = fileURLToPath(new URL('dist/test', import.meta.url));
const ending = '.test.js';

/** Files whose tests wait long for other programs, and use little of the processor meanwhile. */
const waiting = [
  'store/log',
  'heat-bridge/deployments/deployments',
  'heat-bridge/plans/run',
  'shared-master/processes',
  'quick-start',
  'shared-master/campaign',
  'cluster/campaign',
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

function nameOf(name) {
  return `${name}${ending}`;
}

/** Where `.ci/run` skips all tests or nearly all: they are long, or need what it does not have. */
const skipped = [
  'container-image',
  'crash',
  'debian-package',
  'example-programs',
  'npm-package',
  'quick-start',
  'signal-crash',
  'browser/saltgui',
  'cli/standard-input',
  'cluster/campaign',
  'heat-bridge/cluster-crash',
  'heat-bridge/crash',
  'heat-bridge/deployments/crash',
  'interop/',
  'master/hostile',
  'master/life-times',
  'minion-protocol/half-open',
  'minion-protocol/mutations',
  'minion-protocol/stream-strangers',
  'minion-protocol/zeromq-strangers',
  'salt-api/floods',
  'salt-api/openapi',
  'shared-master/campaign',
  'shared-master/processes',
];
/** Loads them in one thread: each in a thread of its own would load the product only to skip. */
const skips = nameOf('skips');
const isShort = process.env.SALTBRIDGE_SHORT !== undefined && process.env.SALT_MINION === undefined;

const found = existsSync(tests) ? readdirSync(tests, { recursive: true }).sort() : [];
const names = found.filter((name) => name.endsWith(ending) && name !== skips);
const loadedBySkips = isShort
  ? names.filter((name) => skipped.some((start) => name.startsWith(start)))
  : [];
if (loadedBySkips.length > 0) {
  const imports = loadedBySkips.map((name) => `import './${name}';\n`);
  writeFileSync(path.join(tests, skips), imports.join(''));
}

/** The files by name, with those that wait spread over the first of them. */
function order() {
  const others = names.filter((name) => !waiting.includes(name));
  const spread = waiting.filter((name) => names.includes(name));
  return others.flatMap((name, index) =>
    index % between === 0 ? [...spread.splice(0, 1), name] : [name],
  );
}

const places = new Map(order().map((name, place) => [path.join(tests, name), place]));
const without = isShort ? loadedBySkips : [skips];

// biome-ignore lint/style/noDefaultExport: AVA wants it.
export default {
  files: [`dist/test/**/*${ending}`, ...without.map((name) => `!dist/test/${name}`)],
  timeout: '60s',
  // More than the processors of a small machine: many tests wait for programs, disks and threads.
  concurrency: 4,
  sortTestFiles: (a, b) => (places.get(a) ?? 0) - (places.get(b) ?? 0),
};
