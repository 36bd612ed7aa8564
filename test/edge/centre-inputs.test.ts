/** Reports of sites about their pillars, which the centre stores. */

import test from 'ava';
import { CentreInputs } from '#edge/facts/centre-inputs.ts';
import type { LogEntryHandler } from '#edge/log/log.ts';
import type { SharedArea } from '#master';
import { memoryRows } from './bundles/tuf-stage.ts';

test('the report of one site is read without the reports of other sites', async (t) => {
  const handlers: LogEntryHandler[] = [];
  const rows = memoryRows({ now: 0 });
  const reads: string[] = [];
  const shared: typeof rows & Pick<SharedArea, 'cluster' | 'follow'> = {
    ...{ ...rows, follow: async () => {}, cluster: undefined },
    async *list(prefix, options) {
      for await (const entry of rows.list(prefix, options)) {
        reads.push(entry.key.at(-1) ?? '');
        yield entry;
      }
    },
    get: (key) => {
      reads.push(key.at(-1) ?? '');
      return rows.get(key);
    },
  };
  const inputs = new CentreInputs({
    host: { now: () => 1, shared },
    ingest: { on: (_kind, handler) => handlers.push(handler) },
    joined: () => ['north', 'south', 'west'],
  });
  for (const [site, own] of [
    ['north', 1],
    ['south', 2],
  ] as const) {
    const entry = { site, class: 'fact', kind: 'inputs', sequence: 1 } as const;
    const value = { shared: 0, own, grains: [] };
    const at = { ms: 0, count: 0 };
    for (const { operations } of handlers) {
      const found = await operations?.({ ...entry, value, at, packed: new Uint8Array() });
      await shared.write(found ?? []);
    }
  }
  const south = await inputs.list('south');
  t.like(south, { own: 2, unknown: [] });
  t.deepEqual(
    south.sites.map(({ site }) => site),
    ['south'],
  );
  t.deepEqual(reads, ['south']);
  t.like(await inputs.list('west'), { own: 0, sites: [], unknown: ['west'] });
  t.like(await inputs.list(), { own: 3, unknown: ['west'] });
});
