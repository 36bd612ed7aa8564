/** Commands of Salt's own `salt-key`, run again without a master: the same words, the same files. */
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { openLocalKeys } from '../../cli/local-master.ts';
import { parsePublicKey, rsaVerify } from '../../minion-protocol/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { startVectorMaster } from '../helpers/vector-master.ts';
import { pem } from '../helpers/vectors.ts';
import { readCases } from './fixture.ts';
import { runCli } from './run-cli.ts';

interface RecordedCommand {
  readonly argv: readonly string[];
  readonly answer: string | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
  /** Ids by directory. */
  readonly after: Readonly<Record<string, readonly string[]>>;
  /** Other files of the PKI directory. */
  readonly files: readonly string[];
}

/** As record-keys.py makes it. */
const layout: Readonly<Record<string, readonly string[]>> = {
  minions: ['alpha', 'Beta'],
  minions_pre: ['web1', 'web2', 'db1'],
  minions_rejected: ['old1', 'web9'],
  minions_denied: ['alpha', 'evil'],
};

/** A fingerprint of a private half tells nobody anything: we do not print it. */
const privateHalf = /^.*master\.pem.*\n/gm;

function prepare(t: ExecutionContext): string {
  const directory = temporaryDirectory(t);
  const pki = path.join(directory, 'pki');
  for (const [place, ids] of Object.entries(layout)) {
    mkdirSync(path.join(pki, place), { recursive: true });
    const key = pem(place === 'minions_denied' ? 'minion2' : 'minion').publicPem;
    for (const id of ids) writeFileSync(path.join(pki, place, id), key);
  }
  writeFileSync(path.join(pki, 'master.pem'), pem('master').privatePem);
  writeFileSync(path.join(pki, 'master.pub'), pem('master').publicPem);
  const config = [`root_dir: ${directory}`, `pki_dir: ${pki}`, `sock_dir: ${directory}/s`];
  writeFileSync(path.join(directory, 'master'), config.join('\n'));
  return directory;
}

for (const [index, recorded] of readCases<RecordedCommand>('salt-key.json').entries()) {
  const { argv, answer } = recorded;
  const title = `${index}: salt-key ${argv.join(' ')} ${JSON.stringify(answer ?? '')}`;
  test(`${title} says and does what Salt's says and does`, async (t) => {
    const directory = prepare(t);
    const given = argv.map((word) => word.replace('{dir}', directory));
    const outcome = await runCli(['salt-key', '-c', directory, ...given], {
      openKeys: openLocalKeys,
      ...(answer === null ? {} : { input: `${answer}\n` }),
    });
    t.is(outcome.stdout.replaceAll(directory, '{dir}'), recorded.stdout.replace(privateHalf, ''));
    t.is(outcome.stderr.replaceAll(directory, '{dir}'), recorded.stderr);
    t.is(outcome.code, recorded.code);
    const pki = path.join(directory, 'pki');
    const names = readdirSync(pki).filter((name) => !name.startsWith('minions'));
    t.deepEqual(names.sort(), recorded.files);
    for (const [place, ids] of Object.entries(recorded.after)) {
      t.deepEqual(readdirSync(path.join(pki, place)).sort(), ids, place);
    }
  });
}

test('--gen-keys makes a pair, and leaves one that is there', async (t) => {
  const directory = temporaryDirectory(t);
  const argv = ['salt-key', '--gen-keys', 'fresh', '--gen-keys-dir', path.join(directory, 'new')];
  const made = await runCli(argv);
  t.regex(made.stdout, /^return:\n {4}([\da-f]{2}:){31}[\da-f]{2}\n$/);
  t.deepEqual(readdirSync(path.join(directory, 'new')).sort(), ['fresh.pem', 'fresh.pub']);
  t.is(statSync(path.join(directory, 'new', 'fresh.pem')).mode & 0o777, 0o400);
  t.is((await runCli(argv)).stdout, made.stdout);
});

test('--gen-signature signs the key as minions get it, once', async (t) => {
  const directory = prepare(t);
  const argv = ['salt-key', '-c', directory, '--gen-signature', '--auto-create'];
  t.is((await runCli(argv)).stdout, 'return:\n    True\n');
  const inPki = (name: string): string => path.join(directory, 'pki', name);
  const signature = Buffer.from(readFileSync(inPki('master_pubkey_signature'), 'utf8'), 'base64');
  const key = parsePublicKey(readFileSync(inPki('master_sign.pub'), 'utf8'));
  const sent = readFileSync(inPki('master.pub'), 'utf8').trim();
  t.true(rsaVerify(key, Buffer.from(sent), signature, 'PKCS1v15-SHA1'));
  t.is((await runCli(argv)).stdout, 'return:\n    False\n');
});

test('where nobody answers, nothing is changed', async (t) => {
  const directory = prepare(t);
  const argv = ['salt-key', '-c', directory, '-d', 'web*'];
  const { code, stderr } = await runCli(argv, { openKeys: openLocalKeys });
  t.is(stderr, 'saltbridge: nobody answered; add -y\n');
  t.is(code, 1);
  t.true(readdirSync(path.join(directory, 'pki', 'minions_pre')).includes('web1'));
});

test('a running master is asked, and tells the change', async (t) => {
  const { master, eventsDuring } = await startVectorMaster(t, {
    keys: [{ directory: 'minions_pre', id: 'web1', publicPem: pem('minion').publicPem }],
  });
  const openKeys = async () => ({ keys: master.keys, close: async () => {} });
  const events = await eventsDuring(async () => {
    const { stdout } = await runCli(['salt-key', '-A', '-y'], { openKeys });
    t.true(stdout.endsWith('Key for minion web1 accepted.\n'));
  });
  t.deepEqual(
    events.map(({ tag, data }) => [tag, data.act, data.id]),
    [['salt/key', 'accept', 'web1']],
  );
});

test('saltbridge key works without a master as well', async (t) => {
  const directory = prepare(t);
  const argv = ['key', 'accept', 'db1', '-y', '-c', directory];
  const { stdout } = await runCli(argv, { openKeys: openLocalKeys });
  t.is(stdout, 'Key for minion db1 accepted.\n');
  t.true(readdirSync(path.join(directory, 'pki', 'minions')).includes('db1'));
});

test('key delete --state deletes the key of that state and leaves another of the same id', async (t) => {
  const directory = prepare(t);
  const places = (): string[] =>
    Object.keys(layout).filter((place) =>
      readdirSync(path.join(directory, 'pki', place)).includes('alpha'),
    );
  const argv = ['key', 'delete', 'alpha', '--state', 'denied', '-y', '-c', directory];
  t.is((await runCli(argv, { openKeys: openLocalKeys })).code, 0);
  t.deepEqual(places(), ['minions']);
  const again = await runCli(argv, { openKeys: openLocalKeys });
  t.regex(again.stderr, /no key matches alpha \(looked in: denied\)/);
  t.deepEqual(places(), ['minions']);
});

test('key delete with a fingerprint deletes that key only', async (t) => {
  const directory = prepare(t);
  const { keys, close } = await openLocalKeys(directory);
  const [denied] = await keys.list({ state: 'denied' });
  await close();
  const fingerprint = denied?.fingerprint ?? '';
  const argv = ['key', 'delete', 'alpha', '--fingerprint', fingerprint, '-y', '-c', directory];
  t.is((await runCli(argv, { openKeys: openLocalKeys })).code, 0);
  t.deepEqual(readdirSync(path.join(directory, 'pki', 'minions')).sort(), ['Beta', 'alpha']);
  t.deepEqual(readdirSync(path.join(directory, 'pki', 'minions_denied')), ['evil']);
});
