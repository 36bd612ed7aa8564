/** A whole configuration in the manner of public ones: it loads, and means what it says. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { rulesOf } from '../../../master/config/policy-rules.ts';
import { loadMasterConfig } from '../../../master/index.ts';

// The fixtures are not compiled: they lie beside the sources.
const site = fileURLToPath(new URL('../../../../test/fixtures/site-config/', import.meta.url));

test("a real site's 200 lines load with warnings only, each at its line", async (t) => {
  const lines = readFileSync(path.join(site, 'master'), 'utf8').split('\n');
  t.true(lines.length > 200);
  const { config, warnings } = await loadMasterConfig(site);
  t.deepEqual(
    warnings.filter(({ kind }) => kind === 'unknown-option').map(({ key }) => key),
    [],
  );
  for (const { key, line, message } of warnings) {
    // The key of a warning is the way to its place, and begins with the option.
    const option = key.split(':')[0] ?? '';
    const above = lines.slice(0, line).findLast((text) => /^[a-z]/.test(text));
    t.is(above?.split(':')[0], option, message);
  }
  const actions = new Map<string, number>();
  for (const { action } of rulesOf(config)) actions.set(action, (actions.get(action) ?? 0) + 1);
  for (const action of ['publish', 'runner', 'wheel'])
    t.true((actions.get(action) ?? 0) > 3, action);
});

test('what is wider than it seems in them is told where it stands', async (t) => {
  const lines = readFileSync(path.join(site, 'master'), 'utf8').split('\n');
  const { warnings } = await loadMasterConfig(site);
  const told = warnings
    .filter(({ kind }) => kind === 'rights')
    .map(({ line }) => lines[line - 1]?.trim() ?? '');
  t.deepEqual(
    new Set(told),
    new Set([
      // Lookaround is not taken; it forbids all.
      'users:',
      // Every runner, every wheel function.
      ...['steve:', 'platform%:', 'saltadmins%:'],
      // The beginning of functions in Salt, the whole of them here.
      ...['deploy-search:', 'dba%:', 'webops%:'],
    ]),
  );
});
