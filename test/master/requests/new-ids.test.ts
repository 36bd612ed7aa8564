/** Which ids minions may be new under, and what is told of those that are easily taken for others. */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import type { MasterOptions } from '../../../master/index.ts';
import {
  createMinionHandshake,
  generateKeyString,
  parsePrivateKey,
} from '../../../minion-protocol/index.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';

const { publicPem, privatePem } = pem('minion');
const privateKey = parsePrivateKey(privatePem);

/** What a minion of this id is told. */
async function signIn({ dial }: VectorMaster, id: string): Promise<string> {
  const token = generateKeyString();
  const handshake = createMinionHandshake({ id, version: 3, privateKey, publicPem, token });
  return handshake.step(await dial('somebody').request(handshake.request(), 45_000)).state;
}

const unusual = [
  '*',
  'atk-*',
  '[a]',
  '{a,b}',
  'a b',
  'a\u200bb',
  'a\u202eb',
  'e\u0301',
  '-a',
  'a..b',
];

test('an id that means others as a target, or looks like another one, is refused', async (t) => {
  const config: Partial<MasterOptions> = { autoAccept: true };
  const master = await startVectorMaster(t, { keys: [], config });
  for (const id of unusual) t.is(await signIn(master, id), 'refused', JSON.stringify(id));
  t.deepEqual(await master.master.keys.list(), []);
  t.is((await master.counters())['auth-ERR_BAD_ID'], unusual.length);
  t.is(await signIn(master, 'web-1.example.org'), 'accepted');
});

test('with minion_ids: salt an id is whatever Salt takes', async (t) => {
  const master = await startVectorMaster(t, { keys: [], config: { minionIds: 'salt' } });
  for (const id of unusual) t.is(await signIn(master, id), 'pending', JSON.stringify(id));
});

test('an id that was accepted before goes on working, and is marked; one that waited is not accepted', async (t) => {
  const keys = [
    { directory: 'minions', id: 'old *', publicPem },
    { directory: 'minions_pre', id: 'new *', publicPem: pem('minion2').publicPem },
  ] as const;
  const master = await startVectorMaster(t, { keys });
  t.is(await signIn(master, 'old *'), 'accepted');
  const listed = await master.master.keys.list();
  t.deepEqual(
    listed.map(({ id, isUnusual }) => [id, isUnusual]),
    [
      ['old *', true],
      ['new *', true],
    ],
  );
  const accepting = master.master.keys.accept({ match: 'new *' });
  await t.throwsAsync(accepting, { code: 'ERR_KEY_ID', message: /"new \*": expected 1 to 128/ });
  const refused = master.master.keys.create({ id: 'a*' });
  await t.throwsAsync(refused, { code: 'ERR_KEY_ID', message: /minion_ids/ });
  t.is((await master.master.keys.delete({ match: 'new [*]' })).length, 1);
});

test('ids that differ in case only, and ids with one key, are taken and marked', async (t) => {
  const master = await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: 'web-1', publicPem },
      { directory: 'minions', id: 'db-1', publicPem: pem('minion2').publicPem },
    ],
  });
  t.is(await signIn(master, 'WEB-1'), 'pending');
  t.is(await signIn(master, 'new-1'), 'pending');
  const marks = (await master.master.keys.list()).map(({ id, alike, sharedWith }) => ({
    id,
    alike,
    sharedWith,
  }));
  t.deepEqual(marks, [
    { id: 'db-1', alike: undefined, sharedWith: undefined },
    { id: 'web-1', alike: undefined, sharedWith: undefined },
    { id: 'WEB-1', alike: ['web-1'], sharedWith: ['web-1'] },
    { id: 'new-1', alike: undefined, sharedWith: ['web-1'] },
  ]);
});

test('a file that somebody puts among the accepted keys is an accepted id', async (t) => {
  const master = await startVectorMaster(t, { keys: [] });
  await master.master.close();
  const folder = path.join(master.directory, 'pki', 'minions');
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'old *'), publicPem);
  const next = await startVectorMaster(t, { directory: master.directory });
  t.is(await signIn(next, 'old *'), 'accepted');
});
