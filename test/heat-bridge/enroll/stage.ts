/**
 * Starts a master in memory with a bridge for enrolment, its HTTP API, and minions that sign in.
 */
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import { type Bridge, createBridge } from '#guests';
import type { KeyInfo, MasterEvent } from '#master';
import {
  createMinion,
  generateKeyString,
  keyFingerprint,
  type Minion,
  type MinionFunction,
  parsePrivateKey,
  type WireMap,
} from '#minion-protocol';
import { createMinionHandshake } from '#minion-protocol/minion-handshake.ts';
import { createSaltApi } from '#salt-api';
import type { Store } from '#store';
import { waitMs } from '../../helpers/deadline.ts';
import {
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';

/** Certificate that machines are configured to trust. */
const certificate = fileURLToPath(
  new URL('../../../test/fixtures/tls/master.pem', import.meta.url),
);

export type PairName = 'minion' | 'other_minion' | 'minion2';

/** Returns the SHA-256 fingerprint of a key of the recorded vectors. */
export function fingerOf(pair: PairName): string {
  return keyFingerprint(pem(pair).publicPem, 'sha256');
}

/** A response of the HTTP API. */
interface Answer {
  readonly status: number;
  readonly code: string | undefined;
}

export interface Stage extends VectorMaster {
  readonly bridge: Bridge;
  /** Starts a minion. It is stopped at the end of the test. */
  minion(id: string, pair?: PairName, more?: MinionMore): Minion;
  /** Sends a request of a machine below `/bridge/v1/enroll`. */
  post(path: 'claim' | 'failure', body: object): Promise<Answer>;
  key(id: string): Promise<KeyInfo | undefined>;
  /** Resolves with the next event that has this tag. */
  next(tag: string): Promise<MasterEvent>;
}

interface MinionMore {
  readonly grains?: Readonly<Record<string, string>>;
  readonly functions?: Readonly<Record<string, MinionFunction>>;
}

/**
 * Starts the master.
 * @param enroll - further options of the section `enroll`; null: the section is absent
 */
export async function startStage(
  t: ExecutionContext,
  enroll: object | null = {},
  options: VectorMasterOptions = {},
): Promise<Stage> {
  const bridge = createBridge();
  const section = { masters: ['127.0.0.1'], url: 'https://127.0.0.1', certificate, ...enroll };
  const { bridge: more, ...config } = options.config ?? {};
  const sections = { ...(enroll === null ? {} : { enroll: section }), ...more };
  const running = await startVectorMaster(t, {
    startAt: Date.now(),
    keys: [],
    ...options,
    config: { ...config, ...(Object.keys(sections).length === 0 ? {} : { bridge: sections }) },
    extensions: [bridge],
  });
  const api = await createSaltApi(running.master, { host: '127.0.0.1', plugins: [bridge.http] });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  return {
    ...running,
    bridge,
    minion: (id, pair = 'minion', more = {}) => startMinion(t, running, id, pair, more),
    post: (path, body) => post(`http://127.0.0.1:${port}/bridge/v1/enroll/${path}`, body),
    key: async (id) => (await running.master.keys.list()).find((it) => it.id === id),
    next: (tag) => nextEvent(running, tag),
  };
}

type SignIn = ReturnType<ReturnType<typeof createMinionHandshake>['step']>;

/** Returns the reply to a sign-in of the minion `web-1` with this key. */
export async function signIn(
  stage: Pick<Stage, 'dial'>,
  pair: PairName,
  autosignGrains: WireMap,
  version: 2 | 3 = 3,
): Promise<SignIn> {
  const { privatePem, publicPem } = pem(pair);
  const handshake = createMinionHandshake({
    id: 'web-1',
    version,
    privateKey: parsePrivateKey(privatePem),
    publicPem,
    token: generateKeyString(),
    autosignGrains,
  });
  return handshake.step(await stage.dial('somebody').request(handshake.request(), waitMs));
}

/** Returns the reply to a sign-in of a minion that presents a ticket as a grain. */
export async function showGrain(
  stage: Pick<Stage, 'dial'>,
  ticket: string,
  pair: PairName,
  version?: 2 | 3,
): Promise<string> {
  return (await signIn(stage, pair, { saltbridge_ticket: ticket }, version)).state;
}

/** Copies all rows of a store, so that they can be written to another store. */
export async function copyOf(store: Store): Promise<(other: Store) => Promise<void>> {
  const rows: { op: 'put'; key: readonly string[]; value: Uint8Array }[] = [];
  for await (const { key, value } of store.list([])) rows.push({ op: 'put', key, value });
  return async (other) => {
    if (rows.length > 0) await other.write(rows);
  };
}

function startMinion(
  t: ExecutionContext,
  { dial }: VectorMaster,
  id: string,
  pair: PairName,
  more: MinionMore,
): Minion {
  const keys = { ...pem(pair), masterPem: undefined, trustMaster: async () => {} };
  const minion = createMinion({
    id,
    keys,
    transport: dial(id, '192.0.2.7'),
    acceptanceWaitMs: 20,
    ...more,
  });
  t.teardown(() => minion.stop());
  return minion;
}

async function post(url: string, body: object): Promise<Answer> {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  const json: unknown = await answer.json();
  return { status: answer.status, code: codeOf(json) };
}

function codeOf(json: unknown): string | undefined {
  const isError = typeof json === 'object' && json !== null && 'error' in json;
  const { error } = isError ? json : { error: undefined };
  const hasCode = typeof error === 'object' && error !== null && 'code' in error;
  return hasCode ? String(error.code) : undefined;
}

async function nextEvent({ master }: VectorMaster, tag: string): Promise<MasterEvent> {
  for await (const event of await master.events.subscribe({ match: tag })) return event;
  throw new Error(`no event ${tag}`);
}
