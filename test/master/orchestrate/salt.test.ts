/** What Salt made of the same orchestrations; see test/fixtures/orchestrate/README.md. */
import test from 'ava';
import type { Master } from '../../../master/index.ts';
import {
  callOf,
  comparable,
  comparableTold,
  type RecordedCase,
  recorded,
  startRecorded,
} from './recorded.ts';

/** What a case returns, and the arguments that are told while it runs. */
async function play(
  master: Master,
  it: RecordedCase,
): Promise<{ readonly returned: unknown; readonly told: unknown }> {
  const end = new AbortController();
  const events = master.events.subscribe({ match: 'salt/run/*' }, end.signal);
  const first = events[Symbol.asyncIterator]();
  const { jid, return: returned } = await master.runners.run(callOf(it));
  const told: unknown[] = [];
  for (;;) {
    const { value } = await first.next();
    if (value?.tag.endsWith('/args')) told.push(comparableTold(value.data));
    if (value === undefined || value.tag === `salt/run/${jid}/ret`) break;
  }
  end.abort();
  return { returned: comparable(returned), told };
}

test('orchestrations return and tell what they do in Salt', async (t) => {
  const master = await startRecorded(t);
  const ours: Record<string, unknown> = {};
  const salts: Record<string, unknown> = {};
  for (const it of recorded.cases) {
    ours[it.name] = await play(master, it);
    const told = (it.told ?? []).map(comparableTold);
    salts[it.name] = { returned: comparable(it.returned), told };
  }
  t.deepEqual(ours, salts);
});

test('the recorded orchestrations are enough', (t) => {
  t.true(recorded.cases.length >= 60);
  t.true(recorded.answers.length >= 20);
});
