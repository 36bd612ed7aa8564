import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as nextTimer, setImmediate as nextTurn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { LiveConfig, resolveMasterConfig } from '#config';
import { createSeal, createSilentLogger, KeyError, MasterError, openMasterKeys } from '#master';
import {
  type AutoAccept,
  type AutoAcceptOptions,
  openAutoAccept,
} from '#master/auth/auto-accept.ts';
import type { KeyChange } from '#master/auth/key-changer.ts';
import { Revocation } from '#master/auth/key-lifecycle.ts';
import { KeyStore, type KeyStoreOptions } from '#master/auth/key-store.ts';
import { LastRequests } from '#master/auth/last-requests.ts';
import type { MasterKeyOptions } from '#master/auth/master-keys.ts';
import { openPkiFiles } from '#master/auth/pki-directory.ts';
import { PublishKey } from '#master/auth/publish-key.ts';
import { RecentKeys } from '#master/auth/recent-keys.ts';
import { openSeal } from '#master/auth/seal.ts';
import { SessionKeys } from '#master/auth/session-keys.ts';
import { VersionPins } from '#master/auth/version-check.ts';
import { EventBus } from '#master/events/event-bus.ts';
import { generateKeyString, keyFingerprint } from '#minion-protocol';
import { createMemoryStore, type Store } from '#store';
import { tries } from '../../helpers/effort.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { keyText } from './key-text.ts';

const one = keyText('1');
const two = keyText('2');

async function openIn(
  t: ExecutionContext,
  directory: string,
  options: KeyStoreOptions = {},
): Promise<KeyStore> {
  const store = await KeyStore.open(await openPkiFiles(directory), options);
  t.teardown(() => store.close());
  return store;
}

function record(store: KeyStore): KeyChange[] {
  const changes: KeyChange[] = [];
  store.onChange((change) => changes.push(change));
  return changes;
}

/** Returns the names of the directories that contain a file of this id. */
function places(directory: string, id: string): string[] {
  return readdirSync(directory)
    .filter((name) => existsSync(path.join(directory, name, id)))
    .sort();
}

test('a key is added, accepted, rejected and deleted on disk before the event', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openIn(t, directory);
  const seen: unknown[] = [];
  store.onChange(({ act, from, to }) => seen.push([act, from, to, places(directory, 'web')]));
  t.true(await store.pend('web', one));
  await store.accept('web');
  t.is(store.get('web')?.state, 'accepted');
  await store.reject('web', { from: ['accepted'] });
  await store.delete('web');
  t.is(store.get('web'), undefined);
  t.deepEqual(seen, [
    ['pend', null, 'pending', ['minions_pre']],
    ['accept', 'pending', 'accepted', ['minions']],
    ['reject', 'accepted', 'rejected', ['minions_rejected']],
    ['delete', 'rejected', null, []],
  ]);
});

test("files have Salt's form: the text as sent, mode 0644, in directories with mode 0700", async (t) => {
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

test('a directory of Salt is read at the start, with the states that Salt would use', async (t) => {
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

test('a pending key is not replaced by a later one', async (t) => {
  const store = await openIn(t, temporaryDirectory(t));
  await store.pend('web', one);
  const changes = record(store);
  t.true(await store.pend('web', `${one}\n`));
  await t.throwsAsync(store.pend('web', two), { instanceOf: KeyError, code: 'ERR_KEY_STATE' });
  t.is(store.get('web')?.pem, one);
  t.deepEqual(changes, []);
});

test('only the last denied key is stored, beside the key of the id', async (t) => {
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
  await store.accept('web', { from: ['denied'] });
  t.is(store.get('web')?.pem, two);
  t.is(store.denied('web'), undefined);
  t.deepEqual(places(directory, 'web'), ['minions']);
});

test('a key is accepted by its own fingerprint only', async (t) => {
  const store = await openIn(t, temporaryDirectory(t));
  await store.pend('web', one);
  await t.throwsAsync(store.accept('web', { fingerprint: keyFingerprint(two) }), {
    instanceOf: KeyError,
    code: 'ERR_KEY_FINGERPRINT',
  });
  t.is(store.get('web')?.state, 'pending');
  await store.accept('web', { fingerprint: keyFingerprint(one).toUpperCase() });
  t.is(store.get('web')?.state, 'accepted');
});

test('accepting a rejected key requires its option', async (t) => {
  const store = await openIn(t, temporaryDirectory(t));
  await store.rejectNew('web', one);
  await t.throwsAsync(store.accept('web'), { instanceOf: KeyError, code: 'ERR_KEY_STATE' });
  await t.throwsAsync(store.rejectNew('web', two), { code: 'ERR_KEY_STATE' });
  await store.accept('web', { from: ['rejected'] });
  t.is(store.get('web')?.state, 'accepted');
  await t.throwsAsync(store.reject('web'), { code: 'ERR_KEY_STATE' });
});

test('automatic rejection keeps the pending key, and automatic acceptance replaces any', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openIn(t, directory);
  await store.pend('web', one);
  await store.rejectNew('web', two);
  t.like(store.get('web'), { state: 'rejected', pem: one });
  await store.acceptNew('web', two);
  t.like(store.get('web'), { state: 'accepted', pem: two });
  t.deepEqual(places(directory, 'web'), ['minions']);
});

test('globs select only among the given states', async (t) => {
  const store = await openIn(t, temporaryDirectory(t));
  for (const id of ['web1', 'web2', 'db1']) await store.pend(id, one);
  await store.rejectNew('web3', one);
  const changed = async (...args: Parameters<KeyStore['eachMatching']>): Promise<string[]> =>
    (await store.eachMatching(...args)).map(({ id }) => id);
  t.deepEqual(await changed(['web*'], 'accept'), ['web1', 'web2']);
  t.deepEqual(await changed(['web*'], 'accept', { from: ['pending', 'rejected'] }), ['web3']);
  t.deepEqual(await changed(['*1'], 'reject', { from: ['pending', 'accepted'] }), ['db1', 'web1']);
  t.deepEqual(await changed(['*[12]'], 'delete'), ['db1', 'web1', 'web2']);
  t.deepEqual(
    store.list().accepted.map(({ id }) => id),
    ['web3'],
  );
});

test('pending keys are limited, in total and for each address', async (t) => {
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

test('an invalid id accesses no file', async (t) => {
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

test('an unknown id is refused with its escaped name', async (t) => {
  const store = await openIn(t, temporaryDirectory(t), { takesNewId: () => true });
  for (const work of [store.accept('a"'), store.reject('a"'), store.delete('a"')]) {
    const error = await t.throwsAsync(work, { instanceOf: KeyError, code: 'ERR_KEY_UNKNOWN' });
    t.is(error?.message, '"a\\"" has no key');
  }
});

test('key changes by another program emit the same events as our own', async (t) => {
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

test('an unusable directory is refused with its cause', async (t) => {
  const file = path.join(temporaryDirectory(t), 'file');
  writeFileSync(file, '');
  const error = await t.throwsAsync(openPkiFiles(file), {
    instanceOf: KeyError,
    code: 'ERR_PKI_DIR',
  });
  t.true(error?.cause instanceof Error);
});

async function openWith(
  t: ExecutionContext,
  pkiDir: string,
  options: Partial<AutoAcceptOptions> = {},
): Promise<AutoAccept> {
  const autoAccept = await openAutoAccept({
    pkiDir,
    autoAccept: false,
    autosignFile: null,
    autorejectFile: null,
    autosignGrainsDir: null,
    autosignTimeout: 120,
    permissivePkiAccess: false,
    ...options,
  });
  t.teardown(() => autoAccept.close());
  return autoAccept;
}

function write(file: string, text: string, mode = 0o644): string {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}

test('without rules every key stays pending, and auto_accept accepts all', async (t) => {
  const directory = temporaryDirectory(t);
  t.is(await (await openWith(t, directory)).decide('web'), 'pend');
  t.is(await (await openWith(t, directory, { autoAccept: true })).decide('web'), 'accept');
});

test('lines are globs or whole regular expressions, and rejection takes precedence', async (t) => {
  const directory = temporaryDirectory(t);
  const autosignFile = write(
    path.join(directory, 'sign'),
    '# web.*\n  *.example  \n\nnode[0-9]+\nalpha|beta\n',
  );
  const autorejectFile = write(path.join(directory, 'reject'), 'bad*\n');
  const rules = await openWith(t, directory, { autosignFile, autorejectFile });
  for (const id of ['a.example', 'node12', 'alpha', 'beta']) t.is(await rules.decide(id), 'accept');
  for (const id of ['web1', 'node', 'xnode1', 'node1x', 'alphax', 'xbeta', '']) {
    t.is(await rules.decide(id), 'pend', id);
  }
  t.is(await rules.decide('bad.example'), 'reject');
  t.deepEqual(rules.problems(), []);
});

test('an exploding expression gets a result, and an invalid one is reported', async (t) => {
  const directory = temporaryDirectory(t);
  const file = write(path.join(directory, 'sign'), '(a+)+b\n(?=x)y\n');
  const rules = await openWith(t, directory, { autosignFile: file });
  t.is(await rules.decide('a'.repeat(2000)), 'pend');
  t.deepEqual(rules.problems(), [
    { file, reason: 'line 2 contains an unsupported regular expression' },
  ]);
});

test('a file that others may write is ignored, with its reason', async (t) => {
  const directory = temporaryDirectory(t);
  const file = write(path.join(directory, 'sign'), '*\n', 0o646);
  const rules = await openWith(t, directory, { autosignFile: file });
  t.is(await rules.decide('web'), 'pend');
  t.deepEqual(rules.problems(), [{ file, reason: 'it is writable for other users' }]);
  chmodSync(file, 0o664);
  await rules.refresh();
  t.is(await rules.decide('web'), 'pend');
  const permissive = { autosignFile: file, permissivePkiAccess: true };
  t.is(await (await openWith(t, directory, permissive)).decide('web'), 'accept');
});

test('changed files are read again', async (t) => {
  const directory = temporaryDirectory(t);
  const file = path.join(directory, 'sign');
  const rules = await openWith(t, directory, { autosignFile: file });
  t.deepEqual(rules.problems(), [{ file, reason: 'it does not exist' }]);
  write(file, 'web\n');
  await rules.refresh();
  t.is(await rules.decide('web'), 'accept');
  rmSync(file);
  await rules.refresh();
  t.is(await rules.decide('web'), 'pend');
});

test('a stub accepts its id once', async (t) => {
  const directory = temporaryDirectory(t);
  const stub = write(path.join(directory, 'minions_autosign', 'web'), '');
  const rules = await openWith(t, directory);
  t.is(await rules.decide('db'), 'pend');
  t.deepEqual(await Promise.all([rules.decide('web'), rules.decide('web')]), ['accept', 'pend']);
  t.false(existsSync(stub));
});

test('an expired stub is removed without accepting a key', async (t) => {
  const directory = temporaryDirectory(t);
  const stub = write(path.join(directory, 'minions_autosign', 'web'), '');
  utimesSync(stub, 1000, 1000);
  const clock = { now: 1_000_000 + 120 * 60_000 };
  const rules = await openWith(t, directory, { now: () => clock.now });
  t.true(existsSync(stub));
  clock.now += 1;
  t.is(await rules.decide('web'), 'pend');
  await rules.refresh();
  t.false(existsSync(stub));
});

test('a grain accepts a key if its Python text is a line of the file with its name', async (t) => {
  const directory = temporaryDirectory(t);
  const autosignGrainsDir = path.join(directory, 'grains');
  write(path.join(autosignGrainsDir, 'uuid'), "# nobody\nabc\n12\nTrue\n['a', \"it's\"]\nNone\n");
  write(path.join(autosignGrainsDir, 'loose'), 'abc\n', 0o666);
  const rules = await openWith(t, directory, { autosignGrainsDir });
  for (const value of ['abc', 12, true, ['a', "it's"]]) {
    t.is(await rules.decide('web', new Map([['uuid', value]])), 'accept');
  }
  for (const value of [null, undefined, '# nobody', '', 'abcd', false, {}, Buffer.from('abc')]) {
    t.is(await rules.decide('web', new Map([['uuid', value]])), 'pend');
  }
  t.is(await rules.decide('web', new Map([['loose', 'abc']])), 'pend');
  t.is(await rules.decide('web', new Map([['other', 'abc']])), 'pend');
});

const program = fileURLToPath(new URL('./endless-keys.ts', import.meta.url));

test('a killed process leaves only complete keys, and accepted ones only if it accepted them', async (t) => {
  const directory = temporaryDirectory(t);
  const child = fork(program, [directory], { stdio: 'ignore' });
  let last = -1;
  child.on('message', (accepted) => {
    last = Number(accepted);
    if (last === 40) child.kill('SIGKILL');
  });
  await once(child, 'close');
  writeFileSync(path.join(directory, '.saltbridge-left.tmp'), 'half');
  const store = await KeyStore.open(await openPkiFiles(directory));
  t.teardown(() => store.close());
  const { accepted, pending } = store.list();
  for (const { id, pem } of [...accepted, ...pending]) t.is(pem, keyText(id));
  for (const { id } of accepted) t.is(Number(id.slice(1)) % 2, 0);
  for (let i = 0; i <= last; i += 2) t.is(store.get(`m${i}`)?.state, 'accepted');
  t.false(readdirSync(directory).some((name) => name.endsWith('.tmp')));
});

// The rate at which the deletion of keys replaces the shared key.

interface Setting {
  readonly revocation: Revocation;
  readonly clock: { now: number };
  /** Returns how often the shared key was replaced, after all timers that are due have fired. */
  rotations(): Promise<number>;
}

async function start(t: ExecutionContext): Promise<Setting> {
  const clock = { now: 1_000_000 };
  const now = (): number => clock.now;
  const seal = createSeal(new Uint8Array(randomBytes(32)));
  const store = createMemoryStore({ now });
  const sign = async (): Promise<Uint8Array> => new Uint8Array(1);
  let rotated = 0;
  const revocation = new Revocation({
    sessions: await SessionKeys.open({ store, seal, lifetimeMs: 0, now }, () => true),
    pins: await VersionPins.open(store, 'auto'),
    lastRequests: new LastRequests(),
    transports: [],
    publishKey: await PublishKey.open({ store, seal, sign, serialBlock: 10, now }),
    bus: new EventBus({ maxEventBytes: 0 }),
    config: new LiveConfig(resolveMasterConfig({ rotateAesKey: true })),
    context: { now, log: createSilentLogger() },
  });
  revocation.onRotated(async () => {
    rotated += 1;
  });
  t.teardown(() => revocation.close());
  const rotations = async (): Promise<number> => {
    // Timers fire in the order of their times, so one that was due earlier has already fired.
    await nextTimer(5);
    for (let turn = 0; turn < 10; turn += 1) await nextTurn();
    return rotated;
  };
  return { revocation, clock, rotations };
}

test('the first deletion rotates at once, but not further ones within a minute', async (t) => {
  const { revocation, clock, rotations } = await start(t);
  await revocation.revoke(['a']);
  t.is(await rotations(), 1);
  for (const id of ['b', 'c', 'd']) {
    clock.now += 10_000;
    await revocation.revoke([id]);
  }
  t.is(await rotations(), 1);
});

test('a deletion a minute after the last rotation rotates at once', async (t) => {
  const { revocation, clock, rotations } = await start(t);
  await revocation.revoke(['a']);
  t.is(await rotations(), 1);
  clock.now += 60_000;
  await revocation.revoke(['b']);
  t.is(await rotations(), 2);
});

test('many simultaneous deletions cause one rotation', async (t) => {
  const { revocation, rotations } = await start(t);
  await Promise.all(['a', 'b', 'c', 'd'].map((id) => revocation.revoke([id])));
  t.is(await rotations(), 1);
});

function optionsOf(t: ExecutionContext): MasterKeyOptions {
  return { pkiDir: path.join(temporaryDirectory(t), 'pki'), name: 'master', bits: 2048 };
}

test('a new key is encrypted with the passphrase, and cannot be opened with another', async (t) => {
  const options = optionsOf(t);
  const made = await openMasterKeys({ ...options, passphrase: 'right' });
  const text = readFileSync(path.join(options.pkiDir, 'master.pem'), 'utf8');
  t.true(text.startsWith('-----BEGIN ENCRYPTED PRIVATE KEY-----'));
  const again = await openMasterKeys({ ...options, passphrase: 'right' });
  t.true(again.privateKey.equals(made.privateKey));
  const refused = { instanceOf: MasterError, code: 'ERR_OWN_KEY' };
  await t.throwsAsync(openMasterKeys({ ...options, passphrase: 'wrong' }), refused);
  await t.throwsAsync(openMasterKeys(options), refused);
});

test('an unencrypted key opens with any passphrase', async (t) => {
  const options = optionsOf(t);
  const made = await openMasterKeys(options);
  const again = await openMasterKeys({ ...options, passphrase: 'needless' });
  t.true(again.privateKey.equals(made.privateKey));
});

// The shared key and its serials: no serial is used twice, wherever the process is killed.

const seal = createSeal(new Uint8Array(randomBytes(32)));

function open(store: Store, serialBlock = 3): Promise<PublishKey> {
  return PublishKey.open({
    store,
    seal,
    sign: async () => new Uint8Array(1),
    serialBlock,
    now: () => 0,
  });
}

/** Returns a store whose process is killed before or after its write number `count`. */
function killedAt(store: Store, count: number, isAfter: boolean): Store {
  let writes = 0;
  const write: Store['write'] = async (operations) => {
    writes += 1;
    if (writes > count) throw new Error('killed');
    if (writes < count) return store.write(operations);
    if (isAfter) await store.write(operations);
    throw new Error('killed');
  };
  return new Proxy(store, {
    get: (target, name) => (name === 'write' ? write : Reflect.get(target, name).bind(target)),
  });
}

test('serials increase over any kills at any write, and the key stays', async (t) => {
  const lives = fc.array(
    fc.record({ takes: fc.nat(12), killAt: fc.integer({ min: 1, max: 6 }), isAfter: fc.boolean() }),
    { minLength: 1, maxLength: 6 },
  );
  await fc.assert(
    fc.asyncProperty(lives, async (runs) => {
      const store = createMemoryStore();
      const { key } = (await open(store)).current;
      let last = 0;
      for (const { takes, killAt, isAfter } of runs) {
        const publishKey = await open(killedAt(store, killAt, isAfter));
        t.is(publishKey.current.key.text, key.text);
        for (let count = 0; count < takes; count += 1) {
          const taken = await publishKey.take().catch(() => undefined);
          if (taken === undefined) break;
          t.true(taken.serial > last);
          last = taken.serial;
        }
      }
    }),
    tries(50),
  );
});

test('simultaneous serials are all different', async (t) => {
  const publishKey = await open(createMemoryStore());
  const taken = await Promise.all(Array.from({ length: 50 }, () => publishKey.take()));
  t.is(new Set(taken.map(({ serial }) => serial)).size, 50);
});

test('a new key starts new serials, and survives a restart', async (t) => {
  const store = createMemoryStore();
  const publishKey = await open(store);
  const old = publishKey.current.key.text;
  await publishKey.take();
  await publishKey.rotate();
  const { key, serial } = await publishKey.take();
  t.not(key.text, old);
  t.is(serial, 1);
  t.is((await open(store)).current.key.text, key.text);
});

test('a retired key is used until the next start, which creates a new one', async (t) => {
  const store = createMemoryStore();
  const publishKey = await open(store);
  await publishKey.retire();
  t.is((await publishKey.take()).key.text, publishKey.current.key.text);
  const next = await open(store);
  t.not(next.current.key.text, publishKey.current.key.text);
  t.is((await open(store)).current.key.text, next.current.key.text);
});

test('the store contains only sealed key data', async (t) => {
  const store = createMemoryStore();
  const { key } = (await open(store)).current;
  const entry = await store.get(['secrets', 'publish-key']);
  t.false(Buffer.from(entry?.value ?? []).includes(key.text));
  const other = createSeal(new Uint8Array(randomBytes(32)));
  t.throws(() => other.open(entry?.value ?? new Uint8Array(0)), { code: 'ERR_SEAL' });
});

test('a recently used key is cached, and a changed text is parsed again', (t) => {
  const keys = new RecentKeys();
  const [first, second] = [generateKeyString(), generateKeyString()];
  const ready = keys.ready('web1', first);
  t.is(keys.ready('web1', first), ready);
  t.is(keys.ready('web1', second).text, second);
  t.not(keys.ready('web1', first), ready, 'the one before is gone');
});

test('a removed key is not cached', (t) => {
  const keys = new RecentKeys();
  const text = generateKeyString();
  const ready = keys.ready('web1', text);
  keys.forget('web1');
  t.not(keys.ready('web1', text), ready);
});

test('the number of cached keys is limited, and those silent for a minute are evicted', (t) => {
  let now = 0;
  const keys = new RecentKeys(() => now);
  const text = generateKeyString();
  const [silent, busy] = [keys.ready('silent', text), keys.ready('busy', text)];
  for (let index = 2; index < 2048; index += 1) keys.ready(`web${index}`, text);
  t.not(keys.ready('late', text), keys.ready('late', text), 'nobody makes room yet');
  t.is(keys.ready('silent', text), silent);
  now = 59_999;
  for (let index = 2; index < 2048; index += 1) keys.ready(`web${index}`, text);
  t.is(keys.ready('busy', text), busy);
  t.not(keys.ready('late', text), keys.ready('late', text));
  now = 60_000;
  t.is(keys.ready('late', text), keys.ready('late', text));
  t.is(keys.ready('busy', text), busy);
  t.not(keys.ready('silent', text), silent);
});

const secret = Buffer.from('a key that nobody else may read');

test('data sealed with a key opens with it, and is unreadable without it', (t) => {
  const seal = createSeal(new Uint8Array(32).fill(1));
  const sealed = Buffer.from(seal.seal(secret));
  t.false(sealed.includes(secret));
  t.deepEqual(Buffer.from(seal.open(sealed)), secret);
});

test('sealing the same content twice gives different bytes', (t) => {
  const seal = createSeal(new Uint8Array(32).fill(1));
  t.notDeepEqual(seal.seal(secret), seal.seal(secret));
});

for (const [what, spoil] of [
  ['another key', (bytes: Uint8Array) => createSeal(new Uint8Array(32).fill(2)).open(bytes)],
  [
    'an altered byte',
    (bytes: Uint8Array) => openSealed(bytes.map((byte, i) => (i === 30 ? byte ^ 1 : byte))),
  ],
  ['a cut end', (bytes: Uint8Array) => openSealed(bytes.subarray(0, -1))],
  ['nothing at all', () => openSealed(new Uint8Array(0))],
] as const) {
  test(`${what} is refused`, (t) => {
    const sealed = createSeal(new Uint8Array(32).fill(1)).seal(secret);
    t.throws(() => spoil(sealed), { instanceOf: MasterError, code: 'ERR_SEAL' });
  });
}

function openSealed(bytes: Uint8Array): Uint8Array {
  return createSeal(new Uint8Array(32).fill(1)).open(bytes);
}

test('the seal key is created once, readable by this user only', async (t) => {
  const directory = await mkdtemp(path.join(tmpdir(), 'seal-'));
  t.teardown(() => rm(directory, { recursive: true }));
  const first = await openSeal(directory);
  const again = await openSeal(directory);
  t.deepEqual(Buffer.from(again.open(first.seal(secret))), secret);
  const file = path.join(directory, 'seal.key');
  t.is((await stat(file)).mode & 0o777, 0o600);
  t.regex(await readFile(file, 'utf8'), /^[A-Za-z0-9+/]{43}=\n$/);
});

/** Root of the repository. */
const root = fileURLToPath(new URL('../../../', import.meta.url));

/**
 * Returns the files that a file imports, directly and indirectly. Type imports are ignored, because
 * they are erased.
 */
function loadedBy(file: string, loaded: Set<string> = new Set()): Set<string> {
  if (loaded.has(file)) return loaded;
  loaded.add(file);
  const imports = readFileSync(file, 'utf8').matchAll(
    /^(?:import|export) (?!type\b)[^;]*?from '([.#][^']+)'/gm,
  );
  for (const [, name = ''] of imports) {
    const target = name.startsWith('#')
      ? path.join(root, /\.ts$/.test(name) ? name.slice(1) : `${name.slice(1)}/index.ts`)
      : path.resolve(path.dirname(file), name);
    loadedBy(target, loaded);
  }
  return loaded;
}

test('a thread for RSA loads only the RSA half of the protocol', (t) => {
  const worker = path.join(root, 'master/auth/rsa-worker.ts');
  const [own, ...others] = Array.from(loadedBy(worker), (file) => path.relative(root, file));
  t.is(own, 'master/auth/rsa-worker.ts');
  t.true(others.includes('minion-protocol/signing.ts'));
  t.true(others.includes('minion-protocol/rsa.ts'));
  t.deepEqual(others.filter((file) => !/^minion-protocol\/[\w-]+\.ts$/.test(file)).sort(), [
    'master/auth/rsa-limits.ts',
    'runtime/bounded-map.ts',
    'runtime/errors.ts',
    'runtime/json.ts',
    'runtime/limits.ts',
    'template/python/exceptions.ts',
    'template/python/values.ts',
  ]);
  t.false(others.includes('minion-protocol/index.ts'));
});
