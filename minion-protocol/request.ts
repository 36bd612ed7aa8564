import { ProtocolError, type ProtocolErrorCode } from './errors.ts';
import {
  clearLimits,
  emptyWireMap,
  isWireMap,
  loadLimits,
  type PayloadLimits,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from './payload.ts';
import { defaultEncryptionAlgorithm, defaultSigningAlgorithm } from './rsa.ts';

/** 0: before nonces; 1: nobody; 2: nonces and signed replies; 3: session keys. */
export type ProtocolVersion = 0 | 1 | 2 | 3;

/** A request in the clear: `_auth` and `ping`. */
export interface ClearEnvelope {
  readonly enc: 'clear';
  readonly version: ProtocolVersion;
  readonly load: WireMap;
}

/** An encrypted request. */
export interface SealedEnvelope {
  readonly enc: 'aes';
  readonly version: ProtocolVersion;
  /** Whose session key opens it: always there in version 3, claimed and not yet proved. */
  readonly id: string | undefined;
  /** As the minion named it, `OAEP-SHA1` where it names none; perhaps unknown to us. */
  readonly encAlgo: string;
  /** As the minion named it, `PKCS1v15-SHA1` where it names none; perhaps unknown to us. */
  readonly sigAlgo: string;
  /** The Crypticle blob; a view into the message. */
  readonly load: Uint8Array;
}

export type RequestEnvelope = ClearEnvelope | SealedEnvelope;

/** A request that goes no further. */
interface RequestRefusal {
  readonly ok: false;
  readonly code: ProtocolErrorCode;
  /** What Salt answers: packed and sent in the clear. */
  readonly reply: WireValue;
}

const maxIdBytes = 255;
const maxAlgorithmLength = 64;
const maxTokBytes = 1024;
const nonceForm = /^[0-9a-f]{32}$/;
/** Short enough for minions to take it as a sign to sign in again [WIRE 5.2]. */
const badLoad = 'bad load';

/** Sizes as for sealed loads, with room for the envelope; depth as for strangers. */
export const envelopeLimits: PayloadLimits = {
  ...clearLimits,
  maxBytes: loadLimits.maxBytes + 1024,
};

/**
 * Whether Salt takes it as an id: non-empty text without `/`, `\` and NUL, neither `.` nor `..`
 * [WIRE 5.3]. Ours on top: no control characters, at most 255 bytes in UTF-8, the most that a file
 * name holds.
 */
export function isValidMinionId(id: unknown): id is string {
  if (typeof id !== 'string' || id === '' || id === '.' || id === '..') return false;
  return !/[/\\\p{Cc}\p{Cs}]/u.test(id) && Buffer.byteLength(id, 'utf8') <= maxIdBytes;
}

const longestNewId = 128;
/** Letters and digits of any script, but for letters that are not to be seen. */
const newIdForm = /^(?!\p{DI})[\p{L}\p{Nd}](?:(?!\p{DI})[\p{L}\p{Nd}._:@+-])*$/u;

/**
 * Whether a minion may be new under this id: 1 to 128 letters and digits of any script in NFC, `.`,
 * `-`, `_`, `:`, `@` and `+`, the first of them a letter or digit, and no `..`. Such an id means
 * itself alone where it is a target, and is what it looks like to whoever decides on it.
 */
export function isNewMinionId(id: string): boolean {
  return (
    isValidMinionId(id) &&
    [...id].length <= longestNewId &&
    newIdForm.test(id) &&
    !id.includes('..') &&
    id === id.normalize('NFC')
  );
}

/** Whether it is a nonce: 32 lower-case hex digits, and nothing that could mean more when signed. */
export function isNonce(nonce: unknown): nonce is string {
  return typeof nonce === 'string' && nonceForm.test(nonce);
}

/** Outcome of {@link decodeEnvelope}. */
export type DecodedEnvelope =
  | { readonly ok: true; readonly envelope: RequestEnvelope }
  | RequestRefusal;

/**
 * Reads a request's outer message: steps 1 to 3 of WIRE 5.2, and 5 for clear requests. Never throws.
 * @param limits - of the whole message, default {@link envelopeLimits}; clear requests may have no more than {@link clearLimits}
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
  /** Seconds since 1970. */
  readonly nowSeconds: number;
  /** How far `ts` of a version 3 request may be off, either way; 0 switches the check off. */
  readonly ttlSeconds: number;
}

/** A request whose form is right; for an encrypted one the caller still verifies `tok`. */
export interface CheckedRequest {
  /** `undefined` when it is missing or no text. */
  readonly cmd: string | undefined;
  /** From the load. In version 3 it is the id whose session key opened the request. */
  readonly id: string | undefined;
  readonly nonce: string | undefined;
  /** Proof of identity; always there in version 3. */
  readonly tok: Uint8Array | undefined;
  /** What the function gets: without `tok` and, if it was encrypted, without `nonce`. */
  readonly load: WireMap;
}

/** Outcome of {@link checkLoad}. */
export type CheckedLoad = { readonly ok: true; readonly request: CheckedRequest } | RequestRefusal;

/**
 * Checks what was in an envelope: steps 5 to 7, 9 and 10 of WIRE 5.2, and the form of the token for
 * 11 and 12. Never throws.
 * @param load - the decrypted load, or the load of a clear envelope
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

/** Salt's text names the value; a number is all of a peer's that is ever given back. */
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
