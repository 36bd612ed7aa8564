import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'ava';
import { createSeal, openSeal } from '../../../master/auth/session-keys.ts';
import { MasterError } from '../../../master/index.ts';

const secret = Buffer.from('a key that nobody else may read');

test('what one key sealed opens with it, and is not readable without', (t) => {
  const seal = createSeal(new Uint8Array(32).fill(1));
  const sealed = Buffer.from(seal.seal(secret));
  t.false(sealed.includes(secret));
  t.deepEqual(Buffer.from(seal.open(sealed)), secret);
});

test('the same content is never sealed to the same bytes', (t) => {
  const seal = createSeal(new Uint8Array(32).fill(1));
  t.notDeepEqual(seal.seal(secret), seal.seal(secret));
});

for (const [what, spoil] of [
  ['another key', (bytes: Uint8Array) => createSeal(new Uint8Array(32).fill(2)).open(bytes)],
  [
    'an altered byte',
    (bytes: Uint8Array) => open(bytes.map((byte, i) => (i === 30 ? byte ^ 1 : byte))),
  ],
  ['a cut end', (bytes: Uint8Array) => open(bytes.subarray(0, -1))],
  ['nothing at all', () => open(new Uint8Array(0))],
] as const) {
  test(`${what} is refused`, (t) => {
    const sealed = createSeal(new Uint8Array(32).fill(1)).seal(secret);
    t.throws(() => spoil(sealed), { instanceOf: MasterError, code: 'ERR_SEAL' });
  });
}

function open(bytes: Uint8Array): Uint8Array {
  return createSeal(new Uint8Array(32).fill(1)).open(bytes);
}

test('the seal key is made once, for this user alone', async (t) => {
  const directory = await mkdtemp(path.join(tmpdir(), 'seal-'));
  t.teardown(() => rm(directory, { recursive: true }));
  const first = await openSeal(directory);
  const again = await openSeal(directory);
  t.deepEqual(Buffer.from(again.open(first.seal(secret))), secret);
  const file = path.join(directory, 'seal.key');
  t.is((await stat(file)).mode & 0o777, 0o600);
  t.regex(await readFile(file, 'utf8'), /^[A-Za-z0-9+/]{43}=\n$/);
});
