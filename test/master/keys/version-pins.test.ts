import { readFileSync } from 'node:fs';
import test from 'ava';
import { Packr } from 'msgpackr';
import { readPins } from '#master';
import { VersionPins } from '#master/auth/version-check.ts';
import { createMemoryStore } from '#store';

test('pins of earlier versions are read, and written with the time of the proof', async (t) => {
  const store = createMemoryStore();
  t.teardown(() => store.close());
  const body = new Packr({ useRecords: false }).pack({ version: 2 });
  const key = (id: string): string[] => ['pins', id];
  await store.write([
    { op: 'put', key: key('first'), value: Uint8Array.of(2) },
    { op: 'put', key: key('second'), value: Buffer.concat([Buffer.of(0xc1, 1), body]) },
  ]);
  const pins = await VersionPins.open(store, 'auto');
  for (const id of ['first', 'second']) {
    t.deepEqual([pins.of(id), pins.provenAt(id)], [2, null]);
    await pins.prove(id, 3, 1000);
  }
  t.deepEqual([...((await store.get(key('first')))?.value.subarray(0, 2) ?? [])], [0xc1, 2]);
  const again = await VersionPins.open(store, 'auto');
  t.deepEqual([again.of('first'), again.provenAt('second')], [3, 1000]);
  t.deepEqual([...(await readPins(store)).values()], [3, 3]);
});

test('the row in docs/architecture/adding.md matches the code', (t) => {
  const read = (file: string): string =>
    readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');
  const example = /```ts\n(const pinRow = [\s\S]*?)```/.exec(
    read('docs/architecture/adding.md'),
  )?.[1];
  const code = read('master/auth/version-check.ts');
  t.true(example !== undefined);
  t.true(code.includes(example ?? 'none'));
});
