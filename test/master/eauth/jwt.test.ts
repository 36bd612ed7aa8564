/** Tokens of an identity provider, whose keys come over HTTP; the tokens are made by jose. */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import test, { type ExecutionContext } from 'ava';
import {
  base64url,
  exportJWK,
  exportSPKI,
  generateKeyPair,
  importJWK,
  type JWTPayload,
  SignJWT,
} from 'jose';
import { type FunctionResult, resolveMasterConfig } from '../../../master/index.ts';
import type { LoginBackend } from '../../../master/users/backend.ts';
import { createBackends } from '../../../master/users/backends.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';

const issuer = 'https://idp.example';
const audience = 'saltbridge';
/** Seconds. */
const now = 1_700_000_000;

interface Provider {
  readonly backend: LoginBackend;
  /** What stands under `external_auth: jwt:`. */
  readonly options: Readonly<Record<string, string>>;
  /** A good token of fred's, but for what is said. */
  token(claims?: JWTPayload, algorithm?: string): Promise<string>;
  readonly publicPem: string;
  close(): void;
}

async function startProvider(t: ExecutionContext, kid = 'k1'): Promise<Provider> {
  const rsa = await generateKeyPair('RS256', { extractable: true });
  const jwk = { ...(await exportJWK(rsa.publicKey)), kid, use: 'sig' };
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ keys: [jwk] }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');
  const options = {
    '^issuer': issuer,
    '^audience': audience,
    '^jwks_uri': `http://127.0.0.1:${address.port}/keys`,
  };
  const config = resolveMasterConfig({ externalAuth: { jwt: { ...options, fred: ['.*'] } } });
  const backend = createBackends(config, () => now * 1000).get('jwt');
  if (backend === undefined) throw new Error('there is no back end');
  const usual = { sub: 'fred', iss: issuer, aud: audience, exp: now + 600, groups: ['ops', 7] };
  return {
    backend,
    options,
    token: async (claims = {}, alg = 'RS256') =>
      new SignJWT({ ...usual, ...claims })
        .setProtectedHeader({ alg, kid })
        .sign(await importJWK(await exportJWK(rsa.privateKey), alg)),
    publicPem: await exportSPKI(rsa.publicKey),
    close: () => server.close(),
  };
}

function ask(backend: LoginBackend, password: string, username = 'fred'): Promise<unknown> {
  return backend.authenticate({ username, password }, AbortSignal.timeout(20_000));
}

test('a token of the provider lets in whom it names, with its groups, until it ends', async (t) => {
  const { backend, token } = await startProvider(t);
  t.deepEqual(await ask(backend, await token()), {
    user: 'fred',
    groups: ['ops'],
    until: (now + 600) * 1000,
  });
  t.is(await ask(backend, await token(), 'gina'), undefined);
});

test('a token of another issuer, for others, too old, or without an end is refused', async (t) => {
  const { backend, token } = await startProvider(t);
  const wrong: JWTPayload[] = [
    { iss: 'https://other.example' },
    { aud: 'other' },
    { exp: now - 31 },
    { nbf: now + 31 },
    { sub: '' },
  ];
  for (const claims of wrong) t.is(await ask(backend, await token(claims)), undefined);
  const { exp: _, ...endless } = { iss: issuer, aud: audience, sub: 'fred', exp: 0 };
  const unsigned = (header: object, claims: object): string =>
    [header, claims].map((it) => base64url.encode(JSON.stringify(it))).join('.');
  t.is(await ask(backend, `${unsigned({ alg: 'RS256', kid: 'k1' }, endless)}.AAAA`), undefined);
});

test('a token without signature, or signed with the public key as a secret, is refused', async (t) => {
  const { backend, token, publicPem } = await startProvider(t);
  const [, claims] = (await token()).split('.');
  const header = (alg: string): string =>
    base64url.encode(JSON.stringify({ alg, kid: 'k1', typ: 'JWT' }));
  t.is(await ask(backend, `${header('none')}.${claims}.`), undefined);
  const text = `${header('HS256')}.${claims}`;
  const mac = createHmac('sha256', publicPem).update(text).digest('base64url');
  t.is(await ask(backend, `${text}.${mac}`), undefined);
});

test('an algorithm that is not listed is refused, though the key would do', async (t) => {
  const { backend, token } = await startProvider(t);
  t.is(await ask(backend, await token({}, 'RS512')), undefined);
});

test('a key that the provider does not have is refused', async (t) => {
  const { backend } = await startProvider(t);
  const other = await startProvider(t);
  t.is(await ask(backend, await other.token()), undefined);
  const third = await startProvider(t, 'k2');
  t.is(await ask(backend, await third.token()), undefined);
});

test('a provider that is away is no wrong password', async (t) => {
  const { backend, token, close } = await startProvider(t);
  close();
  const password = await token();
  await t.throwsAsync(ask(backend, password), { code: 'ERR_EAUTH_UNAVAILABLE' });
});

test('symmetric algorithms, none, and keys over plain http are refused as options', (t) => {
  const base = { '^issuer': issuer, '^audience': audience, '^jwks_uri': 'https://idp.example/k' };
  const isServed = (options: Record<string, unknown>): boolean =>
    createBackends(
      resolveMasterConfig({ externalAuth: { jwt: { ...base, ...options } } }),
      Date.now,
    ).has('jwt');
  t.true(isServed({}));
  for (const name of ['none', 'HS256', 'HS512', 'dir']) {
    t.false(isServed({ '^algorithms': ['RS256', name] }), name);
  }
  t.false(isServed({ '^algorithms': [] }));
  t.false(isServed({ '^jwks_uri': 'http://idp.example/k' }));
  t.false(isServed({ '^issuer': null }));
});

test('groups that the provider names give the rights of groups', async (t) => {
  const { options, token } = await startProvider(t);
  const { master } = await startVectorMaster(t, {
    config: { externalAuth: { jwt: { ...options, 'ops%': ['@jobs'] } } },
  });
  const jobsOf = async (claims: JWTPayload): Promise<FunctionResult> => {
    const credentials = { username: 'fred', password: await token(claims), eauth: 'jwt' };
    const login = await master.logins.login(credentials);
    return master.asUser(login.token).runners.run({ fun: 'jobs.list_jobs' });
  };
  t.true((await jobsOf({})).success);
  await t.throwsAsync(jobsOf({ groups: ['ops2'] }), { code: 'ERR_DENIED' });
});
