/** Keys through the wheel, under Salt's names. */
import { userInfo } from 'node:os';
import test from 'ava';
import type { Master } from '../../../master/index.ts';
import type { WireMap, WireValue } from '../../../minion-protocol/index.ts';
import { type StoredKey, startVectorMaster } from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';

const { publicPem } = pem('minion');
const keys: readonly StoredKey[] = (
  [
    ['minions', 'web1'],
    ['minions_pre', 'web2'],
    ['minions_pre', 'db1'],
    ['minions_rejected', 'old1'],
  ] as const
).map(([directory, id]) => ({ directory, id, publicPem }));

async function wheel(master: Master, fun: string, kwarg: WireMap = {}): Promise<WireValue> {
  const { return: value, success } = await master.wheel.run({ fun, kwarg });
  return success ? JSON.parse(JSON.stringify(value)) : { failed: value };
}

test('keys are listed by state', async (t) => {
  const { master } = await startVectorMaster(t, { keys });
  t.deepEqual(await wheel(master, 'key.list_all'), {
    minions: ['web1'],
    minions_pre: ['db1', 'web2'],
    minions_rejected: ['old1'],
    minions_denied: [],
    local: ['master.pem', 'master.pub'],
  });
  t.deepEqual(await wheel(master, 'key.list', { match: 'un' }), { minions_pre: ['db1', 'web2'] });
  t.deepEqual(await wheel(master, 'key.list', { match: 'nothing' }), {});
  t.deepEqual(await wheel(master, 'key.name_match', { match: 'web*,old?' }), {
    minions: ['web1'],
    minions_pre: ['web2'],
    minions_rejected: ['old1'],
  });
});

test('keys are accepted, rejected and deleted by glob', async (t) => {
  const { master } = await startVectorMaster(t, { keys });
  t.deepEqual(await wheel(master, 'key.accept', { match: 'web*' }), { minions: ['web1', 'web2'] });
  t.deepEqual(await wheel(master, 'key.reject', { match: 'db1' }), { minions_rejected: ['db1'] });
  const all = { match: '*1', include_rejected: true };
  t.deepEqual(await wheel(master, 'key.accept', all), { minions: ['db1', 'old1', 'web1'] });
  t.deepEqual(await wheel(master, 'key.delete', { match: 'web*,db*' }), {});
  t.deepEqual(await wheel(master, 'key.list', { match: 'acc' }), { minions: ['old1'] });
});

test('a map names keys by state; those that are in another are left alone', async (t) => {
  const { master } = await startVectorMaster(t, { keys });
  const match = { minions_pre: ['web2', 'web1'], minions_rejected: ['old1'] };
  t.deepEqual(await wheel(master, 'key.accept_dict', { match }), {
    minions: ['web2'],
    minions_rejected: ['old1'],
  });
  const doomed = { minions: ['web1'], minions_pre: ['web2'] };
  t.deepEqual(await wheel(master, 'key.delete_dict', { match: doomed }), {});
  t.deepEqual(await wheel(master, 'key.list', { match: 'acc' }), { minions: ['web2'] });
  const strange = { match: { minions_pre: 'db1' } };
  t.like(await wheel(master, 'key.reject_dict', strange), {
    failed: 'Exception occurred in wheel key.reject_dict: match: minions_pre has no list of ids',
  });
});

test('a map acts on the folder that it names, also where the id has a key in another', async (t) => {
  const other = pem('other_minion').publicPem;
  const denied: StoredKey = { directory: 'minions_denied', id: 'web1', publicPem: other };
  const waiting: StoredKey = { directory: 'minions_denied', id: 'web2', publicPem: other };
  const { master } = await startVectorMaster(t, { keys: [...keys, denied, waiting] });
  const dropped = { match: { minions_denied: ['web1'] } };
  t.deepEqual(await wheel(master, 'key.delete_dict', dropped), { minions: ['web1'] });
  t.deepEqual(await wheel(master, 'key.delete_dict', dropped), {});
  const accepted = { match: { minions_denied: ['web2'] }, include_denied: true };
  t.deepEqual(await wheel(master, 'key.accept_dict', accepted), { minions: ['web2'] });
  t.is((await master.keys.list()).find(({ id }) => id === 'web2')?.publicKey, other);
});

test('of two keys of one id a map deletes or rejects the one that it names', async (t) => {
  const other = pem('other_minion').publicPem;
  const denied = ['web1', 'web2'].map((id) => ({
    directory: 'minions_denied' as const,
    id,
    publicPem: other,
  }));
  const { master } = await startVectorMaster(t, { keys: [...keys, ...denied] });
  const deleted = { match: { minions: ['web1'] } };
  t.deepEqual(await wheel(master, 'key.delete_dict', deleted), { minions_denied: ['web1'] });
  const rejected = { match: { minions_pre: ['web2'] }, include_denied: true };
  t.deepEqual(await wheel(master, 'key.reject_dict', rejected), {
    minions_rejected: ['web2'],
    minions_denied: ['web2'],
  });
});

test('keys and fingerprints are shown', async (t) => {
  const { master } = await startVectorMaster(t, { keys });
  const listed = (await master.keys.list()).find(({ id }) => id === 'web1');
  t.deepEqual(await wheel(master, 'key.print', { match: 'web1' }), {
    minions: { web1: listed?.publicKey },
  });
  t.deepEqual(await wheel(master, 'key.finger', { match: 'web1' }), {
    minions: { web1: listed?.fingerprint },
  });
  const short = await wheel(master, 'key.finger', { match: 'web1', hash_type: 'md5' });
  t.regex(JSON.stringify(short), /"([0-9a-f]{2}:){15}[0-9a-f]{2}"/);
  const [own] = await master.keys.local();
  t.deepEqual(await wheel(master, 'key.finger_master'), {
    local: { 'master.pub': own?.fingerprint },
  });
  t.regex(JSON.stringify(await wheel(master, 'key.master_key_str')), /BEGIN PUBLIC KEY/);
});

test('options are shown under the names of Salt, and no secret among them', async (t) => {
  const peer = { '.*': [{ 'web*': ['test.ping'] }] };
  const { master } = await startVectorMaster(t, { keys, config: { peer, timeout: 7 } });
  const values = await wheel(master, 'config.values');
  t.like(values, { timeout: 7, peer, minion_data_cache: true });
  t.like(values, { token_expire: 43_200, state_output: 'full', user: userInfo().username });
  t.false(Object.hasOwn(values as object, 'key_pass'));
});

test('with a fingerprint, only the key that was seen is accepted or rejected', async (t) => {
  const { master } = await startVectorMaster(t, { keys });
  const [key] = await master.keys.list({ state: 'pending' });
  const fingerprint = key?.fingerprint ?? '';
  const another = fingerprint.replace(/^../, (first) => (first === '00' ? '11' : '00'));
  for (const fun of ['key.accept', 'key.reject']) {
    const refused = await wheel(master, fun, { match: 'db1', fingerprint: another });
    t.regex(JSON.stringify(refused), /failed/);
    t.deepEqual(await wheel(master, 'key.name_match', { match: 'db1' }), { minions_pre: ['db1'] });
  }
  await wheel(master, 'key.reject', { match: 'db1', fingerprint });
  t.deepEqual(await wheel(master, 'key.name_match', { match: 'db1' }), {
    minions_rejected: ['db1'],
  });
});
