/** Secrets of sites: each site gets its own, sealed to its key. */

import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { ReleaseState } from '#edge';
import { generateKey, publicBytesOf, signParts } from '#edge/identity/ed25519.ts';
import { readKey, writeKey } from '#edge/identity/key-file.ts';
import { renewalOf } from '#edge/identity/renewal.ts';
import { generateSealKey, seal, sealKeyOf, unseal } from '#edge/identity/sealed-box.ts';
import type { SiteIdentity } from '#edge/identity/site-identity.ts';
import { edgeLimits } from '#edge/limits.ts';
import type { SiteContext } from '#edge/parts.ts';
import {
  digestOfSecrets,
  secretsPurpose,
  signedSecrets,
  signSecretsRequest,
} from '#edge/secrets/secret-messages.ts';
import { openSiteSecrets, type ReadSecrets } from '#edge/secrets/site-secrets.ts';
import { createSilentLogger } from '#master';
import type { WireMap } from '#minion-protocol';
import { layNodeKeys } from '../campaigns/edge/nodes.ts';
import { runCli } from '../cli/run-cli.ts';
import { TcpProxy } from '../helpers/tcp-proxy.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { initKeys, publish, writeFiles } from './bundles/release-stage.ts';
import {
  type Centre,
  eventually,
  type StageMaster,
  siteInfo,
  startCentre,
  startMaster,
  startSite,
} from './edge-stage.ts';
import { joinRaw, RawLink } from './raw-site.ts';
import { siteSection, sitesSection } from './sections.ts';

const northValue = 'north-value-5d1f';
const southValue = 'south-value-9b27';

interface Asked {
  readonly sealKey: Uint8Array;
  readonly nonce: Uint8Array;
}

type Listener = (state: { readonly isConnected: boolean }) => void;

interface Stage {
  readonly centre: Centre;
  readonly secrets: string;
  write(site: string, text: string, mode?: number): void;
}

async function stage(t: ExecutionContext): Promise<Stage> {
  const directory = temporaryDirectory(t);
  const secrets = path.join(directory, 'secrets');
  mkdirSync(secrets);
  const write = (site: string, text: string, mode = 0o600): void => {
    const file = path.join(secrets, `${site}.yml`);
    writeFileSync(file, text, { mode });
    chmodSync(file, mode);
  };
  write('north', `"*": { password: ${northValue} }\nweb2: { serial: 7 }\n`);
  write('south', `"*": { password: ${southValue} }\n`);
  const source = path.join(directory, 'source');
  writeFiles(source, { master: 'file_ignore_glob: []\n' });
  const centre = await startCentre(t, { sites: sitesSection({ source, secrets }) });
  return { centre, secrets, write };
}

/** Starts a site with two accepted minions. */
function start(t: ExecutionContext, centre: Centre, name: string, url?: string) {
  return startSite(t, centre, name, { pkiDir: '/pki' }, url, (stateDir) =>
    layNodeKeys(`${path.dirname(stateDir)}/pki`, ['web1', 'web2']),
  );
}

async function pillarOf({ server }: StageMaster, minion: string): Promise<WireMap> {
  const shown = await server.master.pillar.show({ minion });
  return shown instanceof Map ? Object.fromEntries(shown) : shown;
}

function passwordIs(site: StageMaster, value: string | undefined): Promise<void> {
  return eventually(async () => (await pillarOf(site, 'web1')).password === value, 'the secret');
}

/** Whether a file below a directory contains a text. */
function contains(directory: string, text: string): boolean {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  return names.some((name) => {
    const file = path.join(directory, name);
    return statSync(file).isFile() && readFileSync(file).includes(text);
  });
}

test('each site gets its own secrets, and its disk contains none in clear and none of another site', async (t) => {
  const { centre, write } = await stage(t);
  const keys = await initKeys(centre);
  const north = await start(t, centre, 'north');
  const south = await start(t, centre, 'south');
  await passwordIs(north, northValue);
  await passwordIs(south, southValue);
  t.is((await pillarOf(north, 'web1')).serial, undefined);
  t.is((await pillarOf(north, 'web2')).serial, 7);
  write('north', '"*": { password: north-value-new }\n');
  await publish(centre, keys);
  await eventually(async () => {
    const [state] = await centre.rpc('site').call<readonly ReleaseState[]>('releases.list');
    return state?.installed === 2;
  }, 'the release');
  t.is((await pillarOf(north, 'web1')).password, 'north-value-new', 'read before the release');
  await north.server.close();
  await south.server.close();
  t.true(contains(north.directory, 'BEGIN PRIVATE KEY'), 'the search finds texts');
  for (const value of [southValue, northValue, 'north-value-new']) {
    t.false(contains(north.directory, value), `${value} at north`);
    t.false(contains(south.directory, value), `${value} at south`);
    t.false(contains(centre.stateDir, value), `${value} in the store of the centre`);
  }
});

test('a site keeps its secrets without the centre, and a change reaches it with site secrets', async (t) => {
  const { centre, write, secrets } = await stage(t);
  const proxy = await TcpProxy.start(centre.port);
  t.teardown(() => proxy.close());
  const url = `http://127.0.0.1:${proxy.port}`;
  const first = await start(t, centre, 'north', url);
  await passwordIs(first, northValue);
  await first.server.close();
  proxy.close();
  const site = siteSection({ name: 'north', centre: url });
  const again = await startMaster(t, { site, pkiDir: '/pki' }, first.directory);
  t.is((await pillarOf(again, 'web1')).password, northValue);
  proxy.resume();
  await eventually(async () => (await siteInfo(centre, 'north')).isConnected);
  await joinRaw(t, centre, 'south');
  await joinRaw(t, centre, 'west');
  write('north', '"*": { password: changed }\n');
  const openExtension = async (_directory: string, name: string) => centre.rpc(name);
  const { stdout } = await runCli(['site', 'secrets'], { openExtension });
  t.is(stdout, 'north notified\nsouth away\nwest none\n');
  await passwordIs(again, 'changed');
  for (const [text, mode] of [
    ['"*": { password: open }\n', 0o644],
    ['- password\n', 0o600],
    [`"*": { password: "${'x'.repeat(60_000)}" }\n`, 0o600],
  ] as const) {
    write('north', text, mode);
    const refused = await runCli(['site', 'secrets', 'north'], { openExtension });
    t.regex(refused.stderr, /north\.yml (?:is readable|is not a map|has \d+ bytes)/);
    t.notRegex(refused.stderr, /password/);
  }
  const { code, stdout: all } = await runCli(['site', 'secrets'], { openExtension });
  t.is(code, 1);
  t.regex(all, /^north invalid: .*north\.yml has \d+ bytes.*\nsouth away\nwest none\n$/);
  t.is((await pillarOf(again, 'web1')).password, 'changed');
  write('north', '{}\n');
  await runCli(['site', 'secrets', 'north'], { openExtension });
  await passwordIs(again, undefined);
  t.true(readdirSync(secrets).includes('north.yml'));
});

/** Returns the parameters of a request for secrets, which the site has signed. */
function requestOf({ key, name }: Pick<SiteIdentity, 'key' | 'name'>, sealKey: Uint8Array) {
  const request = { sealKey, nonce: Buffer.alloc(16) };
  return { ...request, proof: signSecretsRequest(key, name, request) };
}

test('a site cannot read the secrets of another site, and a box opens only with its own key', async (t) => {
  const { centre } = await stage(t);
  const identity = await joinRaw(t, centre, 'north');
  const link = await RawLink.signIn(t, centre, identity);
  t.true(await link.isWelcome());
  const key = generateSealKey();
  const sealKey = sealKeyOf(key);
  const request = requestOf(identity, sealKey);
  const asked = await link.ask('secrets.read', { ...request, site: 'south', name: 'south' });
  t.like(asked, { kind: 'failure', code: 'ERR_SITE_MESSAGE' });
  const frame = await link.ask('secrets.read', request);
  const box: unknown = Object(frame.kind === 'reply' ? frame.value : {}).box;
  if (!(box instanceof Uint8Array)) return t.fail('the reply has no box');
  t.true(unseal(box, key, 'north').includes(northValue));
  t.throws(() => unseal(box, generateSealKey(), 'north'));
  t.throws(() => unseal(box, key, 'south'));
  for (const place of [0, 40, box.length - 1]) {
    const altered = Buffer.from(box);
    altered.writeUInt8((altered[place] ?? 0) ^ 1, place);
    t.throws(() => unseal(altered, key, 'north'), undefined, `byte ${place}`);
  }
  t.throws(() => unseal(box.subarray(0, 20), key, 'north'), { message: /truncated/ });
  const empty = unseal(seal(Buffer.alloc(0), sealKey, 'north'), key, 'north');
  t.is(empty.length, 0);
});

test('a proxy cannot read the secrets of a site, and cannot replace its key', async (t) => {
  const { centre } = await stage(t);
  const identity = await joinRaw(t, centre, 'north');
  // A proxy that ends the TLS connection can alter and add requests of the site.
  const link = await RawLink.signIn(t, centre, identity);
  t.true(await link.isWelcome());
  const request = requestOf(identity, sealKeyOf(generateSealKey()));
  const own = generateKey();
  for (const altered of [
    { ...request, sealKey: sealKeyOf(generateSealKey()) },
    { ...request, nonce: Buffer.alloc(16, 1) },
    requestOf({ ...identity, key: own }, request.sealKey),
    requestOf({ ...identity, name: 'south' }, request.sealKey),
  ]) {
    const asked = await link.ask('secrets.read', altered);
    t.like(asked, { kind: 'failure', code: 'ERR_SITE_REFUSED' });
  }
  t.like(await link.ask('secrets.read', request), { kind: 'reply' });
  const renewal = await link.ask('identity.renew', renewalOf('north', own, own));
  t.like(renewal, { kind: 'failure', code: 'ERR_SITE_REFUSED' });
  const stolen = await RawLink.signIn(t, centre, { ...identity, key: own });
  t.false(await stolen.isWelcome());
});

test('a site that reads its secrets again and again is refused, and the others are not', async (t) => {
  const { centre } = await stage(t);
  const identities = [
    await joinRaw(t, centre, 'north'),
    await joinRaw(t, centre, 'south'),
  ] as const;
  const north = await RawLink.signIn(t, centre, identities[0]);
  const south = await RawLink.signIn(t, centre, identities[1]);
  t.true((await north.isWelcome()) && (await south.isWelcome()));
  const read = requestOf(identities[0], sealKeyOf(generateSealKey()));
  const burst = edgeLimits.secretReads.rate?.burst ?? 0;
  for (let sent = 0; sent < burst; sent += 1) {
    t.is((await north.ask('secrets.read', read)).kind, 'reply');
  }
  let last = await north.ask('secrets.read', read);
  for (let sent = 0; sent < 500 && last.kind === 'reply'; sent += 1) {
    last = await north.ask('secrets.read', read);
  }
  t.like(last, { kind: 'failure', code: 'ERR_SITE_LINK' });
  const other = requestOf(identities[1], read.sealKey);
  t.is((await south.ask('secrets.read', other)).kind, 'reply');
});

test('a key without a shared secret is refused as a malformed request', async (t) => {
  const { centre } = await stage(t);
  const identity = await joinRaw(t, centre, 'north');
  const link = await RawLink.signIn(t, centre, identity);
  t.true(await link.isWelcome());
  const one = Buffer.alloc(32);
  one.writeUInt8(1);
  for (const sealKey of [Buffer.alloc(32), one]) {
    const asked = await link.ask('secrets.read', requestOf(identity, sealKey));
    t.like(asked, { kind: 'failure', code: 'ERR_SITE_MESSAGE' });
  }
});

test('a site refuses secrets that its centre has not signed, and keeps the former ones', async (t) => {
  const centreKey = generateKey();
  const stranger = generateKey();
  const contentOf = (value: string): Buffer =>
    Buffer.from(JSON.stringify({ '*': { password: value } }));
  let signer = centreKey;
  let value = 'first';
  const at = 1000;
  let provided: ReadSecrets | undefined;
  const answer = ({ sealKey, nonce }: Asked): Promise<unknown> => {
    const digest = digestOfSecrets('north', contentOf(value));
    const box = seal(contentOf(value), sealKey, 'north');
    const parts = signedSecrets('north', nonce, { digest, box, at });
    const reply = { digest, box, at, signature: signParts(signer, secretsPurpose, parts) };
    sent.push(reply);
    return Promise.resolve(reply);
  };
  const sent: unknown[] = [];
  const listeners: Listener[] = [];
  let reply = answer;
  const call = (_message: unknown, asked: Asked): Promise<unknown> => reply(asked);
  const context = {
    host: {
      provide: (_key: unknown, service: ReadSecrets) => {
        provided = service;
      },
      closing: new AbortController().signal,
      logger: createSilentLogger(),
    },
    link: { handle: () => {}, onChange: (it: Listener) => listeners.push(it), call },
    directory: temporaryDirectory(t),
    identity: () => ({ centreKey: publicBytesOf(centreKey), key: stranger }),
    options: { name: 'north' },
  };
  // The part uses only these members.
  const part = await openSiteSecrets(context as unknown as SiteContext);
  const request = { id: 'web1', saltenv: undefined, pillarenv: undefined };
  await provided?.refresh();
  t.deepEqual(await part.pillar?.provide(request), { password: 'first' });
  signer = stranger;
  value = 'second';
  await t.throwsAsync(async () => provided?.refresh(), { code: 'ERR_SITE_SECRETS' });
  t.deepEqual(await part.pillar?.provide(request), { password: 'first' });
  signer = centreKey;
  await provided?.refresh();
  t.deepEqual(await part.pillar?.provide(request), { password: 'second' });
  // A proxy that ends the TLS connection can record replies, and invent them.
  const nothing = { at, signature: Buffer.alloc(64) };
  const repliesOf = (forged: unknown) => () => Promise.resolve(forged);
  const later = async (asked: Asked) => ({ ...Object(await answer(asked)), at: 2000 });
  for (const forged of [repliesOf(sent[0]), repliesOf(nothing), later]) {
    reply = forged;
    await t.throwsAsync(async () => provided?.refresh(), { code: 'ERR_SITE_SECRETS' });
    t.deepEqual(await part.pillar?.provide(request), { password: 'second' });
  }
  // The signed time decides whether the site reads its secrets again over the same connection.
  await provided?.refresh(999);
  await t.throwsAsync(async () => provided?.refresh(1000), { code: 'ERR_SITE_SECRETS' });
  for (const listener of listeners) listener({ isConnected: false });
  await t.throwsAsync(async () => provided?.refresh(999), { code: 'ERR_SITE_SECRETS' });
});

test('a key file without a key of its type is refused, without its content', async (t) => {
  const directory = temporaryDirectory(t);
  await writeKey(directory, 'seal-key.pem', generateKey());
  const ofOtherType = await t.throwsAsync(readKey(directory, 'seal-key.pem', 'x25519'));
  writeFileSync(path.join(directory, 'seal-key.pem'), 'no-key-5d1f');
  const damaged = await t.throwsAsync(readKey(directory, 'seal-key.pem', 'x25519'));
  for (const error of [ofOtherType, damaged]) {
    t.like(error, { code: 'ERR_SITE_STATE' });
    t.regex(error.message, /seal-key\.pem contains no x25519 key$/);
  }
});
