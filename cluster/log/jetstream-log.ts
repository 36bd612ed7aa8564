import { setTimeout as sleep } from 'node:timers/promises';
import type { ConsumerMessages, JetStreamClient, JetStreamManager } from '@nats-io/jetstream';
import type { NatsConnection, NodeConnectionOptions, Subscription } from '@nats-io/transport-node';
import { errorMessage, loadOptionalPackage, retryDelayMs } from '#runtime';
import { StoreError } from '#store';
import { checkRights } from './rights.ts';
import {
  type LogEntry,
  type LogHealth,
  LogUnavailableError,
  type TransactionLog,
} from './transaction-log.ts';

/** Connection options of a log. */
export interface JetStreamLogOptions {
  /** URLs of the servers, for example `nats://10.0.0.1:4222`. */
  readonly servers: readonly string[];
  /**
   * Name of the cluster, which consists of letters, digits, `-` and `_`. It is part of the names of
   * the stream and its subjects.
   */
  readonly cluster: string;
  /**
   * Creates the stream if it is missing, with this number of replicas. If the option is absent, no
   * stream is created.
   */
  readonly create?: { readonly replicas: number } | undefined;
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  /** Returns a JWT and its key in the format of `nsc`. Called for each connection. */
  readonly credentials?: (() => Uint8Array) | undefined;
  /** Returns the seed of an nkey. Called for each connection. */
  readonly nkeySeed?: (() => Uint8Array) | undefined;
  /** Certificates and key in PEM. */
  readonly tls?:
    | { readonly ca?: string; readonly cert?: string; readonly key?: string }
    | undefined;
  /**
   * Maximum time to wait for servers that are starting or have no leader, in milliseconds. Default:
   * 15,000.
   */
  readonly connectTimeoutMs?: number;
  /** Timeout of a request, in milliseconds. Default: 4,000. */
  readonly requestTimeoutMs?: number;
}

/** Number of bytes reserved for the headers of a message, which count towards `max_payload`. */
const headerBytes = 512;
const messagesAhead = 512;
const progressIntervalMs = 2000;
const pullExpiryMs = 5000;
/**
 * Heartbeat interval of a consumer, in milliseconds. After two missing heartbeats, the consumer is
 * created again on another server.
 */
const heartbeatMs = 1000;
const purgeStep = 10_000;
const duplicateWindowMs = 120_000;
const nanosPerMs = 1_000_000;
const retryDelays = { initialDelayMs: 100, maxDelayMs: 1000 };
const noMessageFound = 10_037;
const streamNotFound = 10_059;

/**
 * Connects to the log of a cluster in NATS JetStream.
 * @throws StoreError ERR_CLUSTER_LOG if the log does not exist and `create` is absent,
 * ERR_CLUSTER_RIGHTS, ERR_STORE_UNAVAILABLE; SaltbridgeError ERR_PACKAGE_MISSING
 */
export async function openJetStreamLog(options: JetStreamLogOptions): Promise<TransactionLog> {
  if (!/^[\w-]{1,64}$/.test(options.cluster)) {
    throw new StoreError(
      'ERR_CLUSTER_LOG',
      `invalid cluster name ${options.cluster}: use 1 to 64 letters, digits, "-" or "_"`,
    );
  }
  const need = 'a cluster';
  const transport = await loadOptionalPackage(
    '@nats-io/transport-node',
    need,
    () => import('@nats-io/transport-node'),
  );
  const { jetstream, jetstreamManager } = await loadOptionalPackage(
    '@nats-io/jetstream',
    need,
    () => import('@nats-io/jetstream'),
  );
  const end = performance.now() + (options.connectTimeoutMs ?? 15_000);
  for (let failures = 1; ; failures += 1) {
    try {
      return await connectOnce();
    } catch (cause) {
      if (cause instanceof StoreError) throw cause;
      if (isRefusedUser(cause)) {
        const message = `the NATS servers ${options.servers.join(', ')} reject the user (${errorMessage(cause)})`;
        throw new StoreError('ERR_CLUSTER_RIGHTS', message, { cause });
      }
      if (performance.now() > end) {
        const message = `cannot open the log at ${options.servers.join(', ')}: ${errorMessage(cause)}`;
        throw new StoreError('ERR_STORE_UNAVAILABLE', message, { cause });
      }
      // This timer keeps the process alive while it is starting.
      await sleep(retryDelayMs(failures, retryDelays, Math.random));
    }
  }

  /** Connects once. Throws while the servers are starting or have no leader. */
  async function connectOnce(): Promise<TransactionLog> {
    const connection = await transport.connect(connectionOptions(transport, options));
    try {
      const excessRights = await checkRights(transport, connection, {
        stream: streamOf(options.cluster),
        subject: subjectOf(options.cluster),
        isFounding: options.create !== undefined,
      });
      const timeout = options.requestTimeoutMs ?? 4000;
      const manager = await jetstreamManager(connection, { checkAPI: false, timeout });
      const client = jetstream(connection, { timeout });
      const log = new JetStreamLog({ connection, manager, client, options, excessRights });
      await log.ensureStream();
      return log;
    } catch (cause) {
      await connection.close();
      throw cause;
    }
  }
}

function streamOf(cluster: string): string {
  return `saltbridge_${cluster}`;
}

function subjectOf(cluster: string): string {
  return `saltbridge.${cluster}`;
}

const refusedUser: ReadonlySet<string> = new Set([
  'AuthorizationError',
  'UserAuthenticationExpiredError',
]);

function isRefusedUser(cause: unknown): boolean {
  return cause instanceof Error && refusedUser.has(cause.name);
}

function connectionOptions(
  { credsAuthenticator, nkeyAuthenticator }: typeof import('@nats-io/transport-node'),
  options: JetStreamLogOptions,
): NodeConnectionOptions {
  const { servers, user, password, credentials, nkeySeed, tls } = options;
  return {
    servers: [...servers],
    name: `saltbridge ${options.cluster}`,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 500,
    pingInterval: 5000,
    timeout: 5000,
    // A member does not need to receive its own announcements.
    noEcho: true,
    ...(user === undefined ? {} : { user, pass: password ?? '' }),
    ...(credentials === undefined ? {} : { authenticator: credsAuthenticator(credentials) }),
    ...(nkeySeed === undefined ? {} : { authenticator: nkeyAuthenticator(nkeySeed) }),
    ...(tls === undefined ? {} : { tls }),
  };
}

function apiCodeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

interface JetStreamLogDeps {
  readonly connection: NatsConnection;
  readonly manager: JetStreamManager;
  readonly client: JetStreamClient;
  readonly options: JetStreamLogOptions;
  readonly excessRights: readonly string[];
}

class JetStreamLog implements TransactionLog {
  readonly #connection: NatsConnection;
  readonly #manager: JetStreamManager;
  readonly #client: JetStreamClient;
  readonly #options: JetStreamLogOptions;
  readonly #stream: string;
  readonly #subject: string;
  readonly #excessRights: readonly string[];
  readonly #listeners = new Set<(bytes: Uint8Array) => void>();
  #announcements: Subscription | undefined;

  constructor({ connection, manager, client, options, excessRights }: JetStreamLogDeps) {
    this.#connection = connection;
    this.#manager = manager;
    this.#client = client;
    this.#options = options;
    this.#stream = streamOf(options.cluster);
    this.#subject = subjectOf(options.cluster);
    this.#excessRights = excessRights;
  }

  get maxEntryBytes(): number {
    return (this.#connection.info?.max_payload ?? 1_048_576) - headerBytes;
  }

  /**
   * Creates the stream if it is missing and `create` is set.
   * @throws StoreError ERR_CLUSTER_LOG
   */
  async ensureStream(): Promise<void> {
    try {
      await this.#manager.streams.info(this.#stream);
    } catch (error) {
      if (apiCodeOf(error) !== streamNotFound) throw error;
      const { create } = this.#options;
      if (create === undefined) {
        throw new StoreError(
          'ERR_CLUSTER_LOG',
          `the NATS servers have no stream ${this.#stream}; run saltbridge cluster init on the first member`,
        );
      }
      await this.#manager.streams.add({
        name: this.#stream,
        subjects: [`${this.#subject}.log`],
        num_replicas: create.replicas,
        duplicate_window: duplicateWindowMs * nanosPerMs,
        // The request goes to the leader, because a follower may return outdated data.
        allow_direct: false,
        deny_delete: true,
      });
    }
  }

  append(id: string, bytes: Uint8Array): Promise<number> {
    return asked(async () => {
      const timeout = this.#options.requestTimeoutMs ?? 4000;
      const options = { msgID: id, timeout };
      const { seq } = await this.#client.publish(`${this.#subject}.log`, bytes, options);
      return seq;
    });
  }

  async *read(from: number, signal: AbortSignal): AsyncIterable<LogEntry> {
    const messages = await asked(async () => {
      const consumer = await this.#client.consumers.get(this.#stream, { opt_start_seq: from });
      // The limit counts messages. With a limit in bytes, the consumer would stop at a larger
      // entry.
      return await consumer.consume({
        max_messages: messagesAhead,
        expires: pullExpiryMs,
        idle_heartbeat: heartbeatMs,
      });
    });
    const stop = (): void => messages.stop();
    signal.addEventListener('abort', stop, { once: true });
    const progress = { position: from - 1 };
    const watchdog = setInterval(
      () => void this.#watch(messages, progress),
      progressIntervalMs,
    ).unref();
    try {
      for await (const message of messages) {
        progress.position = message.seq;
        yield { position: message.seq, bytes: message.data };
      }
    } catch (cause) {
      throw new LogUnavailableError(errorMessage(cause), { cause });
    } finally {
      clearInterval(watchdog);
      signal.removeEventListener('abort', stop);
      messages.stop();
    }
  }

  entry(position: number): Promise<LogEntry | undefined> {
    if (position < 1) return Promise.resolve(undefined);
    return asked(async () => {
      try {
        const found = await this.#manager.streams.getMessage(this.#stream, { seq: position });
        return found === null ? undefined : { position: found.seq, bytes: found.data };
      } catch (error) {
        if (apiCodeOf(error) === noMessageFound) return undefined;
        throw error;
      }
    });
  }

  async trim(to: number): Promise<void> {
    const { first } = await this.health();
    for (let seq = Math.min(first + purgeStep, to + 1); ; seq = Math.min(seq + purgeStep, to + 1)) {
      await asked(() => this.#manager.streams.purge(this.#stream, { seq }));
      if (seq > to) return;
    }
  }

  health(): Promise<LogHealth> {
    return asked(async () => {
      const { state, config, cluster } = await this.#manager.streams.info(this.#stream);
      const followers = cluster?.replicas ?? [];
      const current = followers.filter((it) => it.current && it.offline !== true).length;
      return {
        first: state.messages === 0 ? state.last_seq + 1 : state.first_seq,
        last: state.last_seq,
        replicas: config.num_replicas,
        currentReplicas: current + 1,
        server: `nats-server ${this.#connection.info?.version}`,
        excessRights: this.#excessRights,
      };
    });
  }

  announce(bytes: Uint8Array): void {
    if (this.#connection.isClosed()) return;
    this.#connection.publish(`${this.#subject}.members`, bytes);
  }

  onAnnouncement(listener: (bytes: Uint8Array) => void, signal: AbortSignal): void {
    // All listeners share one subscription. Otherwise the servers would send each message once per
    // listener.
    this.#announcements ??= this.#connection.subscribe(`${this.#subject}.members`, {
      callback: (error, message) => {
        if (error === null) for (const hear of this.#listeners) hear(message.data);
      },
    });
    this.#listeners.add(listener);
    signal.addEventListener('abort', () => this.#listeners.delete(listener), { once: true });
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }

  /**
   * Ends a consumer that has stalled, so that it is created again. A consumer has stalled if it has
   * received nothing although the log has new entries.
   */
  async #watch(messages: ConsumerMessages, progress: { readonly position: number }): Promise<void> {
    const { position } = progress;
    const health = await this.health().catch(() => undefined);
    const isAtEnd = health === undefined || health.last <= position;
    if (!isAtEnd && progress.position === position) messages.stop();
  }
}

/**
 * Runs a request and converts every failure to a {@link LogUnavailableError}, because the NATS
 * client has many error classes.
 * @throws LogUnavailableError
 */
async function asked<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (cause) {
    throw new LogUnavailableError(errorMessage(cause), { cause });
  }
}
