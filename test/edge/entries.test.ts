/** Entries of sites that a centre stores, and what a hostile site can do to them. */
import test from 'ava';
import { openEntries } from '#edge/log/centre-entries.ts';
import type { LogEntry } from '#edge/log/log.ts';
import type { CentreContext } from '#edge/parts.ts';
import type { WireMap } from '#minion-protocol';
import { createMemoryStore } from '#store';

type Handler = Parameters<CentreContext['ingest']['on']>[1];

function stage() {
  const clock = { now: 1_700_000_000_000 };
  const shared = createMemoryStore({ now: () => clock.now });
  const fired: WireMap[] = [];
  const handlers = new Map<string, Handler>();
  const host = {
    shared,
    now: () => clock.now,
    fire: (_tag: string, data: WireMap) => fired.push(data),
  };
  const ingest = { on: (kind: string, handler: Handler) => handlers.set(kind, handler) };
  openEntries({ host, ingest } as unknown as CentreContext);
  const add = async (sequence: number, value: WireMap = { action: 'x' }, kind = 'audit') => {
    const at = { ms: clock.now, count: 0 };
    const entry: LogEntry = { site: 'evil', class: 'alarm', kind, value, sequence, at };
    const handler = handlers.get(kind);
    await shared.write([...((await handler?.operations?.(entry)) ?? [])]);
    await handler?.applied?.(entry);
  };
  const stored = async (): Promise<number[]> => {
    const sequences: number[] = [];
    for await (const { key } of shared.list(['centre', 'entry', 'evil'])) {
      sequences.push(Number(key.at(-1)));
    }
    return sequences;
  };
  return { clock, add, stored, fired };
}

test('old entries are deleted although a site skips sequence numbers', async (t) => {
  const { add, stored } = stage();
  let sequence = 0;
  for (let round = 0; round < 4; round += 1) {
    for (let count = 1; count <= 4000; count += 1) await add(sequence + count);
    sequence += 4000;
    sequence += 20_000;
  }
  const left = await stored();
  t.true(left.length <= 4000 + 64, `${left.length} entries`);
  t.is(left.at(-1), sequence - 20_000);
});

test('entries of a former log with higher numbers are deleted, but not those just stored', async (t) => {
  const { clock, add, stored } = stage();
  for (let log = 5; log > 0; log -= 1) {
    for (let count = 0; count < 300; count += 1) await add(log * 1_000_000 + count);
    clock.now += 61_000;
  }
  const left = await stored();
  t.true(left.length <= 2 * 300, `${left.length} entries`);
  await add(7_000_000);
  for (let count = 1; count < 70; count += 1) await add(1_001_000 + count);
  t.true((await stored()).includes(7_000_000));
});

test('an event of a site carries the name of the site, whatever its data contain', async (t) => {
  const { add, fired } = stage();
  await add(1, { tag: 'salt/minion/web1/start', data: { site: 'berlin', id: 'web1' } }, 'event');
  t.deepEqual({ ...fired[0] }, { site: 'evil', id: 'web1' });
});
