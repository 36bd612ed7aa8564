/** A return that cannot be kept: minions take any answer for an acknowledgement. */
import test from 'ava';
import { JobCache } from '../../../master/jobs/job-cache.ts';
import { TransportError } from '../../../minion-protocol/index.ts';
import { createMemoryStore, type Store, StoreError } from '../../../store/index.ts';
import { RECORDED_AT, startVectorMaster } from '../../helpers/vector-master.ts';
import { loadOf, openReply, recorded } from '../../helpers/vector-requests.ts';
import { base64, cases, keys, vectorFile } from '../../helpers/vectors.ts';

const [vector] = cases(vectorFile('return'), 'cases').filter(
  (it) => it.version === 3 && loadOf(it).jid !== 'req',
);
const startEvent = recorded('minion_event', 'start event v3');

/** A store that keeps nothing new while `isFull`. */
function fillableStore(): { readonly store: Store; isFull: boolean } {
  const memory = createMemoryStore({ now: () => RECORDED_AT });
  const disk = {
    isFull: false,
    store: new Proxy(memory, {
      get(target, name) {
        if (name === 'write' && disk.isFull) {
          return async () => {
            throw new StoreError('ERR_STORE_FULL', 'full');
          };
        }
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    }),
  };
  return disk;
}

test('a return that cannot be kept has no answer and no event; sent again, it is kept', async (t) => {
  if (vector === undefined) return t.fail('no recorded return');
  const { jid, fun } = loadOf(vector);
  const disk = fillableStore();
  const master = await startVectorMaster(t, {
    store: disk.store,
    prepare: async (store) => {
      const cache = new JobCache({
        store,
        isOn: true,
        keepMs: 86_400_000,
        keepMarksMs: 1,
        now: () => RECORDED_AT,
      });
      await cache.add({
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
    },
  });
  // The first request proves the version, which is kept as well.
  t.is(openReply(startEvent, await master.ask(base64(startEvent.request_b64))), null);
  const request = base64(vector.request_b64);
  disk.isFull = true;
  const events = await master.eventsDuring(async () => {
    const unanswered = { instanceOf: TransportError, code: 'ERR_TIMEOUT' };
    await t.throwsAsync(master.ask(request), unanswered);
  });
  t.deepEqual(events, []);
  t.is((await master.counters())['return-not-kept'], 1);
  t.deepEqual((await master.master.jobs.show(String(jid))).returns, []);
  disk.isFull = false;
  t.is(openReply(vector, await master.ask(request)), null);
  t.is((await master.master.jobs.show(String(jid))).returns.length, 1);
});

test('a minion that proves its version while nothing can be kept is served', async (t) => {
  const disk = fillableStore();
  const master = await startVectorMaster(t, { store: disk.store });
  disk.isFull = true;
  t.is(openReply(startEvent, await master.ask(base64(startEvent.request_b64))), null);
});
