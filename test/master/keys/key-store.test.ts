import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import type { ExecutionContext } from 'ava';
import { type KeyChange, type KeyStore, type KeyStoreOptions, openKeyStore } from '../../../master/auth/key-store.ts';
import { KeyError } from '../../../master/auth/key-errors.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { keyText, plainRules } from './rules.ts';
import path from 'node:path';
import test, {} from 'ava';

const one = keyText('1');
const two = keyText('2');

async function openIn(
  t: ExecutionContext,
  directory: string,
  options: Partial<KeyStoreOptions> = {},
): Promise<KeyStore> {
  const store = await openKeyStore({ directory, rules: plainRules, ...options });
  t.teardown(() => store.close());
  return store;
}

function record(store: KeyStore): KeyChange[] {
  const changes: KeyChange[] = [];
  store.onChange((change) => changes.push(change));
  return changes;
}

/** Names of the directories that hold a file of this id. */
function places(directory: string, id: string): string[] {
  return readdirSync(directory)
    .filter((name) => existsSync(path.join(directory, name, id)))
    .sort();
}

test('a key is pended, accepted, rejected and deleted, on disk before it is told', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openIn(t, directory);
  const seen: unknown[] = [];
  store.onChange(({ act, from, to }) => seen.push([act, from, to, places(directory, 'web')]));
  t.true(await store.pend('web', one));
  await store.accept('web');
  t.is(store.get('web')?.state, 'accepted');
  await store.reject('web', { includeAccepted: true });
  await store.delete('web');
  t.is(store.get('web'), undefined);
  t.deepEqual(seen, [
    ['pend', null, 'pending', ['minions_pre']],
    ['accept', 'pending', 'accepted', ['minions']],
    ['reject', 'accepted', 'rejected', ['minions_rejected']],
    ['delete', 'rejected', null, []],
  ]);
});

test('files are as Salt has them: the text as sent, 0644, in directories of 0700', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'pki', 'master');
  const store = await openIn(t, directory);
  await store.pend('web', one);
  const file = path.join(directory, 'minions_pre', 'web');
  t.is(readFileSync(file, 'utf8'), one);
  t.is(statSync(file).mode & 0o777, 0o644);
  for (const name of ['', ...readdirSync(directory)]) {
    t.is(statSync(path.join(directory, name)).mode & 0o777, 0o700, name);
  }
  t.deepEqual(readdirSync(directory).sort(), [
    'minions',
    'minions_autosign',
    'minions_denied',
    'minions_pre',
    'minions_rejected',
  ]);
});

test('a directory of Salt is read at the start, and the state that Salt would use counts', async (t) => {
  const directory = temporaryDirectory(t);
  const files = [
    ['minions', 'both'],
    ['minions_rejected', 'both'],
    ['minions', 'web'],
    ['minions_pre', 'web'],
    ['minions_denied', 'web'],
    ['minions', '.key_cache'],
  ];
  for (const [place = '', id = ''] of files) {
    mkdirSync(path.join(directory, place), { recursive: true });
    writeFileSync(path.join(directory, place, id), place === 'minions_denied' ? two : one);
  }
  symlinkSync('/etc/passwd', path.join(directory, 'minions', 'link'));
  const store = await openIn(t, directory);
  t.is(store.get('both')?.state, 'rejected');
  t.is(store.get('web')?.state, 'accepted');
  t.is(store.denied('web')?.pem, two);
  t.is(store.get('link'), undefined);
  t.deepEqual(
    Object.values(store.list()).map((keys) => keys.map(({ id }: { id: string }) => id)),
    [['web'], [], ['both'], ['web']],
  );
  await store.delete('web');
  t.deepEqual(places(directory, 'web'), []);
});

test('the first pending key keeps its place', async (t) => {
  const store = await openIn(t, temporaryDirectory(t));
  await store.pend('web', one);
  const changes = record(store);
  t.true(await store.pend('web', `${one}\n`));
  await t.throwsAsync(store.pend('web', two), { instanceOf: KeyError, code: 'ERR_KEY_STATE' });
  t.is(store.get('web')?.pem, one);
  t.deepEqual(changes, []);
});

test('denied keys stand beside the key of the id, the last one only', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openIn(t, directory);
  await store.acceptNew('web', one);
  const changes = record(store);
  await store.deny('web', two);
  await store.deny('web', two);
  t.deepEqual(changes, [{ id: 'web', from: null, to: 'denied', act: 'denied' }]);
  t.is(store.get('web')?.pem, one);
  t.deepEqual(places(directory, 'web'), ['minions', 'minions_denied']);
  await t.throwsAsync(store.accept('web'), { instanceOf: KeyError, code: 'ERR_KEY_STATE' });
  await store.accept('web', { includeDenied: true });
  t.is(store.get('web')?.pem, two);
  t.is(store.denied('web'), undefined);
  t.deepEqual(places(directory, 'web'), ['minions']);
});

test('a key is accepted by its fingerprint, and not by that of another', async (t) => {
  const store = await openIn(t, temporaryDirectory(t));
  await store.pend('web', one);
  await t.throwsAsync(store.accept('web', { fingerprint: plainRules.fingerprint(two) }), {
    instanceOf: KeyError,
    code: 'ERR_KEY_FINGERPRINT',
  });
  t.is(store.get('web')?.state, 'pending');
  await store.accept('web', { fingerprint: plainRules.fingerprint(one).toUpperCase() });
  t.is(store.get('web')?.state, 'accepted');
});

test('a rejected key needs its option to be accepted', async (t) => {
  const store = await openIn(t, temporaryDirectory(t));
  await store.rejectNew('web', one);
  await t.throwsAsync(store.accept('web'), { instanceOf: KeyError, code: 'ERR_KEY_STATE' });
  await t.throwsAsync(store.rejectNew('web', two), { code: 'ERR_KEY_STATE' });
  await store.accept('web', { includeRejected: true });
  t.is(store.get('web')?.state, 'accepted');
  await t.throwsAsync(store.reject('web'), { code: 'ERR_KEY_STATE' });
});

test('automatic rejection keeps the pending key, automatic acceptance replaces any', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openIn(t, directory);
  await store.pend('web', one);
  await store.rejectNew('web', two);
  t.like(store.get('web'), { state: 'rejected', pem: one });
  await store.acceptNew('web', two);
  t.like(store.get('web'), { state: 'accepted', pem: two });
  t.deepEqual(places(directory, 'web'), ['minions']);
});

test('globs choose among the states that are asked for', async (t) => {
  const store = await openIn(t, temporaryDirectory(t));
  for (const id of ['web1', 'web2', 'db1']) await store.pend(id, one);
  await store.rejectNew('web3', one);
  t.deepEqual(await store.acceptMatching('web*'), ['web1', 'web2']);
  t.deepEqual(await store.acceptMatching('web*', { includeRejected: true }), ['web3']);
  t.deepEqual(await store.rejectMatching('*1', { includeAccepted: true }), ['db1', 'web1']);
  t.deepEqual(await store.deleteMatching('*[12]'), ['db1', 'web1', 'web2']);
  t.deepEqual(
    store.list().accepted.map(({ id }) => id),
    ['web3'],
  );
});

test('no more keys wait than permitted, in all and from one address', async (t) => {
  const store = await openIn(t, temporaryDirectory(t), {
    pendingKeys: 3,
    pendingKeysPerAddress: 2,
  });
  t.deepEqual(await Promise.all(['a', 'b', 'c'].map((id) => store.pend(id, one, '10.0.0.1'))), [
    true,
    true,
    false,
  ]);
  t.true(await store.pend('d', one, '10.0.0.2'));
  t.false(await store.pend('e', one, '10.0.0.3'));
  t.true(await store.pend('a', one, '10.0.0.1'));
  await store.accept('a');
  t.true(await store.pend('f', one, '10.0.0.1'));
  t.is(store.get('e'), undefined);
});

test('what cannot be an id touches no file', async (t) => {
  const parent = temporaryDirectory(t);
  const store = await openIn(t, path.join(parent, 'pki'));
  for (const id of ['../../x', '..', '', 'a/b', 'a\0']) {
    const refused = { instanceOf: KeyError, code: 'ERR_KEY_ID' };
    await t.throwsAsync(store.pend(id, one), refused);
    await t.throwsAsync(store.acceptNew(id, one), refused);
    await t.throwsAsync(store.deny(id, one), refused);
    await t.throwsAsync(store.delete(id), refused);
  }
  t.deepEqual(readdirSync(parent), ['pki']);
});

test('an unknown id is refused by name, escaped', async (t) => {
  const store = await openIn(t, temporaryDirectory(t));
  for (const work of [store.accept('a\n'), store.reject('a\n'), store.delete('a\n')]) {
    const error = await t.throwsAsync(work, { instanceOf: KeyError, code: 'ERR_KEY_UNKNOWN' });
    t.is(error?.message, 'there is no key of "a\\n"');
  }
});

test('what another program does in the directory is told like our own', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openIn(t, directory);
  await store.pend('web', one);
  const next = (): Promise<KeyChange> =>
    new Promise((resolve, reject) => {
      const deadline = setTimeout(() => reject(new Error('no change was told in 20 s')), 20_000);
      const stop = store.onChange((change) => {
        clearTimeout(deadline);
        stop();
        resolve(change);
      });
    });
  const moved = next();
  renameSync(path.join(directory, 'minions_pre/web'), path.join(directory, 'minions/web'));
  t.deepEqual(await moved, { id: 'web', from: 'pending', to: 'accepted', act: 'accept' });
  t.is(store.get('web')?.state, 'accepted');
  const removed = next();
  rmSync(path.join(directory, 'minions/web'));
  t.deepEqual(await removed, { id: 'web', from: 'accepted', to: null, act: 'delete' });
  const added = next();
  writeFileSync(path.join(directory, 'minions_denied/db'), two);
  t.deepEqual(await added, { id: 'db', from: null, to: 'denied', act: 'denied' });
});

test('a directory that cannot be used is refused with its cause', async (t) => {
  const file = path.join(temporaryDirectory(t), 'file');
  writeFileSync(file, '');
  const error = await t.throwsAsync(openKeyStore({ directory: file, rules: plainRules }), {
    instanceOf: KeyError,
    code: 'ERR_PKI_DIR',
  });
  t.true(error?.cause instanceof Error);
});
