import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const tests = fileURLToPath(new URL('dist/test', import.meta.url));

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
].map((name) => path.join(tests, `${name}.test.js`));

/** Others that are begun between two of those, so that about one of those is under way at a time. */
const between = 8;

/** The files by name, with those that wait spread over the first of them. */
function order() {
  const all = existsSync(tests) ? readdirSync(tests, { recursive: true }).sort() : [];
  const files = all.filter((name) => name.endsWith('.test.js')).map((it) => path.join(tests, it));
  const others = files.filter((file) => !waiting.includes(file));
  const spread = waiting.filter((file) => files.includes(file));
  return others.flatMap((file, index) =>
    index % between === 0 ? [...spread.splice(0, 1), file] : [file],
  );
}

const places = new Map(order().map((file, place) => [file, place]));

// biome-ignore lint/style/noDefaultExport: AVA wants it.
export default {
  files: ['dist/test/**/*.test.js'],
  timeout: '60s',
  // More than the processors of a small machine: many tests wait for programs, disks and threads.
  concurrency: 4,
  sortTestFiles: (a, b) => (places.get(a) ?? 0) - (places.get(b) ?? 0),
};
