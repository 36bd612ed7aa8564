import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { createBoundedMap } from '#runtime';
import { clusterLimits } from '../limits.ts';

/** Kind of an encrypted message. A message of one kind cannot be decrypted as another. */
export type SealedKind = 'entry' | 'announcement' | 'message' | 'ticket';

/** A decrypted message. */
export interface OpenedMessage {
  /**
   * Session of the sender, in hexadecimal: sixteen random bytes that are new each time the sender
   * opens its store.
   */
  readonly session: string;
  /** Number of the message within the session, from 1. */
  readonly counter: number;
  readonly body: Buffer;
}

// Format: version and kind (1)  session (16)  counter (8)  AES-256-GCM of the body  tag (16)

/** Version of the format of encrypted messages. */
export const sealVersion = 1;
export const versionBits = 0x0f;
/**
 * Bits that are set in the version byte, so that the kind of a message is visible without
 * decryption.
 */
const kindMarks: Readonly<Record<SealedKind, number>> = {
  entry: 0,
  announcement: 0x10,
  message: 0x20,
  ticket: 0x30,
};
const sessionBytes = 16;
const headBytes = 1 + sessionBytes + 8;
const tagBytes = 16;

/** Difference between the sizes of an encrypted message and its body, in bytes. */
export const sealOverheadBytes: number = headBytes + tagBytes;

/**
 * Encrypts messages between members. The servers of the log do not have the keys. Each session has
 * its own key, so that the counter can be used as the nonce.
 */
export class LogCipher {
  readonly session: Buffer = randomBytes(sessionBytes);
  readonly #secret: Uint8Array;
  readonly #cluster: string;
  readonly #kind: SealedKind;
  readonly #mark: number;
  readonly #ownKey: Buffer;
  /**
   * Keys of other sessions, by session id. A key is added when an authentic message of its session
   * arrives.
   */
  readonly #keys = createBoundedMap<string, Buffer>(clusterLimits.logKeys);
  #counter = 0;

  /**
   * @param cluster - name of the cluster. Keys are derived from the secret and this name, so two
   * clusters with the same secret use different keys
   */
  constructor(secret: Uint8Array, cluster: string, kind: SealedKind) {
    this.#secret = secret;
    this.#cluster = cluster;
    this.#kind = kind;
    this.#mark = sealVersion + kindMarks[kind];
    this.#ownKey = this.#deriveKey(this.session);
  }

  /** Number of sessions whose keys are in memory. The session of this cipher is not counted. */
  get knownSessions(): number {
    return this.#keys.size;
  }

  /** Whether the key of another session is in memory. */
  knows(session: Uint8Array): boolean {
    return this.#keys.has(Buffer.from(session).toString('hex'));
  }

  /** Encrypts a message. Its counter is one more than the counter of the previous message. */
  seal(body: Uint8Array): { readonly counter: number; readonly bytes: Buffer } {
    this.#counter += 1;
    const head = Buffer.alloc(headBytes);
    head.writeUInt8(this.#mark, 0);
    head.set(this.session, 1);
    head.writeBigUInt64BE(BigInt(this.#counter), 1 + sessionBytes);
    const cipher = createCipheriv('aes-256-gcm', this.#ownKey, nonceOf(head));
    cipher.setAAD(head);
    const sealed = Buffer.concat([head, cipher.update(body), cipher.final(), cipher.getAuthTag()]);
    return { counter: this.#counter, bytes: sealed };
  }

  /**
   * Decrypts a message. Returns `undefined` if it was altered or encrypted with a different secret.
   */
  open(bytes: Uint8Array): OpenedMessage | undefined {
    const sealed = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    if (sealed.length < sealOverheadBytes || sealed.readUInt8(0) !== this.#mark) return undefined;
    const head = sealed.subarray(0, headBytes);
    const session = head.subarray(1, 1 + sessionBytes);
    const name = session.toString('hex');
    const key = this.#keys.get(name) ?? this.#deriveKey(session);
    const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(head));
    decipher.setAAD(head);
    decipher.setAuthTag(sealed.subarray(-tagBytes));
    try {
      const body = Buffer.concat([
        decipher.update(sealed.subarray(headBytes, -tagBytes)),
        decipher.final(),
      ]);
      // A client without the secret must not displace the keys of the members.
      if (!this.#keys.has(name)) this.#keys.set(name, key);
      const counter = Number(head.readBigUInt64BE(1 + sessionBytes));
      return { session: name, counter, body };
    } catch {
      return undefined;
    }
  }

  #deriveKey(session: Uint8Array): Buffer {
    const info = `saltbridge log ${this.#kind} v${sealVersion} ${this.#cluster}`;
    return Buffer.from(hkdfSync('sha256', this.#secret, session, info, 32));
  }
}

function nonceOf(head: Buffer): Buffer {
  return Buffer.concat([Buffer.alloc(4), head.subarray(1 + sessionBytes)]);
}
