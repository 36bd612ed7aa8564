/**
 * The environment of an attack: a master on one real transport, a hostile minion and a victim, a
 * stranger, the operator, secrets beside public data, and an inventory of all stored data before
 * and after.
 */
import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import { openSeal } from '#master/auth/seal.ts';
import {
  type CrypticleKey,
  createTcpListener,
  createWebsocketListener,
  createZeromqListener,
  type MasterTransport,
  parseKeyString,
  parsePrivateKey,
  parsePublicKey,
  type WireValue,
} from '#minion-protocol';
import { openPrivateReply, openSendReply } from '#minion-protocol/reply.ts';
import { minionToken } from '#minion-protocol/x931.ts';
import { createMemoryStore } from '#store';
import { layOut } from '../helpers/file-tree.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import {
  directories,
  layOutVectorMaster,
  RECORDED_AT,
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../helpers/vector-master.ts';
import {
  aesKey,
  altered,
  freshNonce,
  recorded,
  sessionKey,
  token,
} from '../helpers/vector-requests.ts';
import { keys, pem } from '../helpers/vectors.ts';
import { type Door, openDoor, type Wire } from './doors.ts';

/**
 * Id of the accepted minion that attacks. Its requests were recorded, and it is pinned at protocol
 * version 3.
 */
export const HOSTILE: string = keys.minionId;
/** Id of the accepted minion that is attacked. It has its own key, token and session. */
export const VICTIM = 'victim';
/** Text in all places that must not be read. Tests search for it in every reply. */
export const SECRET = 'planted-secret-4711';

export type Load = Readonly<Record<string, WireValue | undefined>>;

/** An accepted minion with the keys for its requests. */
export interface Actor {
  readonly id: string;
  readonly key: CrypticleKey;
  readonly token: Uint8Array;
}

export const hostile: Actor = { id: HOSTILE, key: sessionKey, token };
export const victim: Actor = {
  id: VICTIM,
  key: parseKeyString(keys.ephemeral),
  token: minionToken(parsePrivateKey(pem('other_minion').privatePem)),
};

/** A running master with its environment. */
export interface Site {
  readonly operator: VectorMaster;
  readonly wire: Wire;
  readonly requestPort: number;
  readonly publishPort: number;
  /** Connection of the attacker. */
  readonly door: Door;
  /** Returns the digests of all files and rows, by name. */
  inventory(): Promise<Map<string, string>>;
  /** Returns the names in the inventory that `work` adds, removes or changes. */
  changesBy(work: () => Promise<unknown>): Promise<string[]>;
}

const lateListener = { host: '127.0.0.1', requestPort: 0, publishPort: 0 } as const;
const listeners: Readonly<Record<Wire, () => MasterTransport>> = {
  zeromq: () => createZeromqListener(lateListener),
  tcp: () => createTcpListener(lateListener),
  ws: () => createWebsocketListener(lateListener),
};

export interface SiteOptions extends VectorMasterOptions {
  /** Protocol versions that the minions have proved. Default: 3. */
  readonly pins?: Readonly<Record<string, number>>;
}

/** Starts a master. It is closed at the end of the test. */
export async function startSite(
  t: ExecutionContext,
  wire: Wire,
  { pins = {}, ...options }: SiteOptions = {},
): Promise<Site> {
  const directory = temporaryDirectory(t);
  const config = { ...fileRoots(directory), ...unlimited, ...options.config };
  const store = createMemoryStore({ now: () => RECORDED_AT });
  await layOutMaster(directory, store, { [HOSTILE]: 3, [VICTIM]: 3, ...pins });
  const operator = await startVectorMaster(t, {
    pillar: async ({ id }) => ({ owner: id, ...(id === VICTIM ? { password: SECRET } : {}) }),
    ...options,
    config,
    directory,
    store,
    transport: listeners[wire](),
  });
  const { requestPort, publishPort } = await operator.master.status();
  const inventory = (): Promise<Map<string, string>> => takeInventory(operator);
  return {
    operator,
    wire,
    requestPort,
    publishPort,
    door: await openDoor(t, wire, requestPort),
    inventory,
    changesBy: async (work) => {
      const before = await inventory();
      await work();
      return differences(before, await inventory());
    },
  };
}

/**
 * Options without rate limits. Rate limits have their own tests, and would only slow these attacks
 * down.
 */
const unlimited = { limits: { requestsPerSecond: 0, eventsPerSecond: 0, authsPerSecond: 0 } };

/**
 * Creates a file root with a public file, and secrets that can be reached only outside of the root.
 */
function fileRoots(directory: string): { fileRoots: { base: string[] } } {
  const root = path.join(directory, 'srv', 'base');
  layOut(root, {
    'published.txt': 'for everybody',
    'sub/deep.txt': 'deep',
    'way-out': { link: '../canary' },
    'way-out-of-all': { link: '../../pki/master.pem' },
  });
  layOut(path.join(directory, 'srv'), { canary: SECRET, 'base-beside/canary': SECRET });
  return { fileRoots: { base: [root] } };
}

async function layOutMaster(
  directory: string,
  store: VectorMaster['store'],
  pins: Readonly<Record<string, number>>,
): Promise<void> {
  const config = resolveMasterConfig(directories(directory));
  await layOutVectorMaster(config, store, [
    { directory: 'minions', id: HOSTILE, publicPem: pem('minion').publicPem },
    { directory: 'minions', id: VICTIM, publicPem: pem('other_minion').publicPem },
  ]);
  const seal = await openSeal(config.stateDir);
  const session = seal.seal(Buffer.from(`${RECORDED_AT} ${victim.key.text}`));
  await store.write([
    { op: 'put', key: ['secrets', 'sessions', VICTIM], value: session },
    ...Object.entries(pins).map(([id, version]) => {
      return { op: 'put', key: ['pins', id], value: Uint8Array.of(version) } as const;
    }),
  ]);
}

const plainRequest = recorded('aes_functions', '_master_opts v3');

/** Returns a request of protocol version 3 with an actor's key and token and a new nonce. */
export function requestBy(actor: Actor, load: Load, nonce: string = freshNonce()): Buffer {
  return altered(plainRequest, {
    envelope: { id: actor.id },
    load: { env_only: undefined, id: actor.id, tok: actor.token, ...load, nonce },
    key: actor.key,
  });
}

/** Sends a request as an actor, and decrypts the reply. */
export async function askAs(actor: Actor, door: Door, load: Load): Promise<WireValue> {
  const nonce = freshNonce();
  const reply = await door.ask(requestBy(actor, load, nonce));
  return openSendReply(reply, { version: 3, key: actor.key, nonce });
}

/** Returns a request of protocol version 2, encrypted with the key that all minions share. */
export function oldRequest(load: Load, nonce: string = freshNonce()): Buffer {
  const vector = recorded('minion_event', 'start event v2');
  return altered(vector, {
    load: { tag: undefined, data: undefined, ...load, nonce },
    key: aesKey,
  });
}

/** Decrypts the pillar in a reply with a minion's own private key. */
export function openPillarOf(id: string, reply: Uint8Array, nonce: string): WireValue {
  return openPrivateReply(reply, {
    version: 3,
    nonce,
    minionKey: parsePrivateKey(pem(id === HOSTILE ? 'minion' : 'other_minion').privatePem),
    masterKey: parsePublicKey(pem('master').publicPem),
    encAlgo: 'OAEP-SHA1',
    sigAlgo: 'PKCS1v15-SHA1',
  });
}

/** Checks that the master accepts requests of both minions, and fires the event of each. */
export async function bothAreHeard(t: ExecutionContext, { operator, door }: Site): Promise<void> {
  for (const actor of [hostile, victim]) {
    const tag = `salt/minion/${actor.id}/start`;
    const events = await operator.eventsDuring(async () => {
      t.is(await askAs(actor, door, { cmd: '_minion_event', tag, data: 'up' }), null);
    });
    t.deepEqual(
      events.map((event) => [event.tag, event.data.id]),
      [[tag, actor.id]],
    );
  }
}

/** The audit log grows with each rejected request, so it is not compared. */
const auditLog = path.join('state', 'audit') + path.sep;

async function takeInventory({ directory, store }: VectorMaster): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort()) {
    if (name.startsWith(auditLog)) continue;
    const place = path.join(directory, name);
    const stats = lstatSync(place);
    const content = stats.isFile() ? digest(readFileSync(place)) : 'no file';
    found.set(name, `${stats.mode.toString(8)} ${content}`);
  }
  for await (const { key, value } of store.list([])) {
    if (key[0] !== 'audit') found.set(key.join('/'), digest(value));
  }
  return found;
}

function digest(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function differences(before: Map<string, string>, after: Map<string, string>): string[] {
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names].filter((name) => before.get(name) !== after.get(name)).sort();
}
