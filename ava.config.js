/** Files whose tests wait long for processes: begun first, so that none is left over at the end. */
const longest = [
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
].map((name) => `/dist/test/${name}.test.js`);

function placeOf(file) {
  const place = longest.findIndex((it) => file.endsWith(it));
  return place < 0 ? longest.length : place;
}

// biome-ignore lint/style/noDefaultExport: AVA wants it.
export default {
  files: ['dist/test/**/*.test.js'],
  timeout: '60s',
  // One more than the cores of a small machine: many tests wait for other programs.
  concurrency: 3,
  sortTestFiles: (a, b) => placeOf(a) - placeOf(b) || a.localeCompare(b),
};
