import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { createSilentLogger } from '../../../master/api/log.ts';
import { MineStore, takeOverMines } from '../../../master/data/mine.ts';
import { createMemoryStore } from '../../../store/index.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const fixture = '../../../../test/fixtures/minion-data-cache/salt-3007.8-m1-mine.hex';
const recorded = Buffer.from(
  readFileSync(new URL(fixture, import.meta.url), 'ascii').replaceAll('\n', ''),
  'hex',
);

test('what a real salt-master had in the mine is there, once', async (t) => {
  const cachedir = temporaryDirectory(t);
  for (const [id, bytes] of [
    ['m1', recorded],
    ['broken', Buffer.from('c1', 'hex')],
  ] as const) {
    mkdirSync(path.join(cachedir, 'minions', id), { recursive: true });
    writeFileSync(path.join(cachedir, 'minions', id, 'mine.p'), bytes);
  }
  const store = createMemoryStore();
  const bounds = { maxBytes: 10_000, maxValueBytes: 1000, keepMarksMs: 60_000 };
  const mine = new MineStore({ store, isOn: true, ...bounds, now: () => 0 });
  const cache = {
    cachedir,
    ids: ['m1', 'none', 'broken'],
    maxBytes: 10_000,
    log: createSilentLogger(),
  };
  t.is(await takeOverMines(mine, store, cache), 1);
  t.deepEqual(JSON.parse(JSON.stringify(await mine.all('m1'))), {
    'test.ping': true,
    'test.arg': { args: ['m1'], kwargs: {} },
  });
  await mine.flush('m1');
  t.is(await takeOverMines(mine, store, cache), 0);
  t.deepEqual({ ...(await mine.all('m1')) }, {});
});
