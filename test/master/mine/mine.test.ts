/** Requests of minions to the mine. */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import fc from 'fast-check';
import { allow } from '#acl';
import { resolveMasterConfig, rulesOf } from '#config';
import { createSilentLogger } from '#master';
import { TargetResolver } from '#master/jobs/targets.ts';
import { RequestCounters } from '#master/metrics/index.ts';
import { factsOf, packLocal, type WireMap, type WireValue } from '#minion-protocol';
import { FairSlots } from '#runtime';
import { saltLimits } from '#salt/limits.ts';
import { takeOverMines } from '#salt/mine/import-mines.ts';
import { MineReader, type MineReaderOptions } from '#salt/mine/mine-reader.ts';
import { mineRequests } from '#salt/mine/mine-requests.ts';
import { MineStore, type MineStoreOptions } from '#salt/mine/mine-store.ts';
import { createMemoryStore } from '#store';
import { tries } from '../../helpers/effort.ts';
import { gateOf, policyOf } from '../../helpers/policies.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
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

test('a minion can delete values from its mine', async (t) => {
  const master = await startVectorMaster(t);
  await ask(master, '_mine v3');
  await ask(master, '_mine_delete v3');
  t.is(await ask(master, '_mine_get one function v3'), canonicalWire({}));
  const two = await ask(master, '_mine_get two functions v3');
  t.is(two, canonicalWire({ 'network.ip_addrs': { vecminion: ['192.0.2.10'] } }));
  await ask(master, '_mine_flush v3');
  t.is(await ask(master, '_mine_get two functions v3'), canonicalWire({}));
});

test('the mine survives a restart of the master', async (t) => {
  const store = createMemoryStore();
  const first = await startVectorMaster(t, { store });
  await ask(first, '_mine v3');
  const { directory } = first;
  await first.master.close();
  const second = await startVectorMaster(t, { store, directory });
  t.is(await ask(second, '_mine_get one function v3'), canonicalWire({ vecminion: true }));
});

test('a mine is removed with the key of its minion', async (t) => {
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

test('an update of the mine has no effect if the key is deleted while its targets are checked', async (t) => {
  const { mine, reader } = await startMine();
  const accepted = new Set(['m1']);
  const requests = mineRequests({
    mine,
    reader,
    targets: { isStorable: () => accepted.delete('m1') },
    counters: new RequestCounters(),
  });
  await requests._mine?.handler({
    ...{ minionId: 'm1', isProven: true, isKeyCurrent: () => accepted.has('m1'), version: 3 },
    ...{ nonce: undefined, ts: undefined, address: '192.0.2.1', bytes: 100 },
    ...{ mac: Buffer.alloc(32), packed: Buffer.alloc(0) },
    load: { cmd: '_mine', data: { secret: wrapped('*') } },
    encAlgo: 'OAEP-SHA1',
    sigAlgo: 'PKCS1v15-SHA1',
  });
  t.deepEqual(await mine.all('m1'), {});
});

test('an oversized mine is counted and reported', async (t) => {
  const master = await startVectorMaster(t);
  const data = { big: 'x'.repeat(70_000), small: 1 };
  t.is(await ask(master, '_mine v3', { data }), canonicalWire(false));
  t.is((await master.counters())['mine-bytes'], 1);
  const got = await ask(master, '_mine_get one function v3', { fun: 'small' });
  t.is(got, canonicalWire({ vecminion: 1 }));
});

test('without minion data the mine is not stored, unless enforce_mine_cache is set', async (t) => {
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

test('older minions send the target type in another field', async (t) => {
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

// The minions that may read each part of the mine [THREATS M-11].

/** Known grains and pillar. Nothing is known about `db3`. */
const facts = new Map<string, { grains: WireMap; pillar: WireMap }>([
  ['web1', { grains: { role: 'web', ipv4: ['10.0.0.1'] }, pillar: { tier: 'front', key: 'abc' } }],
  ['web2', { grains: { role: 'web', ipv4: ['10.0.0.2'] }, pillar: { tier: 'front', key: 'abd' } }],
  ['db1', { grains: { role: 'db', ipv4: ['10.0.1.1'] }, pillar: { tier: 'back', key: 'xyz' } }],
]);
const ids = [...facts.keys(), 'db3'].sort();

function wrapped(allow_tgt: WireValue, allow_tgt_type?: string): WireMap {
  const type = allow_tgt_type === undefined ? {} : { allow_tgt_type };
  return { __data__: 'secret', __saltmine_acl__: 1, allow_tgt, ...type };
}

const showing = allow('mine', {
  subject: { minion: '*' },
  action: 'mine',
  resource: { fun: '*', facts: 'pillar' },
});

async function startMine(
  options: Partial<MineReaderOptions> = {},
  asked: string[] = [],
): Promise<{ mine: MineStore; reader: MineReader }> {
  const store = createMemoryStore();
  const bounds = { maxBytes: 1_000_000, maxValueBytes: 65_536, keepMarksMs: 60_000 };
  const mine = new MineStore({ store, isOn: true, ...bounds, now: () => 0 });
  const targets = new TargetResolver({
    acceptedIds: () => ids,
    isAccepted: (id) => ids.includes(id),
    factsOf: (id) => {
      asked.push(id);
      const known = facts.get(id);
      return known === undefined
        ? { grains: undefined, pillar: undefined }
        : { grains: factsOf(known.grains), pillar: factsOf(known.pillar) };
    },
    isDataCached: true,
    nodegroups: { fronts: 'web*' },
  });
  const all = {
    mine,
    targets,
    gate: gateOf(policyOf(rulesOf(resolveMasterConfig()))),
    slots: new FairSlots(saltLimits.mineQueries),
    trustsGrains: false,
    maxBytes: 1_000_000,
  };
  for (const id of ids) await mine.update(id, { data: { 'test.id': id }, clear: false }, undefined);
  return { mine, reader: new MineReader({ ...all, ...options }) };
}

async function read(
  reader: MineReader,
  readerId: string,
  tgt: string,
  tgtType: string,
  fun = 'test.id',
): Promise<WireMap> {
  const query = { target: { tgt, tgtType }, fun };
  const answer = await reader.read(readerId, query);
  return answer.ok ? answer.value : { refused: answer.reason };
}

for (const [tgtType, tgt, owners] of [
  ['glob', 'web*', ['web1', 'web2']],
  ['list', 'db1,web2,none', ['db1', 'web2']],
  ['pcre', 'web[12]', ['web1', 'web2']],
  ['grain', 'role:web', ['web1', 'web2']],
  ['grain_pcre', 'role:d.*', ['db1']],
  ['pillar', 'tier:back', ['db1']],
  ['pillar_exact', 'tier:front', ['web1', 'web2']],
  ['ipcidr', '10.0.0.0/24', ['web1', 'web2']],
  ['compound', 'G@role:web and not web2', ['web1']],
  ['compound', 'I@tier:back or E@web1', ['db1', 'web1']],
  ['nodegroup', 'fronts', ['web1', 'web2']],
] as const) {
  test(`a mine can be read by ${tgtType} ${tgt}`, async (t) => {
    const { reader } = await startMine({ gate: gateOf(policyOf([showing])) });
    t.deepEqual(Object.keys(await read(reader, 'web1', tgt, tgtType)).sort(), [...owners]);
  });
}

test('a mine cannot be read by pillar unless a rule shows it', async (t) => {
  const { reader } = await startMine();
  for (const [tgtType, tgt] of [
    ['pillar', 'tier:back'],
    ['pillar_exact', 'tier:front'],
    ['compound', 'not I@tier:back'],
  ] as const) {
    t.deepEqual(await read(reader, 'web1', tgt, tgtType), {}, tgt);
  }
  const both = await read(reader, 'web1', 'web2 or I@tier:back', 'compound');
  t.deepEqual(Object.keys(both), ['web2']);
});

test('a mine without read permission is not read from the store', async (t) => {
  const asked: string[] = [];
  const rule = allow('own', { ...showing, resource: { ...showing.resource, owner: 'web*' } });
  const { reader } = await startMine({ gate: gateOf(policyOf([rule])) }, asked);
  const found = await read(reader, 'web1', 'G@role:* or I@tier:back', 'compound');
  t.deepEqual(Object.keys(found), ['web1', 'web2']);
  t.deepEqual([...new Set(asked)], ['web1', 'web2']);
});

test('no pattern reveals the pillar of another minion', async (t) => {
  const { reader } = await startMine({ gate: gateOf(policyOf([showing])) });
  for (const [tgtType, tgt] of [
    ['pillar', 'key:x*'],
    ['pillar_pcre', 'key:x.*'],
    ['compound', 'I@key:x*'],
    ['compound', 'J@key:x.*'],
  ] as const) {
    t.deepEqual(Object.keys(await read(reader, 'web1', tgt, tgtType)), [], tgt);
  }
});

test('expressions that may not terminate are not run for minions', async (t) => {
  const { reader } = await startMine();
  t.deepEqual(await read(reader, 'web1', '(?=web).*', 'pcre'), { refused: 'mine-target' });
});

for (const [allow, type, readers] of [
  ['web1', undefined, ['web1']],
  ['web*', 'glob', ['web1', 'web2']],
  ['web1,db3', 'list', ['db3', 'web1']],
  ['I@tier:front', 'compound', ['web1', 'web2']],
  ['tier:back', 'pillar', ['db1']],
  // Any minion can claim this grain.
  ['role:web', 'grain', []],
  ['G@role:web', 'compound', []],
  ['not G@role:web', 'compound', []],
  ['10.0.0.0/8', 'ipcidr', []],
  ['G@role:web or db1', 'compound', ['db1']],
  ['web* and not G@role:db', 'compound', ['web1', 'web2']],
  ['* and G@role:db', 'compound', ['db1']],
  ['nobody', 'glob', []],
  ['*', 'no-such-type', []],
] as const) {
  test(`allow_tgt ${allow} as ${type ?? 'glob'} permits ${readers.join(' and ') || 'no minion'} to read`, async (t) => {
    const { mine, reader } = await startMine();
    const data = { guarded: wrapped(allow, type) };
    await mine.update('db1', { data, clear: false }, undefined);
    const found: string[] = [];
    for (const id of ids) {
      const answer = await read(reader, id, 'db1', 'glob', 'guarded');
      if (answer.db1 === 'secret') found.push(id);
      else t.deepEqual(Object.keys(answer), []);
    }
    t.deepEqual(found, [...readers]);
  });
}

test('mine_trusts_grains grants rights by grains, as in Salt', async (t) => {
  const { mine, reader } = await startMine({ trustsGrains: true });
  await mine.update('db1', { data: { x: wrapped('role:web', 'grain') }, clear: false }, undefined);
  t.deepEqual(await read(reader, 'web1', 'db1', 'glob', 'x'), { db1: 'secret' });
  t.deepEqual(await read(reader, 'db3', 'db1', 'glob', 'x'), {});
});

test('an invalid target lets no minion read', async (t) => {
  const { mine, reader } = await startMine();
  await mine.update('db1', { data: { x: wrapped({ a: 'web1' }) }, clear: false }, undefined);
  t.deepEqual(await read(reader, 'web1', 'db1', 'glob', 'x'), {});
});

test('wrapped values without a target are readable by all minions', async (t) => {
  const { mine, reader } = await startMine();
  const data = { x: { __data__: 1, __saltmine_acl__: 1 } };
  await mine.update('db1', { data, clear: false }, undefined);
  t.deepEqual(await read(reader, 'web1', 'db1', 'glob', 'x'), { db1: 1 });
});

test('functions not named by mine_get are not in the result', async (t) => {
  const mineGet = { 'web.*': ['test.*'] };
  const policy = policyOf(rulesOf(resolveMasterConfig({ mineGet })));
  const { reader } = await startMine({ gate: gateOf(policy) });
  t.deepEqual(await read(reader, 'web1', 'web2', 'glob'), { web2: 'web2' });
  t.deepEqual(await read(reader, 'db1', 'web2', 'glob'), {});
});

test('an oversized reply is not sent', async (t) => {
  const { reader } = await startMine({ maxBytes: 8 });
  t.deepEqual(await read(reader, 'web1', '*', 'glob'), { refused: 'mine-reply-bytes' });
});

test('a request names at most a hundred functions', async (t) => {
  const { reader } = await startMine();
  const fun = Array.from({ length: 101 }, (_, index) => `f${index}`);
  const query = { target: { tgt: '*' }, fun };
  t.deepEqual(await reader.read('web1', query), { ok: false, reason: 'mine-functions' });
});

test('a query with long names of functions is refused before its text is split', async (t) => {
  const { reader } = await startMine();
  const target = { tgt: '*' };
  const refusal = { ok: false, reason: 'mine-functions' } as const;
  // Each of these texts has few different names.
  const repeated = 'test.id,'.repeat(1249);
  t.true((await reader.read('web1', { target, fun: `${repeated}test.id` })).ok);
  t.deepEqual(await reader.read('web1', { target, fun: `${repeated}test.id,test.id` }), refusal);
  const long = 'x'.repeat(10_000);
  t.true((await reader.read('web1', { target, fun: [long] })).ok);
  t.deepEqual(await reader.read('web1', { target, fun: [long, 'y'] }), refusal);
});

function openMine(options: Partial<MineStoreOptions> = {}): MineStore {
  const store = options.store ?? createMemoryStore({ now: () => 0 });
  const bounds = { maxBytes: 10_000, maxValueBytes: 1000, keepMarksMs: 60_000 };
  return new MineStore({ store, isOn: true, ...bounds, now: () => 0, ...options });
}

test('values are merged, or replaced entirely if clear is set', async (t) => {
  const mine = openMine();
  await mine.update('m', { data: { a: 1, b: 1 }, clear: false }, undefined);
  await mine.update('m', { data: { b: 2 }, clear: false }, undefined);
  t.deepEqual({ ...(await mine.all('m')) }, { a: 1, b: 2 });
  await mine.update('m', { data: { c: 3 }, clear: true }, undefined);
  t.deepEqual({ ...(await mine.all('m')) }, { c: 3 });
  await mine.delete('m', 'c', undefined);
  t.deepEqual({ ...(await mine.all('m')) }, {});
});

test('a minion changes only its own mine', async (t) => {
  const mine = openMine();
  await mine.update('m', { data: { a: 1 }, clear: false }, undefined);
  await mine.update('m2', { data: { a: 2 }, clear: true }, undefined);
  await mine.flush('m2');
  t.deepEqual({ ...(await mine.all('m')) }, { a: 1 });
});

test('the mine is there after a restart', async (t) => {
  const store = createMemoryStore({ now: () => 0 });
  await openMine({ store }).update('m', { data: { a: 1 }, clear: false }, undefined);
  t.deepEqual({ ...(await openMine({ store }).all('m')) }, { a: 1 });
});

test('a repeated request has no effect, whatever happened in between', async (t) => {
  const store = createMemoryStore({ now: () => 0 });
  const first = { data: { a: 'old' }, clear: false };
  await openMine({ store }).update('m', first, 'mark-1');
  const mine = openMine({ store });
  await mine.update('m', { data: { a: 'new' }, clear: false }, 'mark-2');
  await mine.update('m', first, 'mark-1');
  t.deepEqual({ ...(await mine.all('m')) }, { a: 'new' });
});

test('an oversized value is skipped, and the others are stored', async (t) => {
  const mine = openMine();
  const data = { big: 'x'.repeat(2000), small: 1, [`n${'a'.repeat(256)}`]: 1, '': 1 };
  t.deepEqual(
    [...(await mine.update('m', { data, clear: false }, undefined))].map((name) => name.length),
    [3, 257, 0],
  );
  t.deepEqual({ ...(await mine.all('m')) }, { small: 1 });
});

test('a mine never exceeds its limit, for any concurrent writes', async (t) => {
  const value = fc.record({
    fun: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
    size: fc.integer({ min: 0, max: 900 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(value, { maxLength: 30 }), async (writes) => {
      const mine = openMine({ maxBytes: 2000 });
      await Promise.all(
        writes.map(({ fun, size }) =>
          mine.update('m', { data: { [fun]: 'x'.repeat(size) }, clear: false }, undefined),
        ),
      );
      const kept = Object.entries(await mine.all('m'));
      const bytes = kept.reduce((sum, [fun, text]) => sum + fun.length + packLocal(text).length, 0);
      t.true(bytes <= 2000);
    }),
    tries(50),
  );
});

test('the owners are passed to the callback one by one', async (t) => {
  const mine = openMine();
  for (const id of ['a', 'a1', 'b']) {
    await mine.update(id, { data: { x: 1, y: 2, 'z\u{10fffe}': 3 }, clear: false }, undefined);
  }
  const owners: string[] = [];
  for await (const owner of mine.owners()) owners.push(owner);
  t.deepEqual(owners, ['a', 'a1', 'b']);
  await mine.forget('a1');
  t.deepEqual({ ...(await mine.all('a1')) }, {});
});

const fixture = '../../../test/fixtures/minion-data-cache/salt-3007.8-m1-mine.hex';
const recordedMine = Buffer.from(
  readFileSync(new URL(fixture, import.meta.url), 'ascii').replaceAll('\n', ''),
  'hex',
);

test('the mine of a real salt-master is imported once', async (t) => {
  const cachedir = temporaryDirectory(t);
  for (const [id, bytes] of [
    ['m1', recordedMine],
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
