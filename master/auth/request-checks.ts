import type {
  EncryptionAlgorithm,
  FactMap,
  ProtocolVersion,
  SigningAlgorithm,
  WireMap,
  WireValue,
} from '#minion-protocol';
import { addressOwner } from '#runtime';

/**
 * Decrypted request that has passed all checks of the request channel. Handlers never see
 * ciphertext.
 */
export interface VerifiedRequest {
  /**
   * Id of the sender. In protocol 3 the session key that decrypted the request proves it; in
   * protocols 0 to 2 the token does. Without a token, any holder of the shared key may claim the
   * id. `undefined` in protocols 0 to 2 if the load has no id.
   */
  readonly minionId: string | undefined;
  /** Whether the minion's own key proves `minionId`. */
  readonly isProven: boolean;
  readonly version: ProtocolVersion;
  readonly nonce: string | undefined;
  /** Time by the minion's clock, in seconds since 1970. Protocol 3 only. */
  readonly ts: number | undefined;
  /** Address of the sender. */
  readonly address: string;
  /** Size of the encrypted load, in bytes. */
  readonly bytes: number;
  /** HMAC of the request. Only identical bytes have the same value. A view into the request. */
  readonly mac: Buffer;
  /** Load without `tok` and `nonce`. */
  readonly load: WireMap;
  /** Complete load as it was sent. A view into the plaintext. */
  readonly packed: Uint8Array;
  readonly encAlgo: EncryptionAlgorithm;
  readonly sigAlgo: SigningAlgorithm;
}

/**
 * Reply of a handler. The request channel encrypts it as the protocol version of the request
 * requires [WIRE 8].
 */
export type Reply =
  | {
      readonly kind: 'send';
      readonly value: WireValue;
      /** Promise to await before the reply is sent. Default: none. */
      readonly after?: Promise<true>;
    }
  /** Same reply with a value that is already packed, in pieces. */
  | { readonly kind: 'packed'; readonly pieces: readonly Uint8Array[] }
  /** Signed reply that is encrypted with its own key, for the requesting minion only. */
  | { readonly kind: 'private'; readonly pillar: FactMap };

/**
 * Thrown if the master must not reply, because any reply would be an acknowledgement, or because
 * too many requests of the minion already wait. The connection is closed shortly after, and the
 * minion sends the request again.
 */
export class DropConnectionError extends Error {
  /** Reason under which the request is counted. */
  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(`not answered: ${reason}`, options);
    this.name = new.target.name;
    this.reason = reason;
  }
}

/**
 * Answers requests of one `cmd`, synchronously if possible.
 * @throws DropConnectionError
 */
export type Handler = (request: VerifiedRequest) => Reply | Promise<Reply>;

/**
 * Returns the owner of a request for limits. An unproven id may belong to another minion, which
 * would be charged, so such a request counts for its address.
 */
export function requestOwner({
  isProven,
  minionId = '',
  address,
}: Pick<VerifiedRequest, 'isProven' | 'minionId' | 'address'>): string {
  return isProven ? `id ${minionId}` : addressOwner(address);
}

/** Returns a reply of the usual kind. */
export function send(value: WireValue): Reply {
  return { kind: 'send', value };
}

/** Returns the same reply, delayed until the minion's rate permits it. */
export function sendLater(value: WireValue, isNext: true | Promise<true>): Reply {
  return isNext === true ? send(value) : { kind: 'send', value, after: isNext };
}
