/**
 * The master that the hostile-input matrix attacks. It runs in memory with all services and all
 * extensions of the bridge. There is a hostile and an honest minion, user and guest.
 */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { startMetadataAgent } from '#guests/metadata-agent/metadata-agent.ts';
import { type Contributions, type Master, masterServices } from '#master';
import type { MinionTransport } from '#minion-protocol/transport/transport.ts';
import { createSaltApi } from '#salt-api';
import { openEmbeddedStore, type Store } from '#store';
import { echo, twice } from '../../heat-bridge/stage.ts';
import type { Cleanup } from '../../helpers/cleanup.ts';
import { SpeakingMinion } from '../../helpers/speaking-minion.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';
import { send } from '../http-fuzz.ts';
import { SpoilingServer } from './spoiling-server.ts';
import type { ForeignNames } from './values.ts';

const password = 's3cret';
const certificate = fileURLToPath(new URL('../../fixtures/tls/master.pem', import.meta.url));
/** Secret of the metadata agent `net-1`. */
export const agentSecret = 'the secret of the agent of these networks';

/** Address of each owner of HTTP requests. */
export const addresses = { hostile: '127.0.0.2', honest: '127.0.0.3' } as const;

export interface HostileSite {
  readonly master: Master;
  readonly store: Store;
  readonly directory: string;
  readonly contributions: Contributions;
  readonly bridgeMethods: ReturnType<ReturnType<typeof createBridge>['http']['methods']>;
  readonly port: number;
  /** Socket of a metadata agent. It finds the instance `instance-hostile` at 10.0.0.5. */
  readonly agentSocket: string;
  /** Opens a connection to the request port. */
  readonly dial: (minionId: string, address: string) => MinionTransport;
  /** Key of the hostile minion. */
  readonly keys: { readonly publicPem: string };
  readonly hostile: SpeakingMinion;
  readonly honest: SpeakingMinion;
  /** Session tokens by user: `admin`, `hostile`, `honest`, `limited`. */
  readonly sessions: Readonly<Record<string, string>>;
  /** Token of the master of the user `hostile`. */
  readonly token: string;
  readonly foreign: ForeignNames;
  /** Server that the program asks. */
  readonly asked: SpoilingServer;
  /** Ends what entries have opened. */
  readonly cleanup: Cleanup;
  /** Replaces the sessions and the token, because a request may have ended them. */
  logInAgain(): Promise<void>;
  /** Returns the logged errors without an error code since the last call. */
  takeDefects(): string[];
  close(): Promise<void>;
}

/**
 * Starts the master, and signs in and logs in all owners.
 * @param options.isOnDisk - whether the store is on disk, so that its rows do not count as memory
 * in use
 */
export async function startHostileSite({
  isOnDisk,
}: {
  readonly isOnDisk: boolean;
}): Promise<HostileSite> {
  const ends: (() => unknown)[] = [];
  const cleanup: Cleanup = { teardown: (end) => void ends.unshift(end) };
  const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-hostile-'));
  ends.push(() => rmSync(directory, { recursive: true, force: true }));
  const asked = await SpoilingServer.start(cleanup);
  const secretFile = path.join(directory, 'agent.secret');
  writeFileSync(secretFile, agentSecret, { mode: 0o600 });
  const root = path.join(directory, 'srv');
  mkdirSync(root);
  writeFileSync(path.join(root, 'a.txt'), 'public');
  const pillarRoot = path.join(directory, 'pillar');
  mkdirSync(pillarRoot);
  writeFileSync(path.join(pillarRoot, 'top.sls'), "base: {'*': [a]}");
  // Many templates print grains without quotation marks.
  writeFileSync(path.join(pillarRoot, 'a.sls'), 'id: {{ grains.id }}\nos: {{ grains.os }}');
  let contributions: Contributions | undefined;
  const defects: string[] = [];
  const logger = pino({ level: 'error' }, defectStream(defects));
  const extensions = {
    'data-spaces': true,
    deployments: true,
    enrolment: true,
    'metadata-agent': true,
    murano: true,
  };
  const bridge = createBridge({ commands: [echo], plans: [twice], extensions });
  const running = await startVectorMaster(cleanup, {
    // With a clock that stands, honest requests would expire after five minutes.
    usesSystemClock: true,
    ...(isOnDisk
      ? { store: await openEmbeddedStore({ directory: path.join(directory, 'store') }) }
      : {}),
    logger,
    keys: [
      { directory: 'minions', id: 'hostile', publicPem: pem('minion').publicPem },
      { directory: 'minions', id: 'web1', publicPem: pem('minion').publicPem },
      { directory: 'minions', id: 'honest', publicPem: pem('other_minion').publicPem },
    ],
    config: {
      timeout: 0.05,
      gatherJobTimeout: 0.05,
      fileRoots: { base: [root] },
      pillarRoots: { base: [pillarRoot] },
      fileRecv: true,
      // Other tests check the rate limits. Here they would only delay the requests.
      limits: { requestsPerSecond: 0, eventsPerSecond: 0, authsPerSecond: 0 },
      externalAuth: {
        sharedsecret: {
          admin: ['.*', '@runner', '@wheel'],
          hostile: ['test.*', { 'G@os:*': ['grains.*'] }, '@jobs', '@runner'],
          honest: ['test.*'],
          limited: [{ 'web*': ['.*'] }],
        },
      },
      eauth: { sharedsecret: password },
      httpQuery: { hosts: [{ url: asked.origin }], timeout: 0.5, maxBytes: 1_048_576 },
      acl: { rules },
      bridge: {
        enroll: { masters: ['127.0.0.1'], url: 'https://127.0.0.1', certificate },
        guests: { agents: { 'net-1': { secret_file: secretFile } } },
        murano: { unsigned: true },
      },
    },
    extensions: [
      bridge,
      {
        name: 'matrix',
        open: async (host) => {
          contributions = host.use(masterServices.contributions);
          return {};
        },
      },
    ],
  });
  const { master, store, dial } = running;
  const api = await createSaltApi(master, {
    host: '127.0.0.1',
    plugins: [bridge.http],
    webhookDisableAuth: true,
    runnerTimeoutSeconds: 1,
    logger,
  });
  ends.unshift(() => api.close());
  const { port } = await api.listen();
  const minion = async (id: string, keys: 'minion' | 'other_minion', address: string) => {
    const speaking = new SpeakingMinion(cleanup, id, pem(keys), dial(id, address));
    await speaking.signIn();
    return speaking;
  };
  const agentSocket = path.join(directory, 'agent.sock');
  const upstream = `http://127.0.0.1:${port}`;
  const instance = { instance: 'instance-hostile', project: 'p-hostile' };
  const agent = await startMetadataAgent({
    socket: agentSocket,
    nova: { url: upstream, secret: 'guest-secret' },
    master: { url: upstream, name: 'net-1', secret: agentSecret },
    find: async (_networks, address) => (address === '10.0.0.5' ? instance : undefined),
    now: Date.now,
    log: logger,
  });
  ends.unshift(() => agent.close());
  const sessions: Record<string, string> = {};
  let token = '';
  const logInAgain = async (): Promise<void> => {
    for (const user of ['admin', 'hostile', 'honest', 'limited'])
      sessions[user] = await logIn(port, user);
    const form = { username: 'hostile', password, eauth: 'sharedsecret' };
    ({ token } = await master.logins.login(form));
  };
  await logInAgain();
  if (contributions === undefined) throw new Error('the extension was not opened');
  return {
    master,
    store,
    directory: running.directory,
    contributions,
    bridgeMethods: bridge.http.methods(),
    port,
    agentSocket,
    dial,
    keys: pem('minion'),
    hostile: await minion('hostile', 'minion', '2001:db8::1'),
    honest: await minion('honest', 'other_minion', '2001:db8:1::1'),
    sessions,
    get token() {
      return token;
    },
    logInAgain,
    foreign: {
      minion: 'honest',
      project: 'p-honest',
      handle: 'h-honest',
      jid: '20260101000000000000',
    },
    asked,
    cleanup,
    takeDefects: () => defects.splice(0),
    close: async () => {
      for (const end of ends) await end();
    },
  };
}

/** Parameters whose values the rules of the user `limited` check. */
export const limitedNames = [
  ...['match', 'name', 'tgt', 'minion', 'minions', 'id_', 'mods', 'key', 'items', 'expr'],
] as const;

const limitedResource = {
  fun: '*',
  arguments: [{ args: ['web*'] }, ...limitedNames.map((name) => ({ kwargs: { [name]: 'web*' } }))],
};

/** Rules that let hostile owners reach as much code as possible. */
const rules = [
  allow('signals', { subject: { minion: '*' }, action: 'signal', resource: { tag: 'site/*' } }),
  allow('runners', { subject: { minion: '*' }, action: 'runner', resource: { fun: '*' } }),
  allow('jobs', {
    subject: { minion: '*' },
    action: 'publish',
    resource: { fun: 'test.*', within: '*' },
  }),
  allow('mine', { subject: { minion: '*' }, action: 'mine', resource: { fun: '*' } }),
  allow('commands', {
    subject: { user: 'hostile' },
    action: 'command',
    resource: { fun: '*', within: '*' },
  }),
  allow('limited-wheel', {
    subject: { user: 'limited' },
    action: 'wheel',
    resource: limitedResource,
  }),
  allow('limited-runner', {
    subject: { user: 'limited' },
    action: 'runner',
    resource: limitedResource,
  }),
  allow('limited-jobs', {
    subject: { user: 'limited' },
    action: 'publish',
    resource: { fun: '*', within: 'web*' },
  }),
  allow('reads', { subject: { user: '*' }, action: 'subscribe', resource: { tag: '*' } }),
];

/** Returns a stream of log records that collects errors without an error code. */
function defectStream(defects: string[]): Writable {
  return new Writable({
    write: (chunk, _encoding, done) => {
      const { msg, err, cmd } = JSON.parse(String(chunk));
      const hasCode = typeof err?.code === 'string' && /^E[A-Z_]+/.test(err.code);
      if (err !== undefined && !hasCode) {
        defects.push(
          `${msg} ${cmd ?? ''}: ${String(err.stack).split('\n').slice(0, 4).join(' | ')}`,
        );
      }
      done();
    },
  });
}

async function logIn(port: number, username: string): Promise<string> {
  const body = JSON.stringify({ username, password, eauth: 'sharedsecret' });
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const request = { method: 'POST', path: '/login', headers };
  const answer = await send(port, request, Buffer.from(body));
  const [, token = ''] = /"token": ?"(\w+)"/.exec(answer?.text ?? '') ?? [];
  if (token === '') throw new Error(`no session for ${username}: ${answer?.text}`);
  return token;
}
