import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import type { MsgHdrs, NatsConnection, NodeConnectionOptions } from '@nats-io/transport-node';
import type { NatsExport } from '#config';
import { loadOptionalPackage, nkeySeedOf, writeJson } from '#runtime';
import { MasterError } from '../api/index.ts';
import { type ExportedEvent, jsonOf, type Receiver } from './export-receivers.ts';

type Nats = typeof import('@nats-io/transport-node');

/**
 * Maximum length of a subject, in characters. The NATS server limits the length of a line. In a
 * subject that would be longer, `_` replaces the tag.
 */
const maxSubjectLength = 1_000;
/** Maximum size of a message's headers, in bytes. */
const headerBytes = 256;
const defaultTimeoutSeconds = 10;

interface Open {
  readonly connection: NatsConnection;
  /** Errors that the server has reported. After an error, the connection is not used again. */
  readonly errors: readonly string[];
}

/**
 * Creates a receiver that publishes events to JetStream or core NATS with the official NATS client.
 * @throws SaltbridgeError ERR_PACKAGE_MISSING
 */
export async function natsReceiver(options: NatsExport): Promise<Receiver> {
  const nats = await loadOptionalPackage(
    '@nats-io/transport-node',
    'event_export: nats',
    () => import('@nats-io/transport-node'),
  );
  let current: Open | undefined;
  const close = async (): Promise<void> => {
    const open = current;
    current = undefined;
    await open?.connection.close();
  };
  return {
    send: async (events, signal) => {
      const onAbort = (): void => {
        void close();
      };
      signal.addEventListener('abort', onAbort);
      try {
        current ??= await connectTo(nats, options);
        signal.throwIfAborted();
        const { jetstream = true } = options;
        await (jetstream ? store : publish)(current, nats, events, options);
      } catch (error) {
        // After an error, the state of the connection is unknown, so it is closed.
        await close();
        throw error;
      } finally {
        signal.removeEventListener('abort', onAbort);
      }
    },
    close,
  };
}

async function connectTo(nats: Nats, options: NatsExport): Promise<Open> {
  const { nats: servers, caFile, certFile, keyFile, credentialsFile, nkeyFile } = options;
  const isSecured = servers.every((server) => server.startsWith('tls:'));
  const given: NodeConnectionOptions = {
    servers: [...servers],
    name: `saltbridge ${options.name}`,
    timeout: timeoutOf(options),
    // Each attempt opens a new connection, and reads the certificate files again.
    reconnect: false,
    ignoreClusterUpdates: true,
    ...(isSecured
      ? {
          tls: {
            ...(caFile === undefined ? {} : { caFile }),
            ...(certFile === undefined ? {} : { certFile }),
            ...(keyFile === undefined ? {} : { keyFile }),
          },
        }
      : {}),
    ...(credentialsFile === undefined
      ? {}
      : { authenticator: nats.credsAuthenticator(await readFile(credentialsFile)) }),
    ...(nkeyFile === undefined
      ? {}
      : {
          authenticator: nats.nkeyAuthenticator(
            Buffer.from(nkeySeedOf(await readFile(nkeyFile, 'utf8'))),
          ),
        }),
  };
  // With `tls`, the client does not connect to servers without TLS.
  const connection = await nats.connect(given);
  const errors: string[] = [];
  const watch = async (): Promise<void> => {
    for await (const status of connection.status()) {
      if (status.type === 'error') errors.push(status.error.message);
    }
  };
  // The loop ends when the connection is closed.
  void watch();
  return { connection, errors };
}

/** Publishes events to JetStream. An event counts as accepted when a stream has stored it. */
async function store(
  { connection }: Open,
  nats: Nats,
  events: readonly ExportedEvent[],
  options: NatsExport,
): Promise<void> {
  const timeout = timeoutOf(options);
  await Promise.all(
    messagesOf(connection, nats, events, options).map(async ({ subject, payload, headers }) => {
      const answer = await connection.request(subject, payload, { headers, timeout });
      const refusal = refusalOf(answer.data);
      if (refusal !== undefined) throw exportError(`${subject}: ${refusal}`);
    }),
  );
}

/**
 * Returns the reason why a stream did not store a message, or `undefined` if the message was
 * stored.
 */
function refusalOf(answer: Uint8Array): string | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(answer).toString('utf8'));
  } catch {
    return 'the reply is not an acknowledgement of a JetStream stream';
  }
  const { stream, seq, error }: Record<'error' | 'seq' | 'stream', unknown> = Object(parsed);
  // An error reply also contains the name of the stream, so errors are checked first.
  const isStored = error === undefined && typeof stream === 'string' && typeof seq === 'number';
  if (isStored) return undefined;
  const { description }: { description?: unknown } = Object(error);
  return typeof description === 'string'
    ? description.slice(0, 200)
    : 'the reply is not an acknowledgement of a JetStream stream';
}

/**
 * Publishes events to core NATS. An event counts as accepted when the server has received it, even
 * if it has no subscribers.
 */
async function publish(
  { connection, errors }: Open,
  nats: Nats,
  events: readonly ExportedEvent[],
  options: NatsExport,
): Promise<void> {
  for (const { subject, payload, headers } of messagesOf(connection, nats, events, options)) {
    connection.publish(subject, payload, { headers });
  }
  const flushed = connection.flush();
  await nats.deadline(flushed, timeoutOf(options));
  // The server reports errors before it replies to the flush. The client emits them in a later turn
  // of the event loop.
  await setImmediate();
  const [error] = errors;
  if (error !== undefined) throw exportError(error);
}

interface Message {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: MsgHdrs;
}

function messagesOf(
  { info }: NatsConnection,
  nats: Nats,
  events: readonly ExportedEvent[],
  { subject }: NatsExport,
): readonly Message[] {
  const room = (info?.max_payload ?? 1_048_576) - headerBytes;
  return events.map((event) => {
    const whole = Buffer.from(jsonOf(event));
    const { sequence, tag } = event;
    const short = { sequence, tag, data: { $too_large: whole.length } };
    const payload = whole.length <= room ? whole : Buffer.from(writeJson(short));
    const headers = nats.headers();
    // JetStream stores only one message with the same id. The id differs for different masters, so
    // that they can share a stream.
    headers.set('Nats-Msg-Id', hash('sha256', whole, 'base64url'));
    return { subject: subjectOf(subject, tag), payload, headers };
  });
}

/**
 * Returns the subject for a tag. With the prefix `salt.event`, the tag `salt/job/1/ret/a.b` becomes
 * `salt.event.salt.job.1.ret.a%2Eb`.
 */
export function subjectOf(prefix: string, tag: string): string {
  const tokens = tag.split('/').map((part) => (part === '' ? '_' : encodeToken(part)));
  const subject = [prefix, ...tokens].join('.');
  return subject.length <= maxSubjectLength ? subject : `${prefix}._`;
}

/**
 * Encodes each byte of the text as `%XX`, except ASCII letters, ASCII digits and the characters
 * `_@+:=,-`.
 */
function encodeToken(text: string): string {
  const encode = (byte: number): string => {
    const letter = String.fromCharCode(byte);
    const hex = byte.toString(16).toUpperCase().padStart(2, '0');
    return /[\w@+:=,-]/.test(letter) ? letter : `%${hex}`;
  };
  return Array.from(Buffer.from(text), encode).join('');
}

function timeoutOf({ timeout = defaultTimeoutSeconds }: NatsExport): number {
  return timeout * 1000;
}

function exportError(message: string): MasterError {
  return new MasterError('ERR_EVENT_EXPORT', message);
}
