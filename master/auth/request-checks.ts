import type {
  EncryptionAlgorithm,
  FactMap,
  ProtocolVersion,
  SigningAlgorithm,
  WireMap,
  WireValue,
} from '#minion-protocol';

/** An encrypted request after every check of the request channel: handlers never see ciphertext. */
export interface VerifiedRequest {
  /**
   * Who sent it. In protocol 3 the key that opened it says so; in 0 to 2 the token does, and
   * where those minions send none the id is only claimed by a holder of the shared key.
   * `undefined`: protocols 0 to 2, and the load has no id.
   */
  readonly minionId: string | undefined;
  /** Whether the minion's own key proves `minionId`. */
  readonly isProven: boolean;
  readonly version: ProtocolVersion;
  readonly nonce: string | undefined;
  /** Seconds since 1970 by the minion's clock; protocol 3 only. */
  readonly ts: number | undefined;
  /** Address of whoever sent it. */
  readonly address: string;
  /** Size of the load as it was sent, encrypted. */
  readonly bytes: number;
  /** The HMAC of what was sent: only the very same bytes have it again. A view into them. */
  readonly mac: Buffer;
  /** The load without `tok` and `nonce`. */
  readonly load: WireMap;
  /** The load as it came, with everything in it; a view into the plaintext. */
  readonly packed: Uint8Array;
  readonly encAlgo: EncryptionAlgorithm;
  readonly sigAlgo: SigningAlgorithm;
}

/** What a handler answers; the request channel encrypts it as the request's version asks [WIRE 8]. */
export type Reply =
  | {
      readonly kind: 'send';
      readonly value: WireValue;
      /** What the asker has to wait for; default: nothing. */
      readonly after?: Promise<true>;
    }
  /** The same of a value that was packed already, in pieces. */
  | { readonly kind: 'packed'; readonly pieces: readonly Uint8Array[] }
  /** Under a key of its own, signed, for the asker alone. */
  | { readonly kind: 'private'; readonly pillar: FactMap };

/**
 * Thrown where there must be no answer, because any would be an acknowledgement, or because so much
 * waits for the minion's rate that answering would be work for whoever floods. The connection is
 * closed a little later, and the minion sends again by itself.
 */
export class DropConnectionError extends Error {
  /** What is counted. */
  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(`not answered: ${reason}`, options);
    this.name = new.target.name;
    this.reason = reason;
  }
}

/** Answers one `cmd`: at once, where nothing is waited for. @throws DropConnectionError */
export type Handler = (request: VerifiedRequest) => Reply | Promise<Reply>;

/** A reply of the usual kind. */
export function send(value: WireValue): Reply {
  return { kind: 'send', value };
}

/** The same when it is the asker's turn. */
export function sendLater(value: WireValue, isNext: true | Promise<true>): Reply {
  return isNext === true ? send(value) : { kind: 'send', value, after: isNext };
}
