/** Keystone asked about tokens, with answers that a real one gave. */
import test, { type ExecutionContext } from 'ava';
import { createHttpClient } from '../../../heat-bridge/http-client.ts';
import { KeystoneClient, parseKeystoneOptions } from '../../../heat-bridge/keystone.ts';
import { AuthenticationError } from '../../../master/index.ts';
import {
  exchangeOf,
  keystoneSection,
  type RecordedKeystone,
  servicePassword,
  startKeystone,
  tokenOf,
} from './recorded-keystone.ts';

interface Stage {
  readonly keystone: RecordedKeystone;
  readonly client: KeystoneClient;
  readonly clock: { now: number };
  /** What the log was told. */
  readonly told: unknown[];
}

async function open(t: ExecutionContext, password?: string): Promise<Stage> {
  const keystone = await startKeystone(t);
  const { endpoints, timeoutMs, ...who } = parseKeystoneOptions(
    keystoneSection(keystone.url, password),
  );
  const clock = { now: 0 };
  const told: unknown[] = [];
  const client = new KeystoneClient({
    ...who,
    ask: createHttpClient({ endpoints, timeoutMs, resolve: async () => [] }),
    monotonic: () => clock.now,
    closing: new AbortController().signal,
    log: { warn: (fields: object) => told.push(fields) },
  });
  return { keystone, client, clock, told };
}

const unavailable = { instanceOf: AuthenticationError, code: 'ERR_EAUTH_UNAVAILABLE' } as const;

test("a token is shown beside the service's own, and tells its project, roles and user", async (t) => {
  const { client, keystone } = await open(t);
  const token = await client.validate(tokenOf('trove'));
  t.like(token, {
    user: { name: 'trove', domain: { id: 'default', name: 'Default' } },
    project: { name: 'databases', domain: { id: 'default', name: 'Default' } },
  });
  // Keystone makes every member a reader as well.
  t.deepEqual([...(token?.roles ?? [])].sort(), ['member', 'reader', 'trove-admin']);
  const [logIn, question] = keystone.requests;
  t.is(logIn?.path, '/v3/auth/tokens');
  t.deepEqual(JSON.parse(logIn?.body ?? '').auth, {
    identity: {
      methods: ['password'],
      password: {
        user: { name: 'admin', domain: { name: 'Default' }, password: servicePassword },
      },
    },
    scope: { project: { name: 'admin', domain: { name: 'Default' } } },
  });
  t.is(question?.path, '/v3/auth/tokens?nocatalog');
  t.is(question?.headers['x-auth-token'], exchangeOf('log-in').answer['X-Subject-Token']);
  t.is(question?.headers['x-subject-token'], tokenOf('trove'));
});

test('what Keystone does not know, or no longer, is none', async (t) => {
  const { client, keystone } = await open(t);
  t.is(await client.validate(tokenOf('unknown')), undefined);
  t.not(await client.validate(tokenOf('trove')), undefined);
  keystone.change('trove', 'revoked');
  t.is(await client.validate(tokenOf('trove')), undefined);
});

test('the service logs in once, and once more when its own token has ended', async (t) => {
  const { client, keystone } = await open(t);
  const both = [client.validate(tokenOf('trove')), client.validate(tokenOf('sahara'))];
  t.false((await Promise.all(both)).includes(undefined));
  t.is(keystone.counts().logIns, 1);
  keystone.endOwnToken();
  const again = [client.validate(tokenOf('trove')), client.validate(tokenOf('sahara'))];
  t.false((await Promise.all(again)).includes(undefined));
  t.is(keystone.counts().logIns, 2);
});

test('a log-in that is refused is not tried again before half a minute', async (t) => {
  const { client, clock, keystone, told } = await open(t, 'wrong');
  await t.throwsAsync(client.validate(tokenOf('trove')), unavailable);
  clock.now = 29_999;
  await t.throwsAsync(client.validate(tokenOf('trove')), unavailable);
  t.is(keystone.counts().logIns, 1);
  clock.now = 30_000;
  await t.throwsAsync(client.validate(tokenOf('trove')), unavailable);
  t.is(keystone.counts().logIns, 2);
  t.regex(JSON.stringify(told[0]), /refuses the credentials/);
});

test('who may not look at tokens, and what cannot be read, permits nothing', async (t) => {
  const { client, keystone } = await open(t);
  keystone.change('sahara', 'not-permitted');
  await t.throwsAsync(client.validate(tokenOf('sahara')), unavailable);
  const answers: readonly (readonly [number, string])[] = [
    [200, '{}'],
    [200, '{"token": {"user": {"name": "trove"}}}'],
    [200, exchangeOf('trove').body.slice(0, -10)],
    [200, exchangeOf('trove').body.replace(/"expires_at": ?"[^"]*"/, '"expires_at": "never"')],
    [500, exchangeOf('trove').body],
    [301, ''],
  ];
  for (const [status, body] of answers) {
    keystone.answerAll((_, response) => {
      response.writeHead(status, { location: `${keystone.url}/auth/tokens` }).end(body);
    });
    await t.throwsAsync(client.validate(tokenOf('trove')), unavailable, `${status} ${body}`);
  }
});

test('a Keystone that hangs up is away, and the log is told why no more than now and then', async (t) => {
  const { client, clock, keystone, told } = await open(t);
  t.not(await client.validate(tokenOf('trove')), undefined);
  keystone.answerAll((_, response) => response.destroy());
  await t.throwsAsync(client.validate(tokenOf('trove')), {
    ...unavailable,
    message: 'Keystone cannot be asked now',
  });
  await t.throwsAsync(client.validate(tokenOf('trove')), unavailable);
  t.is(told.length, 1);
  clock.now = 10_000;
  await t.throwsAsync(client.validate(tokenOf('trove')), unavailable);
  t.is(told.length, 2);
});
