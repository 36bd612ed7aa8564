/**
 * Messages between a member of a cluster and a master that joins the cluster. The servers of the
 * log broadcast the messages without storing them.
 */

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
/** Content of a ticket, which permits a master to join the cluster. */
export interface Ticket {
  readonly cluster: string;
  /** Random identifier of the ticket: 16 bytes in hexadecimal. */
  readonly id: string;
  /**
   * Key of 32 bytes in hexadecimal, for encrypting the messages between the joining master and the
   * members.
   */
  readonly key: string;
  /** Time at which the ticket expires, in milliseconds since 1970. */
  readonly expiresAt: number;
}

const mark = 'saltbridge-cluster-1.';

/**
 * Returns the ticket with this id. The ticket's key is derived from the cluster's secret and
 * therefore not stored.
 */
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

/**
 * Parses the text of a ticket.
 * @throws StoreError ERR_CLUSTER_TICKET
 */
export function parseTicket(text: string): Ticket {
  const given = text.trim();
  try {
    if (!given.startsWith(mark)) throw new TypeError('not a ticket');
    const text = Buffer.from(given.slice(mark.length), 'base64url').toString();
    const [cluster, id, key, expiresAt] = ticketFields.Parse(JSON.parse(text));
    return { cluster, id, key, expiresAt };
  } catch {
    // The check below throws the error.
  }
  throw new StoreError(
    'ERR_CLUSTER_TICKET',
    'not a cluster ticket; copy the whole line that saltbridge cluster ticket printed',
  );
}

/** Request of a master that wants to join. */
export type JoinRequest =
  | {
      readonly kind: 'join';
      readonly request: string;
      readonly member: string;
      /** X25519 public key that is generated for this request, in base64. */
      readonly publicKey: string;
    }
  | { readonly kind: 'chunk'; readonly request: string; readonly chunk: number };

/** Reply of a member to a joining master. */
export type JoinReply =
  | {
      readonly kind: 'joined';
      readonly request: string;
      /** Secret of the cluster in base64. */
      readonly secret: string;
      /** Number of chunks of the store's backup. Each chunk is requested separately. */
      readonly chunks: number;
      readonly sha256: string;
    }
  | { readonly kind: 'chunk'; readonly request: string; readonly chunk: number }
  | { readonly kind: 'refused'; readonly request: string; readonly message: string };

/**
 * Key pair that is used for one request only. Because of this, somebody who recorded the exchange
 * cannot decrypt it if a ticket leaks later.
 */
export interface ExchangeKeys {
  readonly privateKey: KeyObject;
  /** Public key in DER. */
  readonly publicKey: Buffer;
}

export function newExchangeKeys(): ExchangeKeys {
  const pair = generateKeyPairSync('x25519');
  const publicKey = pair.publicKey.export({ type: 'spki', format: 'der' });
  return { privateKey: pair.privateKey, publicKey };
}

/**
 * Derives the key for encrypting replies. Returns `undefined` if `other` is not a valid public key.
 */
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

/** Size of the public key at the start of a reply, in bytes. */
export const publicKeyBytes = 44;

/**
 * Values of the first byte of a frame. No other message between members begins with one of these
 * bytes.
 */
export const frameKinds = { request: 0x4a, reply: 0x4b, unknown: 0x55 } as const;

const idBytes = 16;

/** Returns a frame: its kind, the id of the ticket, and encrypted content. */
export function encodeFrame(
  kind: number,
  id: string,
  sealed: Uint8Array = new Uint8Array(),
): Buffer {
  return Buffer.concat([Uint8Array.of(kind), Buffer.from(id, 'hex'), sealed]);
}

/**
 * Splits a frame into ticket id and encrypted content. Returns `undefined` if the bytes are not a
 * frame with a ticket id.
 */
export function decodeFrame(
  kind: number,
  bytes: Uint8Array,
): { readonly id: string; readonly sealed: Uint8Array } | undefined {
  if (bytes[0] !== kind || bytes.length < 1 + idBytes) return undefined;
  const id = Buffer.from(bytes.subarray(1, 1 + idBytes)).toString('hex');
  return { id, sealed: bytes.subarray(1 + idBytes) };
}

/**
 * Encrypts a request or a reply. `content` is binary data that is appended to the request or the
 * reply before encryption.
 */
export function sealBody(
  frames: LogCipher,
  body: JoinRequest | JoinReply,
  content: Uint8Array = new Uint8Array(),
): Buffer {
  return frames.seal(Buffer.concat([Buffer.from(`${JSON.stringify(body)}\n`), content])).bytes;
}

/**
 * Decrypts the content of a frame.
 * @returns `undefined` if it was not encrypted with this key
 */
export function openBody<Body extends JoinRequest | JoinReply>(
  frames: LogCipher,
  sealed: Uint8Array,
): { readonly body: Body; readonly content: Buffer } | undefined {
  const opened = frames.open(sealed);
  if (opened === undefined) return undefined;
  const end = opened.body.indexOf('\n');
  // Only members and masters with the ticket have the key, so the content is trusted.
  return {
    body: JSON.parse(opened.body.subarray(0, end).toString()) as Body,
    content: opened.body.subarray(end + 1),
  };
}
