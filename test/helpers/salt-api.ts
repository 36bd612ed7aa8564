/**
 * Starts Salt's HTTP API with a master in memory and two embedded minions, like the installation
 * from which responses were recorded.
 */
import { request as httpRequest } from 'node:http';
import type { ExecutionContext } from 'ava';
import type { MasterOptions } from '#config';
import type { MasterParts } from '#master/master-parts.ts';
import { createMinion, type MinionFunction, type WireMap } from '#minion-protocol';
import { createSaltApi, type SaltApi, type SaltApiOptions } from '#salt-api';
import { otherKey } from './connected-minion.ts';
import { startVectorMaster, type VectorMaster } from './vector-master.ts';
import { pem } from './vectors.ts';

/** Rights of the users in the recorded installation. */
const recordedRights: Readonly<Record<string, readonly unknown[]>> = {
  admin: ['.*', '@jobs', '@runner', '@wheel'],
  limited: ['test.*', 'grains.items'],
  scoped: [{ web1: ['test.*'] }],
  noperms: [],
};

/** Password of all users. */
export const password = 's3cret';

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** Parsed body of a JSON response. Its type is `unknown`, because tests check it. */
  readonly json: unknown;
}

export interface ApiRequest {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Body of the request. Text is sent unchanged, everything else as JSON. */
  readonly body?: unknown;
}

export interface RunningApi extends Omit<VectorMaster, 'ask'> {
  readonly api: SaltApi;
  readonly port: number;
  ask(request: ApiRequest): Promise<ApiAnswer>;
  /**
   * Logs in.
   * @returns the session token
   */
  login(username?: string): Promise<string>;
  /** Sends `POST /` with a session. */
  run(token: string, body: unknown): Promise<ApiAnswer>;
}

export interface ApiSetup {
  readonly config?: Partial<MasterOptions>;
  readonly extensions?: NonNullable<MasterParts['extensions']>;
  readonly options?: SaltApiOptions;
  /** Configuration that a reload reads. Default: the configuration cannot be reloaded. */
  readonly readConfig?: NonNullable<MasterParts['readConfig']>;
  /** Path of the log-in. Default: `/login`. */
  readonly login?: string;
  /** Grains of a minion. Default: `os`. */
  readonly grains?: (id: string) => WireMap;
  /** Pillar of a minion. Default: empty. */
  readonly pillar?: (id: string) => WireMap;
  /** Functions of both minions. */
  readonly functions?: Readonly<Record<string, MinionFunction>>;
  /** Ids of the minions. Default: those of the recordings. */
  readonly minions?: readonly string[];
  /** Ids of minions whose keys are pending. */
  readonly pending?: readonly string[];
  /** Ids of minions with accepted keys that do not run. */
  readonly silent?: readonly string[];
}

/** Starts the API, the master and the minions. They are closed at the end of the test. */
export async function startApi(t: ExecutionContext, setup: ApiSetup = {}): Promise<RunningApi> {
  const { minions = ['web1', 'db1'], silent = [], pending = [], pillar } = setup;
  const master = await startVectorMaster(t, {
    startAt: Date.now(),
    ...(setup.extensions === undefined ? {} : { extensions: setup.extensions }),
    ...(setup.readConfig === undefined ? {} : { readConfig: setup.readConfig }),
    ...(pillar === undefined ? {} : { pillar: async ({ id }) => pillar(id) }),
    keys: [
      ...[...minions, ...silent].map(otherKey),
      ...pending.map((id) => ({ ...otherKey(id), directory: 'minions_pre' as const })),
    ],
    config: {
      timeout: 20,
      externalAuth: { sharedsecret: recordedRights },
      ...setup.config,
      eauth: { sharedsecret: password, ...setup.config?.eauth },
    },
  });
  for (const id of minions) await startMinion(t, master, id, setup);
  const api = await createSaltApi(master.master, { host: '127.0.0.1', ...setup.options });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  const ask = (request: ApiRequest): Promise<ApiAnswer> => send(port, request);
  const run = (token: string, body: unknown): Promise<ApiAnswer> =>
    ask({ method: 'POST', path: '/', headers: json(token), body });
  return { ...master, api, port, ask, run, login: (username) => login(ask, username, setup.login) };
}

/**
 * Returns options with which a user may read events.
 * @param tag - glob that the tags must match
 */
export function mayRead(user: string, tag: string): Pick<MasterOptions, 'acl'> {
  const resource = { tag };
  const rule = { name: 'reads', effect: 'allow', subject: { user }, resource } as const;
  return { acl: { rules: [{ ...rule, action: 'subscribe' }] } };
}

/** Returns the headers of a request with a JSON body. */
export function json(token?: string): Record<string, string> {
  const common = { accept: 'application/json', 'content-type': 'application/json' };
  return token === undefined ? common : { ...common, 'x-auth-token': token };
}

async function login(
  ask: (request: ApiRequest) => Promise<ApiAnswer>,
  username = 'admin',
  path = '/login',
): Promise<string> {
  const body = { username, password, eauth: 'sharedsecret' };
  const { headers } = await ask({ method: 'POST', path, headers: json(), body });
  return String(headers['x-auth-token']);
}

async function startMinion(
  t: ExecutionContext,
  { dial }: VectorMaster,
  id: string,
  { functions = {}, grains }: ApiSetup,
): Promise<void> {
  const keys = { ...pem('other_minion'), masterPem: undefined, trustMaster: async () => {} };
  const minion = createMinion({
    id,
    transport: dial(id),
    keys,
    functions,
    grains: { os: 'Debian', ...grains?.(id), id },
  });
  t.teardown(() => minion.stop());
  await minion.start();
}

/** Sends a request over a new connection. */
export function send(port: number, request: ApiRequest): Promise<ApiAnswer> {
  const { method = 'GET', path, headers = {}, body } = request;
  const bytes = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(
      { port, host: '127.0.0.1', method, path, headers, agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          const { statusCode: status = 0, headers: received } = response;
          resolve({ status, headers: received, text, json: tryJson(text) });
        });
      },
    );
    outgoing.on('error', reject);
    outgoing.end(bytes);
  });
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
