/** What a master that joins a cluster, and a member of it, send each other over the log's servers. */

import {
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { Type } from 'typebox';
import { compileSchema } from '#runtime';
import { StoreError } from '#store';
import type { LogCipher } from './log/cipher.ts';
/** What a ticket says. */
export interface Ticket {
  readonly cluster: string;
  /** Sixteen bytes in hexadecimal. */
  readonly id: string;
  /** 32 bytes in hexadecimal: what passes between the two is sealed under it. */
  readonly key: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

const mark = 'saltbridge-cluster-1.';

/** The ticket of an id: its key follows from the secret, so that no store has it. */
export function makeTicket(
  { name, secret }: { readonly name: string; readonly secret: Uint8Array },
  { id, expiresAt }: Pick<Ticket, 'id' | 'expiresAt'>,
): Ticket {
  const key = Buffer.from(hkdfSync('sha256', secret, id, `saltbridge ticket ${name}`, 32));
  return { cluster: name, id, key: key.toString('hex'), expiresAt };
}

export function newTicketId(): string {
  return randomBytes(16).toString('hex');
}

export function formatTicket({ cluster, id, key, expiresAt }: Ticket): string {
  const text = JSON.stringify([cluster, id, key, expiresAt]);
  return `${mark}${Buffer.from(text).toString('base64url')}`;
}

const ticketFields = compileSchema(
  Type.Tuple([
    Type.String(),
    Type.String({ pattern: '^[0-9a-f]{32}$' }),
    Type.String({ pattern: '^[0-9a-f]{64}$' }),
    Type.Number(),
  ]),
);

/** @throws StoreError ERR_CLUSTER_TICKET */
export function parseTicket(text: string): Ticket {
  const given = text.trim();
  try {
    if (!given.startsWith(mark)) throw new TypeError('no ticket');
    const text = Buffer.from(given.slice(mark.length), 'base64url').toString();
    const [cluster, id, key, expiresAt] = ticketFields.Parse(JSON.parse(text));
    return { cluster, id, key, expiresAt };
  } catch {
    // Told below.
  }
  throw new StoreError(
    'ERR_CLUSTER_TICKET',
    'this is no ticket of a cluster: expected the whole line that saltbridge cluster ticket printed',
  );
}

/** What a master that joins asks for. */
export type JoinRequest =
  | {
      readonly kind: 'join';
      readonly request: string;
      readonly member: string;
      /** Base64 of an X25519 key that is made for this request. */
      readonly publicKey: string;
    }
  | { readonly kind: 'chunk'; readonly request: string; readonly chunk: number };

/** What a member answers. */
export type JoinReply =
  | {
      readonly kind: 'joined';
      readonly request: string;
      /** Base64. */
      readonly secret: string;
      /** Of the backup that follows. */
      readonly chunks: number;
      readonly sha256: string;
    }
  | { readonly kind: 'chunk'; readonly request: string; readonly chunk: number }
  | { readonly kind: 'refused'; readonly request: string; readonly message: string };

/** A key pair for one request: what was recorded cannot be read with a ticket that is found later. */
export interface ExchangeKeys {
  readonly privateKey: KeyObject;
  /** DER. */
  readonly publicKey: Buffer;
}

export function newExchangeKeys(): ExchangeKeys {
  const pair = generateKeyPairSync('x25519');
  const publicKey = pair.publicKey.export({ type: 'spki', format: 'der' });
  return { privateKey: pair.privateKey, publicKey };
}

/** The key that replies are sealed under; `undefined`: `other` is no public key. */
export function replyKey(
  ticketKey: string,
  own: ExchangeKeys,
  other: Uint8Array,
): Buffer | undefined {
  let shared: Buffer;
  try {
    const publicKey = createPublicKey({ key: Buffer.from(other), type: 'spki', format: 'der' });
    shared = diffieHellman({ privateKey: own.privateKey, publicKey });
  } catch {
    return undefined;
  }
  return Buffer.from(
    hkdfSync('sha256', shared, Buffer.from(ticketKey, 'hex'), 'saltbridge ticket reply', 32),
  );
}

/** Bytes of a public key in a reply. */
export const publicKeyBytes = 44;

/** First byte of a frame. No sealed message of a member begins with one of them. */
export const frameKinds = { request: 0x4a, reply: 0x4b, unknown: 0x55 } as const;

const idBytes = 16;

/** A frame: its kind, the id of the ticket, and what is sealed under the ticket's key. */
export function encodeFrame(
  kind: number,
  id: string,
  sealed: Uint8Array = new Uint8Array(),
): Buffer {
  return Buffer.concat([Uint8Array.of(kind), Buffer.from(id, 'hex'), sealed]);
}

/** `undefined`: no frame of this kind. */
export function decodeFrame(
  kind: number,
  bytes: Uint8Array,
): { readonly id: string; readonly sealed: Uint8Array } | undefined {
  if (bytes[0] !== kind || bytes.length < 1 + idBytes) return undefined;
  const id = Buffer.from(bytes.subarray(1, 1 + idBytes)).toString('hex');
  return { id, sealed: bytes.subarray(1 + idBytes) };
}

/** Seals a request or a reply, and what comes with it. */
export function sealBody(
  frames: LogCipher,
  body: JoinRequest | JoinReply,
  content: Uint8Array = new Uint8Array(),
): Buffer {
  return frames.seal(Buffer.concat([Buffer.from(`${JSON.stringify(body)}\n`), content])).bytes;
}

/** @returns `undefined` for what was not sealed under the ticket's key */
export function openBody<Body extends JoinRequest | JoinReply>(
  frames: LogCipher,
  sealed: Uint8Array,
): { readonly body: Body; readonly content: Buffer } | undefined {
  const opened = frames.open(sealed);
  if (opened === undefined) return undefined;
  const end = opened.body.indexOf('\n');
  // Whoever has the key of the ticket is a master, or a member.
  return {
    body: JSON.parse(opened.body.subarray(0, end).toString()) as Body,
    content: opened.body.subarray(end + 1),
  };
}
