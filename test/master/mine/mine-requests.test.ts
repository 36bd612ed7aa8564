/** The mine's requests as minions send them. */
import test from 'ava';
import type { WireValue } from '../../../minion-protocol/index.ts';
import { createMemoryStore } from '../../../store/index.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { canonicalWire, pem } from '../../helpers/vectors.ts';

async function ask(
  { ask }: VectorMaster,
  name: string,
  load: Record<string, WireValue | undefined> = {},
): Promise<string> {
  const vector = recorded('aes_functions', name);
  const nonce = freshNonce();
  return canonicalWire(
    openReply(vector, await ask(altered(vector, { load: { ...load, nonce } })), nonce),
  );
}

test('a minion cannot write to the mine of another', async (t) => {
  const other = { directory: 'minions', id: 'other', publicPem: pem('minion').publicPem } as const;
  const own = { ...other, id: 'vecminion' };
  const master = await startVectorMaster(t, { keys: [own, other] });
  const request = altered(recorded('aes_functions', '_mine v3'), { load: { id: 'other' } });
  await master.ask(request);
  const entries: unknown[] = [];
  for await (const entry of master.store.list(['mine'])) entries.push(entry);
  t.deepEqual(entries, []);
});

test('what a minion takes out of its mine is gone', async (t) => {
  const master = await startVectorMaster(t);
  await ask(master, '_mine v3');
  await ask(master, '_mine_delete v3');
  t.is(await ask(master, '_mine_get one function v3'), canonicalWire({}));
  const two = await ask(master, '_mine_get two functions v3');
  t.is(two, canonicalWire({ 'network.ip_addrs': { vecminion: ['192.0.2.10'] } }));
  await ask(master, '_mine_flush v3');
  t.is(await ask(master, '_mine_get two functions v3'), canonicalWire({}));
});

test('the mine is kept when the master starts anew', async (t) => {
  const store = createMemoryStore();
  const first = await startVectorMaster(t, { store });
  await ask(first, '_mine v3');
  const { directory } = first;
  await first.master.close();
  const second = await startVectorMaster(t, { store, directory });
  t.is(await ask(second, '_mine_get one function v3'), canonicalWire({ vecminion: true }));
});

test('a mine goes with the key of its minion', async (t) => {
  const master = await startVectorMaster(t);
  await ask(master, '_mine v3');
  const { store } = master;
  const count = async (): Promise<number> => {
    let entries = 0;
    for await (const _entry of store.list(['mine'])) entries += 1;
    return entries;
  };
  t.is(await count(), 2);
  const changes = store.watch(['mine'], new AbortController().signal)[Symbol.asyncIterator]();
  await master.master.keys.delete({ match: 'vecminion' });
  await changes.next();
  await changes.next();
  t.is(await count(), 0);
});

test('too much for a mine is counted and told', async (t) => {
  const master = await startVectorMaster(t);
  const data = { big: 'x'.repeat(70_000), small: 1 };
  t.is(await ask(master, '_mine v3', { data }), canonicalWire(false));
  t.is((await master.counters())['mine-bytes'], 1);
  const got = await ask(master, '_mine_get one function v3', { fun: 'small' });
  t.is(got, canonicalWire({ vecminion: 1 }));
});

test('without minion data nothing is kept, unless enforce_mine_cache says so', async (t) => {
  const off = await startVectorMaster(t, { config: { minionDataCache: false } });
  t.is(await ask(off, '_mine v3'), canonicalWire(true));
  t.is(await ask(off, '_mine_get one function v3'), canonicalWire({}));
  const enforced = await startVectorMaster(t, {
    config: { minionDataCache: false, enforceMineCache: true },
  });
  await ask(enforced, '_mine v3');
  const found = await ask(enforced, '_mine_get one function v3');
  t.is(found, canonicalWire({ vecminion: true }));
});

test('older minions name the type of their target otherwise', async (t) => {
  const master = await startVectorMaster(t);
  await ask(master, '_mine v3');
  const load = { tgt: 'vecminion,x', tgt_type: undefined, expr_form: 'list' };
  const found = await ask(master, '_mine_get one function v3', load);
  t.is(found, canonicalWire({ vecminion: true }));
});

for (const [what, load] of Object.entries({
  'no target': { tgt: undefined },
  'a target that is a map': { tgt: { a: 1 } },
  'functions that are a number': { fun: 5 },
  'an unknown type': { tgt_type: 'range' },
})) {
  test(`${what} finds nothing`, async (t) => {
    const master = await startVectorMaster(t);
    await ask(master, '_mine v3');
    t.is(await ask(master, '_mine_get one function v3', load), canonicalWire({}));
  });
}
