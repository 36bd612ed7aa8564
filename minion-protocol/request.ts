import { ProtocolError, type ProtocolErrorCode } from './errors.ts';
import { unpackWire } from './payload.ts';
import { clearLimits, loadLimits, type PayloadLimits } from './payload-limits.ts';
import { defaultEncryptionAlgorithm, defaultSigningAlgorithm } from './rsa.ts';
import { emptyWireMap, isWireMap, type WireMap, type WireValue, wireBytes } from './wire-value.ts';

/**
 * Protocol version. 0: no nonces. 1: accepted, although no minion sends it. 2: nonces and signed
 * replies. 3: session keys.
 */
export type ProtocolVersion = 0 | 1 | 2 | 3;

/** An unencrypted request: `_auth` or `ping`. */
export interface ClearEnvelope {
  readonly enc: 'clear';
  readonly version: ProtocolVersion;
  readonly load: WireMap;
}

/** An encrypted request. */
export interface SealedEnvelope {
  readonly enc: 'aes';
  readonly version: ProtocolVersion;
  /**
   * Id of the minion whose session key decrypts the request. Always present in version 3. The id is
   * not verified before the request is decrypted.
   */
  readonly id: string | undefined;
  /** Encryption algorithm that the minion names, which may be unsupported. Default: `OAEP-SHA1`. */
  readonly encAlgo: string;
  /**
   * Signing algorithm that the minion names, which may be unsupported. Default: `PKCS1v15-SHA1`.
   */
  readonly sigAlgo: string;
  /** Encrypted load: IV, ciphertext and HMAC. It is a view of the received message. */
  readonly load: Uint8Array;
}

export type RequestEnvelope = ClearEnvelope | SealedEnvelope;

/** Rejection of a request. */
interface RequestRefusal {
  readonly ok: false;
  readonly code: ProtocolErrorCode;
  /** Salt's reply to this request, sent packed and unencrypted. */
  readonly reply: WireValue;
}

const maxIdBytes = 255;
const maxAlgorithmLength = 64;
const maxTokBytes = 1024;
const nonceForm = /^[0-9a-f]{32}$/;
/**
 * Salt's reply to an invalid request. Minions recognise it because it is shorter than a signature,
 * and sign in again [WIRE 5.2].
 */
const badLoad = 'bad load';

/**
 * Limits for the outer map of a request. The maximum size is that of an encrypted load plus 1 KiB
 * for the other fields. All other limits are those for unauthenticated peers. An encrypted load
 * stays bytes, even if it is valid UTF-8.
 */
export const envelopeLimits: PayloadLimits = {
  ...clearLimits,
  maxTextBytes: 64 * 1024,
  maxBytes: loadLimits.maxBytes + 1024,
};

/**
 * Whether the value is a valid minion id. As in Salt, an id is not empty, contains no `/`, `\` or
 * NUL, and is not `.` or `..` [WIRE 5.3]. Control characters, lone surrogates and ids of more than
 * 255 bytes in UTF-8 are also rejected. 255 bytes is the maximum length of a file name.
 */
export function isValidMinionId(id: unknown): id is string {
  if (typeof id !== 'string' || id === '' || id === '.' || id === '..') return false;
  return !/[/\\\p{Cc}\p{Cs}]/u.test(id) && Buffer.byteLength(id, 'utf8') <= maxIdBytes;
}

const longestNewId = 128;
/**
 * Form of a new minion id: a letter or digit, then letters, digits and `._:@+-`. Letters and digits
 * may be of any script. Invisible characters are not allowed.
 */
const newIdForm = /^(?!\p{DI})[\p{L}\p{Nd}](?:(?!\p{DI})[\p{L}\p{Nd}._:@+-])*$/u;

/**
 * Matches ids that a compound target would parse as an operator or as a matcher such as `I@a:b`.
 */
const compoundForm = /^(?:and|or|not)$|^[A-Z].?@/u;

/**
 * Whether a new minion may use this id. It must have 1 to 128 characters in NFKC: letters and
 * digits of any script, `.`, `-`, `_`, `:`, `@` and `+`. It must begin with a letter or digit, and
 * must not contain `..`. If such an id is used as a target of any type, the target matches only
 * this id. Invisible characters and variants of letters are not allowed, because they could mislead
 * an administrator who accepts the key.
 */
export function isNewMinionId(id: string): boolean {
  return (
    isValidMinionId(id) &&
    [...id].length <= longestNewId &&
    newIdForm.test(id) &&
    !id.includes('..') &&
    !compoundForm.test(id) &&
    id === id.normalize('NFKC')
  );
}

/**
 * Whether the value is a nonce: exactly 32 lower-case hex digits. The master signs the nonces of
 * minions. Because nonces must have this form, no sender can get another text signed as a nonce.
 */
export function isNonce(nonce: unknown): nonce is string {
  return typeof nonce === 'string' && nonceForm.test(nonce);
}

/** Result of {@link decodeEnvelope}. */
export type DecodedEnvelope =
  | { readonly ok: true; readonly envelope: RequestEnvelope }
  | RequestRefusal;

/**
 * Decodes the outer map of a request: steps 1 to 3 of WIRE 5.2, and step 5 for unencrypted
 * requests. Never throws.
 * @param limits - limits of the whole message, default {@link envelopeLimits}; unencrypted requests
 * may have at most the size in {@link clearLimits}
 */
export function decodeEnvelope(
  bytes: Uint8Array,
  limits: PayloadLimits = envelopeLimits,
): DecodedEnvelope {
  let message: WireValue;
  try {
    message = unpackWire(bytes, { ...limits, uniqueKeys: true });
  } catch (error) {
    if (error instanceof ProtocolError) return refuse(error.code, { msg: badLoad });
    throw error;
  }
  if (!isWireMap(message)) return refuse('ERR_BAD_ENVELOPE');
  const version = toVersion(message.version);
  if (version === undefined) return refuse('ERR_BAD_ENVELOPE');
  if (message.enc === 'aes') return sealedEnvelope(message, version);
  if (message.enc !== 'clear') return refuse('ERR_BAD_ENVELOPE');
  if (bytes.length > clearLimits.maxBytes) return refuse('ERR_PAYLOAD_LIMIT');
  return clearEnvelope(message, version);
}

function refuse(code: ProtocolErrorCode, reply: WireValue = badLoad): RequestRefusal {
  return { ok: false, code, reply };
}

function toVersion(version: WireValue | undefined): ProtocolVersion | undefined {
  if (version === undefined) return 0;
  return version === 0 || version === 1 || version === 2 || version === 3 ? version : undefined;
}

function clearEnvelope(message: WireMap, version: ProtocolVersion): DecodedEnvelope {
  const { load } = message;
  if (load === undefined) return refuse('ERR_BAD_ENVELOPE');
  if (!isWireMap(load)) return refuse('ERR_BAD_LOAD', 'payload and load must be a dict');
  return { ok: true, envelope: { enc: 'clear', version, load } };
}

function sealedEnvelope(message: WireMap, version: ProtocolVersion): DecodedEnvelope {
  const load = wireBytes(message.load);
  const encAlgo = algorithmName(message.enc_algo, defaultEncryptionAlgorithm);
  const sigAlgo = algorithmName(message.sig_algo, defaultSigningAlgorithm);
  if (load === undefined || encAlgo === undefined || sigAlgo === undefined) {
    return refuse('ERR_BAD_ENVELOPE');
  }
  const id = isValidMinionId(message.id) ? message.id : undefined;
  if (version === 3 && id === undefined) return refuse('ERR_BAD_ID');
  return { ok: true, envelope: { enc: 'aes', version, id, encAlgo, sigAlgo, load } };
}

function algorithmName(name: WireValue | undefined, byDefault: string): string | undefined {
  if (name === undefined) return byDefault;
  return typeof name === 'string' && name.length <= maxAlgorithmLength ? name : undefined;
}

/** Options of {@link checkLoad}. */
export interface LoadCheckOptions {
  /** Current time, in seconds since 1970. */
  readonly nowSeconds: number;
  /**
   * Maximum difference between `ts` of a version 3 request and the current time, in seconds. 0
   * disables the check.
   */
  readonly ttlSeconds: number;
}

/** A well-formed request. For an encrypted request, the caller still has to verify `tok`. */
export interface CheckedRequest {
  /** Request type (`cmd`), or `undefined` if it is missing or not text. */
  readonly cmd: string | undefined;
  /** Minion id from the load. In version 3, the session key of this id decrypted the request. */
  readonly id: string | undefined;
  readonly nonce: string | undefined;
  /** Token that proves the identity of the minion. Always present in version 3. */
  readonly tok: Uint8Array | undefined;
  /**
   * Load: the fields of the request by name. If the request was encrypted, `tok` and `nonce` have
   * been removed from them.
   */
  readonly load: WireMap;
}

/** Result of {@link checkLoad}. */
export type CheckedLoad = { readonly ok: true; readonly request: CheckedRequest } | RequestRefusal;

/**
 * Checks the load of an envelope: steps 5 to 7, 9 and 10 of WIRE 5.2. Also checks the type and
 * length of the token. The caller verifies the token itself in steps 11 and 12. Never throws.
 * @param load - the decrypted load, or the load of an unencrypted envelope
 */
export function checkLoad(
  envelope: RequestEnvelope,
  load: WireValue,
  options: LoadCheckOptions,
): CheckedLoad {
  if (!isWireMap(load)) return refuse('ERR_BAD_LOAD', 'payload and load must be a dict');
  const { id } = load;
  if (id !== undefined && typeof id !== 'string') return refuse('ERR_BAD_ID', notAString(id));
  if (id?.includes('\0')) return refuse('ERR_BAD_ID', 'bad load: id contains a null byte');
  const cmd = typeof load.cmd === 'string' ? load.cmd : undefined;
  if (envelope.enc === 'clear') {
    return { ok: true, request: { cmd, id, nonce: undefined, tok: undefined, load } };
  }
  const code = checkSealedLoad(envelope, load, options);
  if (code !== undefined) return refuse(code);
  const { tok, nonce } = load;
  const request = {
    cmd,
    id,
    nonce: isNonce(nonce) ? nonce : undefined,
    tok: wireBytes(tok),
    load: withoutProof(load),
  };
  return { ok: true, request };
}

function withoutProof(load: WireMap): WireMap {
  const rest = emptyWireMap();
  for (const key of Object.keys(load)) {
    if (key !== 'tok' && key !== 'nonce') rest[key] = load[key] ?? null;
  }
  return rest;
}

/**
 * Returns Salt's reply to an id that is not text. It contains the id only if the id is an integer.
 * Other values are not sent back to the peer.
 */
function notAString(id: WireValue): string {
  return Number.isSafeInteger(id) ? `bad load: id ${id} is not a string` : badLoad;
}

function checkSealedLoad(
  envelope: SealedEnvelope,
  load: WireMap,
  options: LoadCheckOptions,
): ProtocolErrorCode | undefined {
  const { version } = envelope;
  if (version >= 2 && !isNonce(load.nonce)) return 'ERR_NONCE';
  if (version === 3 && !isFresh(load.ts, options)) return 'ERR_EXPIRED';
  if (version === 3 && load.id !== envelope.id) return 'ERR_BAD_ID';
  const tok = wireBytes(load.tok);
  if (load.tok === undefined) return version === 3 ? 'ERR_TOKEN' : undefined;
  return tok === undefined || tok.length > maxTokBytes ? 'ERR_TOKEN' : undefined;
}

function isFresh(ts: WireValue | undefined, options: LoadCheckOptions): boolean {
  if (options.ttlSeconds === 0) return true;
  if (typeof ts !== 'number' || !Number.isInteger(ts)) return false;
  return Math.abs(options.nowSeconds - ts) <= options.ttlSeconds;
}
