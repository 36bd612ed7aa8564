/**
 * Opens the store that the members of a cluster share, and the channel for their messages outside
 * the log.
 */

import { hkdfSync } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { type ClusterOptions, type FixedConfig, storeDirectory } from '#config';
import { CallGate, type Cluster, clusterPlaceOf, slots } from '#master';
import { isWireMap, packLocal, unpackLocal, type WireMap } from '#minion-protocol';
import { describeSystemError, nkeySeedOf } from '#runtime';
import { StoreError } from '#store';
import { loadLogEngine } from './log/log-engine.ts';
import type { LogStore } from './log/log-store.ts';
import type { TransactionLog } from './log/transaction-log.ts';
import { MemberVersions } from './versions.ts';

/** The cluster from the point of view of a member, with its store and log. */
export interface OpenCluster extends Cluster {
  readonly store: LogStore;
  readonly log: TransactionLog;
  /** Secret that the members share. The servers of the log do not have it. */
  readonly secret: Uint8Array;
}

/** Permission bits for accounts other than the owner of a file. */
const othersMay = 0o077;

/** Size of a generated secret, in bytes. */
export const secretBytes = 32;

/**
 * Reads the secret of the cluster.
 * @throws StoreError ERR_CLUSTER_SECRET
 */
export async function readSecret(file: string): Promise<Uint8Array> {
  const text = readPrivately(file, 'ERR_CLUSTER_SECRET', (reason) => {
    const hint =
      'create it with saltbridge cluster init (first member) or saltbridge cluster join (others)';
    return `cannot read the secret of the cluster: ${reason}; ${hint}`;
  });
  const secret = Buffer.from(text.trim(), 'base64');
  if (secret.length >= secretBytes) return new Uint8Array(secret);
  throw new StoreError(
    'ERR_CLUSTER_SECRET',
    `${file}: must contain at least ${secretBytes} bytes in base64`,
  );
}

/** Derives a key for one purpose from the cluster's secret, for {@link Cluster.derive}. */
export function deriveClusterKey(secret: Uint8Array, name: string, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, name, `saltbridge ${purpose}`, 32));
}

/**
 * Returns a function that reads a file each time it is called. If the file cannot be read, the
 * function returns the previous content.
 */
function followFile(
  file: string | undefined,
  read = (text: string): string => text,
): (() => Uint8Array) | undefined {
  if (file === undefined) return undefined;
  let known = Buffer.from(read(readPrivately(file)));
  return () => {
    try {
      known = Buffer.from(read(readPrivately(file)));
    } catch {
      // Another program may be replacing the file at this moment.
    }
    return known;
  };
}

/**
 * Reads a file that only its owner may read.
 * @throws StoreError with the given code if others can read the file, or it cannot be read
 */
function readPrivately(
  file: string,
  code: 'ERR_CLUSTER_RIGHTS' | 'ERR_CLUSTER_SECRET' = 'ERR_CLUSTER_RIGHTS',
  describe = (reason: string): string => `cannot read the NATS credentials: ${reason}`,
): string {
  try {
    if ((statSync(file).mode & othersMay) !== 0) {
      throw new StoreError(code, `other users can read ${file}; run: chmod 600 ${file}`);
    }
    return readFileSync(file, 'utf8');
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    const reason = describeSystemError(cause) ?? String(cause);
    throw new StoreError(code, describe(reason), { cause });
  }
}

/**
 * Connects to the log of a cluster.
 * @throws StoreError ERR_CLUSTER_LOG, ERR_STORE_UNAVAILABLE
 */
export async function openClusterLog(
  options: ClusterOptions,
  { isFounding = false }: { readonly isFounding?: boolean } = {},
): Promise<TransactionLog> {
  const { openJetStreamLog } = await loadLogEngine();
  const { name, nats, user, passwordFile, replicas = 3 } = options;
  const read = (file: string | undefined) =>
    file === undefined ? undefined : readFileSync(file, 'utf8');
  const [ca, cert] = [read(options.tlsCa), read(options.tlsCert)];
  const key = options.tlsKey === undefined ? undefined : readPrivately(options.tlsKey);
  const isTls = ca !== undefined || cert !== undefined || nats.some((it) => it.startsWith('tls:'));
  return openJetStreamLog({
    servers: nats,
    cluster: name,
    create: isFounding ? { replicas } : undefined,
    user,
    password: passwordFile === undefined ? undefined : readPrivately(passwordFile).trim(),
    credentials: followFile(options.credentialsFile),
    nkeySeed: followFile(options.nkeyFile, nkeySeedOf),
    tls: isTls
      ? {
          ...(ca === undefined ? {} : { ca }),
          ...(cert === undefined ? {} : { cert }),
          ...(key === undefined ? {} : { key }),
        }
      : undefined,
  });
}

export interface ClusterDeps {
  readonly config: Pick<FixedConfig, 'stateDir'>;
  readonly options: ClusterOptions;
  /** Connects to the log. Default: connects to the NATS servers of the configuration. */
  readonly connect?: (() => Promise<TransactionLog>) | undefined;
  readonly now: () => number;
  readonly closing: AbortSignal;
  readonly onFull?: (isFull: boolean) => void;
  /** Function that is called once if this master can no longer be a member of the cluster. */
  readonly onLost?: (error: StoreError) => void;
}

const defaultStaleAfterSeconds = 600;
/** Maximum interval at which the end of the log is read, in milliseconds. */
const maxCheckMs = 5_000;
const lookMs = 500;

/** Calls `look` at regular intervals until the signal is aborted. */
function repeat(look: () => void, closing: AbortSignal): void {
  const timer = setInterval(look, lookMs).unref();
  closing.addEventListener('abort', () => clearInterval(timer), { once: true });
}

/**
 * Delay before other members continue the work of a stopped member, in milliseconds. It begins when
 * the store reports the member as stopped.
 */
const goneAfterMs = 10_000;

/**
 * Returns a function that reports whether a member is gone. A member is gone if it was removed, or
 * if the store has reported it as stopped for at least {@link goneAfterMs}.
 */
function watchMembers(
  store: Pick<LogStore, 'status'>,
  closing: AbortSignal,
): (member: string) => boolean {
  const missed = new Map<string, number>();
  const look = (): void => {
    for (const { name, isAlive } of store.status.members) {
      if (isAlive) missed.delete(name);
      else if (!missed.has(name)) missed.set(name, performance.now());
    }
  };
  repeat(look, closing);
  return (member) => {
    if (store.status.members.every(({ name }) => name !== member)) return true;
    const since = missed.get(member);
    return since !== undefined && performance.now() - since >= goneAfterMs;
  };
}

/**
 * Opens the store of a member and connects it to the cluster.
 * @throws StoreError, with the errors of opening the store of a member
 */
export async function openCluster(deps: ClusterDeps): Promise<OpenCluster> {
  const { config, options, now, closing, onLost = () => {} } = deps;
  const { member, secretFile } = clusterPlaceOf(options, config.stateDir);
  const { name, acknowledge, whenAlone } = options;
  const { staleAfterSeconds = defaultStaleAfterSeconds } = options;
  const staleAfterMs = staleAfterSeconds === 0 ? Infinity : staleAfterSeconds * 1000;
  const secret = await readSecret(secretFile);
  const { openLogStore } = await loadLogEngine();
  const log = await (deps.connect ?? (() => openClusterLog(options)))();
  let store: LogStore;
  try {
    store = await openLogStore({
      directory: storeDirectory(config.stateDir),
      log,
      secret,
      cluster: name,
      member,
      now,
      onFenced: onLost,
      onDiverged: onLost,
      onFull: deps.onFull,
      acknowledge,
      whenAlone,
      checkIntervalMs: Math.min(maxCheckMs, staleAfterMs / 4),
    });
  } catch (error) {
    await log.close();
    throw error;
  }
  const isStale = (): boolean => store.uncertainMs > staleAfterMs;
  const calls = new CallGate();
  const versions = await MemberVersions.open(store, member, closing);
  const listeners = new Map<string, (value: WireMap, from: string) => void>();
  store.onMessage((body, from) => {
    const message = unpackLocal(body);
    if (!isWireMap(message) || typeof message.kind !== 'string') return;
    if (isWireMap(message.value)) listeners.get(message.kind)?.(message.value, from);
  });
  return {
    name,
    member,
    store,
    log,
    secret,
    status: () => {
      const { health: _health, ...shown } = store.status;
      const members = shown.members.map((it) => ({ ...it, versions: versions.of(it.name) }));
      const names = members.filter((it) => it.isAlive).map((it) => it.name);
      const warnings = [...shown.warnings, ...versions.differences(names)];
      const own = { isStale: isStale(), isDraining: calls.isClosed };
      return { name, member, ...shown, members, warnings, ...own };
    },
    calls,
    announce: (kind, version) => versions.announce(kind, version),
    isStale,
    isGone: watchMembers(store, closing),
    slot: () => {
      const names = store.status.members.map((it) => it.name).sort();
      return Math.max(0, names.indexOf(member)) % slots;
    },
    derive: (purpose) => deriveClusterKey(secret, name, purpose),
    follow: (prefix, listener) => store.onChange(prefix, listener, closing),
    send: (kind, value) => {
      try {
        store.send(packLocal({ kind, value }));
      } catch (error) {
        // Messages outside the log may be lost at any time, so a failure is ignored.
        if (!(error instanceof StoreError)) throw error;
      }
    },
    onMessage: (kind, listener) => void listeners.set(kind, listener),
  };
}
