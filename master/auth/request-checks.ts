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
 * Decrypted request that has passed all checks of the request channel. Handlers receive only such
 * requests.
 */
export interface VerifiedRequest {
  /**
   * Id of the sender. In protocol 3, the session key that decrypted the request proves the id. In
   * protocols 0 to 2, the token proves it. If there is no token, any minion may have claimed the
   * id. `undefined` in protocols 0 to 2 if the load has no id.
   */
  readonly minionId: string | undefined;
  /** Whether `minionId` is proven by the minion's own key. */
  readonly isProven: boolean;
  /**
   * Whether the key of the sender is still the accepted key of `minionId`. Handlers check it after
   * they have waited, because the key may have been deleted meanwhile.
   */
  readonly isKeyCurrent: () => boolean;
  readonly version: ProtocolVersion;
  readonly nonce: string | undefined;
  /**
   * Time of the request according to the minion's clock, in seconds since 1970. Present only in
   * protocol 3.
   */
  readonly ts: number | undefined;
  /** Address of the sender. */
  readonly address: string;
  /** Size of the encrypted load, in bytes. */
  readonly bytes: number;
  /**
   * HMAC of the request. Equal HMACs mean identical bytes. The buffer is a view into the request.
   */
  readonly mac: Buffer;
  /** Load without `tok` and `nonce`. */
  readonly load: WireMap;
  /**
   * Complete load as the minion sent it, in MessagePack. The buffer is a view into the plaintext.
   */
  readonly packed: Uint8Array;
  readonly encAlgo: EncryptionAlgorithm;
  readonly sigAlgo: SigningAlgorithm;
}

/**
 * Reply of a handler. The request channel encrypts it as the request's protocol version requires
 * [WIRE 8].
 */
export type Reply =
  | {
      readonly kind: 'send';
      readonly value: WireValue;
      /**
       * The request channel sends the reply when this promise resolves. Used if the minion's rate
       * limit does not permit the reply yet. Default: the reply is sent at once.
       */
      readonly after?: Promise<true>;
    }
  /** Ordinary reply. Its value is already packed, in pieces. */
  | { readonly kind: 'packed'; readonly pieces: readonly Uint8Array[] }
  /** Pillar that is signed, and encrypted for the requesting minion with a new key. */
  | { readonly kind: 'private'; readonly pillar: FactMap };

/**
 * Error with which a handler closes the connection without a reply, so that the minion sends the
 * request again. Handlers throw it if the minion would take any reply as an acknowledgement, or if
 * too many of the minion's requests are already waiting.
 */
export class DropConnectionError extends Error {
  /** Reason of the rejection, for metrics. */
  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(`the request gets no reply: ${reason}`, options);
    this.name = new.target.name;
    this.reason = reason;
  }
}

/**
 * Function that answers all requests that have a certain value of `cmd`. It returns the reply
 * synchronously if possible.
 * @throws DropConnectionError
 */
export type Handler = (request: VerifiedRequest) => Reply | Promise<Reply>;

/**
 * Returns the owner of a request. Limits are counted for each owner. The owner is the minion, or
 * the address of the sender if the id is not proven. An unproven id may belong to another minion.
 */
export function requestOwner({
  isProven,
  minionId = '',
  address,
}: Pick<VerifiedRequest, 'isProven' | 'minionId' | 'address'>): string {
  return isProven ? `id ${minionId}` : addressOwner(address);
}

/** Returns an ordinary reply, which is encrypted in the same way as the request. */
export function send(value: WireValue): Reply {
  return { kind: 'send', value };
}

/**
 * Returns a reply that is sent as soon as the minion's rate limit permits.
 * @param isNext - `true` if the limit permits the reply now. Otherwise a promise that resolves when
 * it does
 */
export function sendLater(value: WireValue, isNext: true | Promise<true>): Reply {
  return isNext === true ? send(value) : { kind: 'send', value, after: isNext };
}
