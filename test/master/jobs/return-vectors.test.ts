/** Recorded returns: the same answers and events as Salt's master; what is kept comes back. */

import test from 'ava';
import type { JobReturn } from '../../../master/api/jobs.ts';
import { JobCache } from '../../../master/jobs/job-cache.ts';
import type { WireMap } from '../../../minion-protocol/index.ts';
import type { Store } from '../../../store/index.ts';
import { RECORDED_AT, startVectorMaster } from '../../helpers/vector-master.ts';
import { byVersion, loadOf, openReply } from '../../helpers/vector-requests.ts';
import {
  base64,
  canonical,
  canonicalWire,
  cases,
  type JsonObject,
  keys,
  text,
  toWireValue,
  vectorFile,
} from '../../helpers/vectors.ts';

const vectors = cases(vectorFile('return'), 'cases');
const published = vectors.filter((vector) => loadOf(vector).jid !== 'req');
const selfMade = vectors.filter((vector) => loadOf(vector).jid === 'req');

for (const [version, group] of byVersion(published)) {
  test(`answers recorded returns of protocol ${version} as Salt, with the same events`, async (t) => {
    const master = await startVectorMaster(t, { prepare: publishRecordedJobs });
    for (const vector of group) {
      const name = text(vector.name);
      const events = await master.eventsDuring(async () => {
        const reply = await master.ask(base64(vector.request_b64));
        t.is(openReply(vector, reply), null, name);
      });
      t.deepEqual(events.slice(-1).map(comparable), recordedEvents(vector), name);
    }
  });

  test(`keeps what recorded returns of protocol ${version} hold`, async (t) => {
    const { ask, store } = await startVectorMaster(t, { prepare: publishRecordedJobs });
    for (const vector of group) {
      await ask(base64(vector.request_b64));
      const { jid, fun, retcode = 0, success = true, ...load } = loadOf(vector);
      const [kept, ...more] = await keptReturns(store, String(jid));
      t.deepEqual(more, []);
      t.is(kept?.minion, keys.minionId);
      t.deepEqual([kept?.fun, kept?.retcode, kept?.success], [fun, retcode, success]);
      t.is(canonical(kept?.return ?? null), canonical(load.return ?? null), text(vector.name));
    }
  });
}

test('a recorded failed state fires the events of the failure before the return', async (t) => {
  const master = await startVectorMaster(t, { prepare: publishRecordedJobs });
  const [failed] = published.filter(({ name }) => text(name).startsWith('state run failed'));
  if (failed === undefined) return t.fail('no such case');
  const events = await master.eventsDuring(() => master.ask(base64(failed.request_b64)));
  const { jid } = loadOf(failed);
  t.deepEqual(
    events.map(({ tag }) => tag),
    [
      'test.fail_without_changes',
      `salt/job/${jid}/sub/${keys.minionId}/error/state.sls`,
      `salt/job/${jid}/ret/${keys.minionId}`,
    ],
  );
});

for (const [version, vectors] of byVersion(selfMade)) {
  test(`a self-made job that was recorded in protocol ${version} gets a job id of the master`, async (t) => {
    const master = await startVectorMaster(t);
    for (const vector of vectors) {
      const events = await master.eventsDuring(() => master.ask(base64(vector.request_b64)));
      const [event] = events;
      t.is(events.length, 1, text(vector.name));
      t.regex(event?.tag ?? '', /^salt\/job\/202311142213\d{8}\/ret\/vecminion$/);
      const [recorded] = cases(vector, 'events_fired');
      const { jid: _jid, ...data } = loadOf({ request_load: recorded?.data ?? null });
      const { jid, _stamp, ...fired } = event?.data ?? {};
      t.is(canonicalWire(fired), canonicalWire(data), text(vector.name));
      const record = await jobsIn(master.store).record(String(jid));
      t.true(record?.selfMade);
      t.deepEqual(record?.minions, [keys.minionId]);
    }
  });
}

async function keptReturns(store: Store, jid: string): Promise<JobReturn[]> {
  const returns: JobReturn[] = [];
  for await (const result of jobsIn(store).returns(jid)) returns.push(result);
  return returns;
}

function jobsIn(store: Store): JobCache {
  const now = (): number => RECORDED_AT;
  return new JobCache({ store, isOn: true, keepMs: 86_400_000, keepMarksMs: 1, now });
}

async function publishRecordedJobs(store: Store): Promise<void> {
  for (const vector of published) {
    const { jid, fun } = loadOf(vector);
    await jobsIn(store).add({
      jid: String(jid),
      fun: String(fun),
      arg: [],
      tgt: '*',
      tgtType: 'glob',
      user: 'root',
      minions: [keys.minionId],
      missing: [],
      publishedAt: RECORDED_AT,
      selfMade: false,
    });
  }
}

function comparable({ tag, data }: { tag: string; data: WireMap }): unknown {
  const { _stamp, ...rest } = data;
  return { tag, data: canonicalWire(rest) };
}

function recordedEvents(vector: JsonObject): unknown[] {
  return cases(vector, 'events_fired').map(({ tag, data }) => ({
    tag,
    data: canonicalWire(toWireValue(data)),
  }));
}
