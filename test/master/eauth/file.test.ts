/** Users in files. The password hashes in Apache's formats were created by openssl and htpasswd. */
import { createHook } from 'node:async_hooks';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import type { LoginBackend } from '#master/users/backend.ts';
import { createBackends } from '#master/users/backends.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const long =
  'pässword with a long tail, longer than thirty-two bytes, longer than sixty-four bytes anyway';

interface Users {
  readonly backend: LoginBackend;
  write(text: string): void;
  isLetIn(username: string, password: string): Promise<boolean>;
  isThere(user: string): Promise<boolean>;
}

function users(t: ExecutionContext, text: string, options: Record<string, unknown> = {}): Users {
  const filename = path.join(temporaryDirectory(t), 'users');
  const write = (content: string): void => writeFileSync(filename, content);
  write(text);
  const given = { '^filename': filename, ...options };
  const config = resolveMasterConfig({ externalAuth: { file: { ...given, fred: ['.*'] } } });
  const backend = createBackends(config, () => 0).get('file');
  if (backend === undefined) throw new Error('there is no back end');
  const signal = AbortSignal.timeout(30_000);
  return {
    backend,
    write,
    isLetIn: async (username, password) =>
      (await backend.authenticate({ username, password }, signal))?.user === username,
    isThere: async (user) =>
      (await backend.standingOf?.({ user, groups: [] }, signal))?.state === 'valid',
  };
}

test('text files have plain passwords by default', async (t) => {
  const { isLetIn } = users(t, '\n# people\ngene:OceanMan\ndean:goneFishing:more\n');
  t.true(await isLetIn('gene', 'OceanMan'));
  t.true(await isLetIn('dean', 'goneFishing'));
  t.false(await isLetIn('gene', 'oceanman'));
  t.false(await isLetIn('gene', ''));
  t.false(await isLetIn('nobody', '{SHA}'));
});

test('options select fields, separator and digest of a text file', async (t) => {
  const { isLetIn } = users(t, '46|trey|5ebe2294ecd0e0f08eab7690d2a6ee69\n', {
    '^hashtype': 'md5',
    '^field_separator': '|',
    '^username_field': 2,
    '^password_field': '3',
  });
  t.true(await isLetIn('trey', 'secret'));
  t.false(await isLetIn('trey', '5ebe2294ecd0e0f08eab7690d2a6ee69'));
  t.false(await isLetIn('46', 'secret'));
});

const kept: readonly (readonly [name: string, line: string, password: string])[] = [
  ['MD5', '$1$abcdefgh$nqwOOCzgGs.yq66madZef.', long],
  ['MD5, short', '$1$xy$93sbPXpiY9Sa7GrWxhkre0', 'a'],
  ['APR1', '$apr1$abcdefgh$5LrNyDzHbxvNJuj8OzW/B0', long],
  ['APR1, short', '$apr1$xy$T6yk43HTfQwCY.mtbxwJ8/', 'a'],
  ['SHA-256', '$5$abcdefgh$cmxU6Z9FTxTwoFLI.fLAX2jyRfBDmICzd1oN223iFS9', long],
  ['SHA-256, short', '$5$xy$Rfzb2MdNrPGYrrk7mfvDuwXhFhgd5SRGXwg1yTKBEA3', 'a'],
  [
    'SHA-512',
    '$6$abcdefgh$D3gF5en3oGcGOKFWTxcLnXqsCeyrEIefLA27wBAo.Zel1DrA99qYH.aXJhyCf8FNZW8vFqJl29z/48ZghceKF1',
    long,
  ],
  [
    'SHA-512, short',
    '$6$xy$5250cwD6G0HaskWEVps7HLt3iuI6RaW0CtpUDWt4NW09jSLinak2eYcP4KwS5.Qo0wBM5cNC2oN8ZPa0MGMfh1',
    'a',
  ],
  [
    'SHA-512 with rounds',
    '$6$rounds=7000$abc$E6vJphPAFHzt6ZQpFxF36v.6KzMGR0483CDOLz8tb5FBcbqLIfeQSEk.zQfiCQBuQQoyl0G33SVMwwB.5LuxY0',
    'secret',
  ],
  ['SHA-1', '{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=', 'secret'],
  // Created by: htpasswd -nbB -C 5
  ['bcrypt', '$2y$05$ymlPRu4I7XHspFYwYV1QAOohA.n2T4H9/MAv7mrYZrIax/gTFrd3K', 'secret'],
  ['bcrypt, not ASCII', '$2y$06$mzjKY8DcKWR5H.QDHEB3J.nt5UDtFMQtEiWOGHNUHZmaY4gUAwXS6', 'pässwörd'],
  ['plain text', 'secret', 'secret'],
];

for (const [name, line, password] of kept) {
  test(`a password of an htpasswd file is checked (${name})`, async (t) => {
    const { isLetIn } = users(t, `gene:other\nfred:${line}\n`, { '^filetype': 'htpasswd' });
    t.true(await isLetIn('fred', password));
    t.false(await isLetIn('fred', `${password}x`));
    t.false(await isLetIn('fred', line.startsWith('s') ? 'x' : line));
  });
}

test('DES and bcrypt with a high cost are not supported: such users cannot log in, and the start warns', async (t) => {
  const lines = [
    'gene:$2y$31$PPpdiVRDCuGzzSZ1wU3mPeIL.7w3rD9tVnWKNRoRqRIkSbIyMzwJm',
    'dean:rqXexS6ZhobKA',
    'fred:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=',
  ];
  const { backend, isLetIn } = users(t, lines.join('\n'), { '^filetype': 'htpasswd' });
  t.regex(
    (await backend.obstacle?.()) ?? '',
    /^2 users cannot log in: their password has an unsupported form/,
  );
  for (const password of ['secret', 'rqXexS6ZhobKA', '$2y$31$PPpdiVRDCuGzzSZ1wU3mPeIL']) {
    t.false(await isLetIn('dean', password));
    t.false(await isLetIn('gene', password));
  }
  t.true(await isLetIn('fred', 'secret'));
});

test('htdigest files have a realm', async (t) => {
  // Created by: printf 'fred:Realm:secret' | md5sum
  const line = 'fred:Realm:890e38dac0eeba199ddb7a7c6400062b\nfred:Other:abc\n';
  const { isLetIn } = users(t, line, {
    '^filetype': 'htdigest',
    '^realm': 'Realm',
  });
  t.true(await isLetIn('fred', 'secret'));
  t.false(await isLetIn('fred', 'other'));
});

test('a user who is removed from the file, or locked in it, can no longer log in', async (t) => {
  const { isThere, write } = users(t, 'fred:{SHA}x\n', { '^filetype': 'htpasswd' });
  t.true(await isThere('fred'));
  t.false(await isThere('gene'));
  write('fred:!{SHA}x\n');
  t.false(await isThere('fred'));
  write('gene:{SHA}x\n');
  t.false(await isThere('fred'));
});

test('a missing file is reported, and does not count as a wrong password', async (t) => {
  const { backend } = users(t, '', { '^filename': '/nonexistent/users' });
  const signal = AbortSignal.timeout(1000);
  await t.throwsAsync(backend.authenticate({ username: 'a', password: 'b' }, signal), {
    code: 'ERR_EAUTH_UNAVAILABLE',
  });
  t.truthy(await backend.obstacle?.());
});

test('back ends with invalid options are disabled', (t) => {
  const names = (externalAuth: Record<string, unknown>): string[] => [
    ...createBackends(resolveMasterConfig({ externalAuth }), () => 0).keys(),
  ];
  t.deepEqual(names({ file: { fred: ['.*'] } }), []);
  t.deepEqual(names({ file: { '^filename': 'users' } }), []);
  t.deepEqual(names({ file: { '^filename': '/u', '^filetype': 'csv' } }), []);
  t.deepEqual(names({ file: { '^filename': '/u', '^hashtype': 'shake256' } }), []);
  t.deepEqual(names({ file: { '^filename': '/u', '^filetype': 'htdigest' } }), []);
  t.deepEqual(names({ file: { '^filename': '/u', '^file': '/v' } }), []);
  t.deepEqual(names({ auto: { fred: ['.*'] }, django: {}, constructor: {}, sharedsecret: {} }), []);
  t.deepEqual(names({ file: { '^filename': '/u' }, pam: null }), ['file', 'pam']);
});

// This test is serial, because it counts asynchronous operations of the whole process.
test.serial('an unknown user takes as long as the slowest password', async (t) => {
  const slow = '$6$rounds=200000$abcdefgh$x';
  const { isLetIn } = users(t, `gene:{SHA}x\nfred:${slow}\n`, { '^filetype': 'htpasswd' });
  // A long comparison lets other work run after this number of rounds.
  const countTurns = async (user: string): Promise<number> => {
    let turns = 0;
    const hook = createHook({
      init: (_id, type) => {
        if (type === 'Immediate') turns += 1;
      },
    }).enable();
    t.false(await isLetIn(user, 'wrong'));
    hook.disable();
    return turns;
  };
  const turns = await countTurns('fred');
  t.true(turns >= 50, `${turns}`);
  t.is(await countTurns('nobody'), turns);
});
