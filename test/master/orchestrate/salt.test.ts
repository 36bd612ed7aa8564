/** What Salt made of the same orchestrations; see test/fixtures/orchestrate/README.md. */
import test from 'ava';
import { callOf, comparable, recorded, startRecorded } from './recorded.ts';

test('orchestrations return what they return in Salt', async (t) => {
  const master = await startRecorded(t);
  const ours: Record<string, unknown> = {};
  const salts: Record<string, unknown> = {};
  for (const it of recorded.cases) {
    ours[it.name] = comparable((await master.runners.run(callOf(it))).return);
    salts[it.name] = comparable(it.returned);
  }
  t.deepEqual(ours, salts);
});
