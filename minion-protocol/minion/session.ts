/**
 * Keys of a minion after a sign-in, and the encryption of requests and replies with them [WIRE 7.3,
 * 8]. If the keys have expired, the minion signs in again and repeats the request once.
 */
import { createPrivateKey, createPublicKey, type KeyObject, randomBytes } from 'node:crypto';
import { type CrypticleKey, parseKeyString } from '../crypt.ts';
import { encodeRequest } from '../encode-request.ts';
import { ProtocolError } from '../errors.ts';
import type { HandshakeStep } from '../minion-handshake.ts';
import { openPublication } from '../publication.ts';
import { openPrivateReply, openSendReply } from '../reply.ts';
import { defaultEncryptionAlgorithm, defaultSigningAlgorithm } from '../rsa.ts';
import { SerialGuard } from '../serial-guard.ts';
import { isWireMap, type WireMap, type WireValue } from '../wire-value.ts';
import { minionToken } from '../x931.ts';

/** Result of an accepted sign-in. */
export type SignedIn = Extract<HandshakeStep, { state: 'accepted' }>;

/** Identity of a minion. */
export interface MinionIdentity {
  readonly id: string;
  readonly version: 0 | 2 | 3;
  readonly privateKey: KeyObject;
  /**
   * Token that proves the identity of the minion: the text `salt`, signed with the private key. The
   * token is always the same for a key.
   */
  readonly token: Uint8Array;
}

export function createMinionIdentity(
  id: string,
  version: 0 | 2 | 3,
  privatePem: string,
): MinionIdentity {
  const privateKey = createPrivateKey(privatePem);
  return { id, version, privateKey, token: minionToken(privateKey) };
}

/** Keys that a minion and its master use after one sign-in. Each sign-in creates a new session. */
export class MinionSession {
  readonly publishPort: number;
  readonly #identity: MinionIdentity;
  readonly #publishKey: CrypticleKey;
  readonly #requestKey: CrypticleKey;
  readonly #masterKey: KeyObject;
  readonly #serials = new SerialGuard();

  constructor(identity: MinionIdentity, signedIn: SignedIn) {
    this.publishPort = signedIn.publishPort;
    this.#identity = identity;
    this.#publishKey = parseKeyString(signedIn.aes);
    this.#requestKey =
      signedIn.session === undefined ? this.#publishKey : parseKeyString(signedIn.session);
    this.#masterKey = createPublicKey(signedIn.masterPub);
  }

  /**
   * Packs and encrypts a request.
   * @returns the bytes to send, and the nonce that the reply must contain
   */
  seal(load: WireMap): { readonly bytes: Uint8Array; readonly nonce: string } {
    const { id, version, token } = this.#identity;
    const nonce = randomBytes(16).toString('hex');
    const whole = { ...load, id, ...(version < 3 ? { tok: token } : {}) };
    const bytes = encodeRequest({
      enc: 'aes',
      version,
      key: this.#requestKey,
      load: whole,
      nonce,
      identity: { id, ts: Math.floor(Date.now() / 1000), tok: token },
    });
    return { bytes, nonce };
  }

  /**
   * Decrypts a reply and returns its value.
   * @throws ProtocolError if the keys have expired or the reply does not match `nonce`
   */
  openReply(bytes: Uint8Array, nonce: string): WireValue {
    return openSendReply(bytes, { version: this.#identity.version, nonce, key: this.#requestKey });
  }

  /**
   * Decrypts the reply to a pillar request. Returns an empty map if the pillar is not a map.
   * @throws ProtocolError if the keys have expired or the reply does not match `nonce`
   */
  openPillar(bytes: Uint8Array, nonce: string): WireMap {
    const { version, privateKey } = this.#identity;
    const pillar = openPrivateReply(bytes, {
      version,
      nonce,
      minionKey: privateKey,
      masterKey: this.#masterKey,
      encAlgo: defaultEncryptionAlgorithm,
      sigAlgo: defaultSigningAlgorithm,
    });
    return isWireMap(pillar) ? pillar : {};
  }

  /**
   * Verifies the master's signature of a publication and decrypts the publication.
   * @returns an empty map for a publication that was received before
   * @throws ProtocolError ERR_BAD_SIGNATURE, or ERR_BAD_HMAC if the publish key has expired
   */
  openPublication(bytes: Uint8Array): WireValue {
    const load = openPublication(bytes, {
      key: this.#publishKey,
      masterPublic: this.#masterKey,
      requireSignature: true,
    });
    return this.#serials.admit(load);
  }
}

/** Whether an error means that the master no longer uses the session's keys. */
export function isOutdatedKeyError(error: unknown): boolean {
  return (
    error instanceof ProtocolError &&
    ['ERR_BAD_HMAC', 'ERR_BAD_REPLY', 'ERR_BAD_SIGNATURE', 'ERR_DECRYPT'].includes(error.code)
  );
}
