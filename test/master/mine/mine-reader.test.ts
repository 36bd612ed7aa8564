/** Who may read what in the mine [THREATS M-11]. */
import test from 'ava';
import { allow } from '../../../acl/index.ts';
import { rulesOf } from '../../../master/config/policy-rules.ts';
import { MineReader, type MineReaderOptions, MineStore } from '../../../master/data/mine.ts';
import { resolveMasterConfig } from '../../../master/index.ts';
import { TargetResolver } from '../../../master/jobs/targets.ts';
import { factsOf, type WireMap, type WireValue } from '../../../minion-protocol/index.ts';
import { createMemoryStore } from '../../../store/index.ts';
import { gateOf, policyOf } from '../../helpers/policies.ts';

/** `db3` is one of whom nothing is known. */
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
  const query = { target: { tgt, tgtType }, funs: [fun], isByFunction: false };
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
  test(`a mine is asked by ${tgtType} ${tgt}`, async (t) => {
    const { reader } = await startMine({ gate: gateOf(policyOf([showing])) });
    t.deepEqual(Object.keys(await read(reader, 'web1', tgt, tgtType)).sort(), [...owners]);
  });
}

test('a mine is not asked by pillar unless a rule shows it', async (t) => {
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

test('whose mine may not be read is not looked at', async (t) => {
  const asked: string[] = [];
  const rule = allow('own', { ...showing, resource: { ...showing.resource, owner: 'web*' } });
  const { reader } = await startMine({ gate: gateOf(policyOf([rule])) }, asked);
  const found = await read(reader, 'web1', 'G@role:* or I@tier:back', 'compound');
  t.deepEqual(Object.keys(found), ['web1', 'web2']);
  t.deepEqual([...new Set(asked)], ['web1', 'web2']);
});

test('no pattern finds out what is in the pillar of another', async (t) => {
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

test('expressions that may not end are not run for minions', async (t) => {
  const { reader } = await startMine();
  t.deepEqual(await read(reader, 'web1', '(?=web).*', 'pcre'), { refused: 'mine-target' });
});

for (const [allow, type, readers] of [
  ['web1', undefined, ['web1']],
  ['web*', 'glob', ['web1', 'web2']],
  ['web1,db3', 'list', ['db3', 'web1']],
  ['I@tier:front', 'compound', ['web1', 'web2']],
  ['tier:back', 'pillar', ['db1']],
  // Any minion can claim the grain.
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
  test(`allow_tgt ${allow} as ${type ?? 'glob'} lets ${readers.join(' and ') || 'nobody'} read`, async (t) => {
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

test('mine_trusts_grains gives rights by grains, as Salt does', async (t) => {
  const { mine, reader } = await startMine({ trustsGrains: true });
  await mine.update('db1', { data: { x: wrapped('role:web', 'grain') }, clear: false }, undefined);
  t.deepEqual(await read(reader, 'web1', 'db1', 'glob', 'x'), { db1: 'secret' });
  t.deepEqual(await read(reader, 'db3', 'db1', 'glob', 'x'), {});
});

test('what is no target lets nobody read', async (t) => {
  const { mine, reader } = await startMine();
  await mine.update('db1', { data: { x: wrapped({ a: 'web1' }) }, clear: false }, undefined);
  t.deepEqual(await read(reader, 'web1', 'db1', 'glob', 'x'), {});
});

test('values that are wrapped without a target are for everybody', async (t) => {
  const { mine, reader } = await startMine();
  const data = { x: { __data__: 1, __saltmine_acl__: 1 } };
  await mine.update('db1', { data, clear: false }, undefined);
  t.deepEqual(await read(reader, 'web1', 'db1', 'glob', 'x'), { db1: 1 });
});

test('functions that mine_get does not name are not there', async (t) => {
  const mineGet = { 'web.*': ['test.*'] };
  const policy = policyOf(rulesOf(resolveMasterConfig({ mineGet })));
  const { reader } = await startMine({ gate: gateOf(policy) });
  t.deepEqual(await read(reader, 'web1', 'web2', 'glob'), { web2: 'web2' });
  t.deepEqual(await read(reader, 'db1', 'web2', 'glob'), {});
});

test('an answer that would be too large is not given', async (t) => {
  const { reader } = await startMine({ maxBytes: 8 });
  t.deepEqual(await read(reader, 'web1', '*', 'glob'), { refused: 'mine-reply-bytes' });
});

test('a request names a hundred functions at most', async (t) => {
  const { reader } = await startMine();
  const funs = Array.from({ length: 101 }, (_, index) => `f${index}`);
  const query = { target: { tgt: '*' }, funs, isByFunction: true };
  t.deepEqual(await reader.read('web1', query), { ok: false, reason: 'mine-functions' });
});
