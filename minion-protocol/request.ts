/**
 * The outer message of a request and what is checked before anybody looks at its function
 * [WIRE 5; salt/channel/server.py ReqServerChannel.handle_message].
 *
 *     {enc: "clear", load: map, [version]}
 *     {enc: "aes", load: Crypticle blob, [version], [id], [enc_algo], [sig_algo]}
 */

import type { KeyObject } from 'node:crypto';
import { Type } from 'typebox';
import { compileSchema } from '#runtime';
import {
  type CrypticleKey,
  defaultEncryptionAlgorithm,
  defaultSigningAlgorithm,
  type EncryptionAlgorithm,
  generateKeyString,
  openValue,
  parseKeyString,
  rsaDecrypt,
  rsaEncrypt,
  rsaSign,
  rsaVerify,
  type SigningAlgorithm,
  sealPacked,
  sealValue,
} from './crypt.ts';
import { ProtocolError, type ProtocolErrorCode } from './errors.ts';
import {
  clearLimits,
  emptyWireMap,
  isWireMap,
  loadLimits,
  type PayloadLimits,
  packWire,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from './payload.ts';

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
  /** What Salt answers: pack it with {@link encodeClearReply}. */
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
  // protection: any-id
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
  // protection: any-nonce
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
  // protection: any-version
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
  // protection: id-of-the-load-1
  if (version === 3 && load.id !== envelope.id) return 'ERR_BAD_ID';
  const tok = wireBytes(load.tok);
  if (load.tok === undefined) return version === 3 ? 'ERR_TOKEN' : undefined;
  return tok === undefined || tok.length > maxTokBytes ? 'ERR_TOKEN' : undefined;
}

function isFresh(ts: WireValue | undefined, options: LoadCheckOptions): boolean {
  if (options.ttlSeconds === 0) return true;
  if (typeof ts !== 'number' || !Number.isInteger(ts)) return false;
  // protection: any-age
  return Math.abs(options.nowSeconds - ts) <= options.ttlSeconds;
}

/** A request in the clear, as a minion sends it. */
export interface ClearRequest {
  readonly enc: 'clear';
  readonly version: ProtocolVersion;
  readonly load: WireMap;
}

/** An encrypted request, as a minion sends it. */
export interface SealedRequest {
  readonly enc: 'aes';
  readonly version: ProtocolVersion;
  /** The master's AES key; in version 3 the minion's session key. */
  readonly key: CrypticleKey;
  /** What the function gets, with `cmd`. */
  readonly load: WireMap;
  /** Needed from version 2 on. */
  readonly nonce?: string;
  /** What version 3 adds. */
  readonly identity?: {
    readonly id: string;
    /** Seconds since 1970. */
    readonly ts: number;
    readonly tok: Uint8Array;
  };
  readonly encAlgo?: string;
  readonly sigAlgo?: string;
  /** 16 bytes, for tests only. */
  readonly random?: Uint8Array;
}

/** Packs a request. @throws TypeError when a version lacks what it must have */
export function encodeRequest(request: ClearRequest | SealedRequest): Buffer {
  if (request.enc === 'clear') {
    return packWire({ enc: 'clear', load: request.load, ...versionField(request.version) });
  }
  const { key, version, identity, encAlgo, sigAlgo, random } = request;
  return packWire({
    enc: 'aes',
    load: sealValue(key, sealedLoad(request), random === undefined ? {} : { random }),
    ...versionField(version),
    ...(version === 3 && identity ? { id: identity.id } : {}),
    ...(encAlgo === undefined ? {} : { enc_algo: encAlgo }),
    ...(sigAlgo === undefined ? {} : { sig_algo: sigAlgo }),
  });
}

function versionField(version: ProtocolVersion): WireMap {
  return version === 0 ? {} : { version };
}

/** What the minion's channel adds [salt/channel/client.py]. */
function sealedLoad({ load, version, nonce, identity }: SealedRequest): WireMap {
  if (version < 2) return load;
  if (nonce === undefined) throw new TypeError('versions 2 and 3 need a nonce');
  if (version === 2) return { ...load, nonce };
  if (identity === undefined) throw new TypeError('version 3 needs an identity');
  return { ...load, nonce, ...identity };
}

// The three ways to answer a request [WIRE 8; salt/channel/server.py]:
//
// send          packed Crypticle blob of the value, with the request's nonce from version 2 on
// send_clear    the packed value itself
// send_private  {key: OAEP of a one-time key, pillar: Crypticle blob under that key}, the blob of
// the pillar, or from version 2 on of {data: packed {key, pillar, nonce}, sig}

/** What ties a reply to its request. */
export interface ReplyContext {
  readonly version: ProtocolVersion;
  /** The request's; needed from version 2 on. */
  readonly nonce?: string | undefined;
}

/** The outer map of a reply is shallow whatever it holds. */
const outerLimits: PayloadLimits = {
  ...loadLimits,
  maxBytes: loadLimits.maxBytes + 64 * 1024,
};

/** Packs a *send* reply, ready for the transport. @throws TypeError without a needed nonce */
export function encodeSendReply(
  key: CrypticleKey,
  value: WireValue,
  context: ReplyContext,
): Buffer {
  return packWire(sealValue(key, value, nonceOption(context)));
}

/**
 * A *send* reply of a value that was packed before, as pieces that make it up one after the other:
 * what many minions ask for is packed once, and the content of files is not copied.
 * @throws TypeError without a needed nonce
 */
export function encodePackedReply(
  key: CrypticleKey,
  packed: readonly Uint8Array[],
  context: ReplyContext,
): Buffer {
  return packWire(sealPacked(key, packed, nonceOption(context)));
}

/** Packs a *send_clear* reply, ready for the transport. */
export function encodeClearReply(value: WireValue): Buffer {
  return packWire(value);
}

function nonceOption({ version, nonce }: ReplyContext): { nonce?: string } {
  if (version < 2) return {};
  if (nonce === undefined) throw new TypeError('versions 2 and 3 need a nonce');
  return { nonce };
}

export interface PrivateReply extends ReplyContext {
  readonly pillar: WireValue;
  /** The accepted public key of the id that asked, never one from the request. */
  readonly minionKey: KeyObject;
  /** The master's private key. */
  readonly masterKey: KeyObject;
  readonly encAlgo: EncryptionAlgorithm;
  readonly sigAlgo: SigningAlgorithm;
  /** The one-time key; default: a new one. */
  readonly keyString?: string;
}

/** Packs a *send_private* reply, ready for the transport. Slow: RSA. */
export function encodePrivateReply(reply: PrivateReply): Buffer {
  const keyString = reply.keyString ?? generateKeyString();
  const key = rsaEncrypt(reply.minionKey, Buffer.from(keyString, 'latin1'), reply.encAlgo);
  const pillar = sealValue(parseKeyString(keyString), privateContent(reply, key));
  return packWire({ key, pillar });
}

function privateContent(reply: PrivateReply, key: Buffer): WireValue {
  const { pillar, masterKey, sigAlgo } = reply;
  const { nonce } = nonceOption(reply);
  if (nonce === undefined) return pillar;
  const data = packWire({ key, pillar, nonce });
  // protection: unsigned-pillar
  return { data, sig: rsaSign(masterKey, data, sigAlgo) };
}

/** How the minion opens a *send* reply. */
export interface SendReplyOptions extends ReplyContext {
  readonly key: CrypticleKey;
  readonly limits?: PayloadLimits;
  /** Leave all text as bytes, as minions do with files. Default: false. */
  readonly raw?: boolean;
}

/**
 * Opens a *send* reply. ERR_BAD_HMAC (also for the text `bad load`) means: sign in again and repeat
 * the request once.
 * @throws ProtocolError ERR_BAD_REPLY, ERR_BAD_HMAC, ERR_NONCE, ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function openSendReply(bytes: Uint8Array, options: SendReplyOptions): WireValue {
  const blob = wireBytes(unpackWire(bytes, outerLimits));
  if (blob === undefined) throw badReply('not an encrypted value');
  return openValue(options.key, blob, {
    ...nonceOption(options),
    ...limitsOption(options),
    raw: options.raw ?? false,
  });
}

/** How the minion opens a *send_private* reply. */
export interface PrivateReplyOptions extends ReplyContext {
  /** The minion's private key. */
  readonly minionKey: KeyObject;
  /** The master's public key, as stored. */
  readonly masterKey: KeyObject;
  readonly encAlgo: EncryptionAlgorithm;
  readonly sigAlgo: SigningAlgorithm;
  readonly limits?: PayloadLimits;
}

/**
 * Opens a *send_private* reply and gives the pillar. ERR_BAD_REPLY and ERR_BAD_SIGNATURE mean: sign
 * in again and repeat the request once.
 * @throws ProtocolError ERR_BAD_REPLY, ERR_DECRYPT, ERR_BAD_HMAC, ERR_BAD_SIGNATURE, ERR_NONCE, …
 */
export function openPrivateReply(bytes: Uint8Array, options: PrivateReplyOptions): WireValue {
  const reply = unpackWire(bytes, outerLimits);
  const wrapped = isWireMap(reply) ? wireBytes(reply.key) : undefined;
  const blob = isWireMap(reply) ? wireBytes(reply.pillar) : undefined;
  if (wrapped === undefined || blob === undefined) throw badReply('no key or no pillar');
  const keyString = rsaDecrypt(options.minionKey, wrapped, options.encAlgo).toString('latin1');
  const content = openValue(parseKeyString(keyString), blob, limitsOption(options));
  if (options.version < 2) return content;
  if (!isWireMap(content)) throw badReply('no signed map');
  return signedPillar(content, wrapped, options);
}

function limitsOption(options: { limits?: PayloadLimits }): { limits?: PayloadLimits } {
  return options.limits === undefined ? {} : { limits: options.limits };
}

function signedPillar(
  content: WireMap,
  wrapped: Uint8Array,
  options: PrivateReplyOptions,
): WireValue {
  const data = wireBytes(content.data);
  const sig = wireBytes(content.sig);
  if (!data || !sig || !rsaVerify(options.masterKey, data, sig, options.sigAlgo)) {
    throw new ProtocolError('ERR_BAD_SIGNATURE', 'a pillar that the master has not signed');
  }
  const signed = unpackWire(data, options.limits);
  if (!isWireMap(signed) || signed.pillar === undefined) throw badReply('no pillar');
  const key = wireBytes(signed.key);
  if (!key || !Buffer.from(key).equals(wrapped)) throw badReply('the key is not the signed one');
  if (signed.nonce !== options.nonce) {
    throw new ProtocolError('ERR_NONCE', 'a pillar for another request');
  }
  return signed.pillar;
}

function badReply(what: string): ProtocolError {
  return new ProtocolError('ERR_BAD_REPLY', `unusable reply: ${what}`);
}

// The answer to `_serve_file` [WIRE 9.8]:
//
// {data: bytes, dest: path, [gzip: level]}

/** A part of a file. */
export interface FileChunk {
  readonly data: Uint8Array;
  /** The file's relative path; empty if there is none. */
  readonly dest: string;
  /** Level that `data` was compressed with, if it was. */
  readonly gzip?: number;
}

const mapOfTwo = 0x82;
const mapOfThree = 0x83;
const raw32 = 0xdb;
const longest16 = 0xffff;

/** Packs it, in pieces that make it up one after the other; a large `data` is one as it is. */
export function packFileChunk({ data, dest, gzip }: FileChunk): Uint8Array[] {
  const rest = gzip === undefined ? { dest } : { dest, gzip };
  if (data.length <= longest16) return [packWire({ data, ...rest })];
  const head = Buffer.concat([
    Buffer.from([gzip === undefined ? mapOfTwo : mapOfThree]),
    packWire('data'),
    Buffer.from([raw32, 0, 0, 0, 0]),
  ]);
  head.writeUInt32BE(data.length, head.length - 4);
  // The other entries, without the head of their own map.
  return [head, data, packWire(rest).subarray(1)];
}

// The loads that minions send and get, by their `cmd` [WIRE 6.1, 9.3 to 9.5, 11.2; salt/master.py].
// Fields keep their wire names. Unknown fields are tolerated: every release adds some.

/** A load that has been looked at, or which of its fields is wrong. */
export type ParsedLoad<Load> =
  | { readonly ok: true; readonly value: Load }
  | {
      readonly ok: false;
      /** Names the field and what was expected; nothing of the content. */
      readonly reason: string;
    };

const maxKeyText = 16 * 1024;
const maxCipherBytes = 1024;
const maxTagLength = 1024;
const maxEvents = 1000;

const name = Type.String({ minLength: 1, maxLength: 1024 });
const shortText = Type.Optional(Type.Union([Type.Null(), Type.String({ maxLength: 1024 })]));
const anything = Type.Unknown();

/** What a schema's compiled check offers. */
interface Check {
  Check(value: unknown): boolean;
  Errors(value: unknown): Iterable<{ readonly instancePath: string; readonly keyword: string }>;
}

function firstError(check: Check, load: WireMap): string | undefined {
  if (check.Check(load)) return undefined;
  for (const { instancePath, keyword } of check.Errors(load)) {
    // The path has only names from our schema and indices: no map with free keys is looked into.
    return `${instancePath === '' ? 'load' : instancePath.slice(1)}: ${keyword}`;
  }
  return 'load: malformed';
}

const authSchema: Check = compileSchema(
  Type.Object({
    cmd: Type.Literal('_auth'),
    id: Type.String(),
    nonce: Type.Optional(Type.String()),
    pub: Type.String({ minLength: 1, maxLength: maxKeyText }),
    enc_algo: Type.Optional(Type.String({ maxLength: 64 })),
    sig_algo: Type.Optional(Type.String({ maxLength: 64 })),
  }),
);

/** `_auth`. */
export interface AuthLoad {
  /** As sent: not yet checked. */
  readonly id: string;
  readonly nonce: string | undefined;
  /** PEM, as sent. */
  readonly pub: string;
  readonly enc_algo: string | undefined;
  readonly sig_algo: string | undefined;
  /** The minion's token, encrypted to the master key that it knows. */
  readonly token: Uint8Array | undefined;
  /** Grain name → value. */
  readonly autosign_grains: WireMap | undefined;
}

/** Reads the load of a sign-in request. */
export function parseAuthLoad(load: WireMap): ParsedLoad<AuthLoad> {
  const reason = firstError(authSchema, load);
  if (reason !== undefined) return { ok: false, reason };
  const token = wireBytes(load.token);
  if (load.token !== undefined && (token === undefined || token.length > maxCipherBytes)) {
    return { ok: false, reason: 'token: not bytes, or too long' };
  }
  const value: AuthLoad = {
    id: textOr(load.id, ''),
    nonce: optionalText(load.nonce),
    pub: textOr(load.pub, ''),
    enc_algo: optionalText(load.enc_algo),
    sig_algo: optionalText(load.sig_algo),
    token,
    autosign_grains: isWireMap(load.autosign_grains) ? load.autosign_grains : undefined,
  };
  return { ok: true, value };
}

const returnSchema: Check = compileSchema(
  Type.Object({
    id: name,
    jid: Type.String({ minLength: 1, maxLength: 64 }),
    return: anything,
    fun: Type.Optional(Type.Union([name, Type.Array(name, { maxItems: 1000 })])),
    out: shortText,
    user: shortText,
    master_id: shortText,
    schedule: shortText,
    resource_id: shortText,
  }),
);

/** `_return`: what a job came to on one minion. */
export type ReturnLoad = WireMap & {
  /** In versions 0 and 2 whatever the sender wrote. */
  id: string;
  /** A jid; `req` for a job that the minion started itself; `nocache` for an event only. */
  jid: string;
  return: WireValue;
  /** A list for several functions. */
  fun?: string | string[];
  fun_args?: WireValue;
  /** An integer; for several functions a map or list. */
  retcode?: WireValue;
  /** A boolean; for several functions a map or list. */
  success?: WireValue;
  /** Name of an outputter. */
  out?: string | null;
  user?: string | null;
  metadata?: WireValue;
  master_id?: string | null;
  /** Name of the schedule that ran it. */
  schedule?: string | null;
  /** What it is the result of, where that is not the minion itself but what it manages (3008). */
  resource_id?: string | null;
};

function isReturnLoad(load: WireMap): load is ReturnLoad {
  return returnSchema.Check(load) && isValidMinionId(load.id);
}

/** Reads the load of `_return`. */
export function parseReturnLoad(load: WireMap): ParsedLoad<ReturnLoad> {
  if (isReturnLoad(load)) return { ok: true, value: load };
  return { ok: false, reason: firstError(returnSchema, load) ?? 'id: not a minion id' };
}

const eventSchema: Check = compileSchema(
  Type.Object({
    tag: Type.Optional(Type.String({ minLength: 1, maxLength: maxTagLength })),
    pretag: Type.Optional(
      Type.Union([Type.Null(), Type.String({ minLength: 1, maxLength: maxTagLength })]),
    ),
    events: Type.Optional(
      Type.Array(Type.Object({ tag: Type.String({ minLength: 1, maxLength: maxTagLength }) }), {
        maxItems: maxEvents,
      }),
    ),
  }),
);

/** An event as a minion asks for it: tags are not yet judged. */
interface RequestedEvent {
  readonly tag: string;
  readonly data: WireValue;
}

/** `_minion_event`, in either of its forms. */
export type MinionEventLoad = {
  /** Ours: the answer is the id of the signal that the event became, or `null`. */
  readonly wantsSignalId: boolean;
} & (
  | {
      readonly form: 'single';
      readonly tag: string;
      /** The whole load: Salt fires it as the event's data. */
      readonly data: WireMap;
    }
  | {
      readonly form: 'batch';
      readonly events: readonly RequestedEvent[];
      /** Each event is fired once more as `<pretag>/<tag>`. */
      readonly pretag: string | undefined;
    }
  | { readonly form: 'empty' }
);

/** Reads the load of `_minion_event`. */
export function parseMinionEventLoad(load: WireMap): ParsedLoad<MinionEventLoad> {
  const reason = firstError(eventSchema, load);
  if (reason !== undefined) return { ok: false, reason };
  return { ok: true, value: minionEvents(load) };
}

function minionEvents(load: WireMap): MinionEventLoad {
  const { signal_id: asked, ...data } = load;
  const wantsSignalId = asked === true;
  const { events, tag } = data;
  if (Array.isArray(events)) {
    const pretag = optionalText(data.pretag);
    const requested = events.filter(isWireMap).map(requestedEvent);
    return { wantsSignalId, form: 'batch', events: requested, pretag };
  }
  if (typeof tag !== 'string') return { wantsSignalId, form: 'empty' };
  return { wantsSignalId, form: 'single', tag, data };
}

function requestedEvent(event: WireMap): RequestedEvent {
  return { tag: textOr(event.tag, ''), data: event.data === undefined ? event : event.data };
}

const pillarSchema: Check = compileSchema(
  Type.Object({ id: Type.Optional(name), saltenv: shortText, pillarenv: shortText }),
);

/** `_pillar`. */
export interface PillarLoad {
  /** `undefined` when it is missing: the answer is an empty pillar. */
  readonly id: string | undefined;
  /** `undefined` when they are missing: the answer is an empty pillar. */
  readonly grains: WireMap | undefined;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  /** Empty when it is not a map. */
  readonly pillar_override: WireMap;
  readonly extra_minion_data: WireMap;
  /** `2` from every release of the range. */
  readonly ver: string | undefined;
  readonly clean_cache: boolean;
}

/** Reads the load of `_pillar`. */
export function parsePillarLoad(load: WireMap): ParsedLoad<PillarLoad> {
  const reason = firstError(pillarSchema, load);
  if (reason !== undefined) return { ok: false, reason };
  const value: PillarLoad = {
    id: isValidMinionId(load.id) ? load.id : undefined,
    grains: textKeyed(load.grains),
    saltenv: optionalText(load.saltenv),
    pillarenv: optionalText(load.pillarenv),
    pillar_override: textKeyed(load.pillar_override) ?? emptyWireMap(),
    extra_minion_data: textKeyed(load.extra_minion_data) ?? emptyWireMap(),
    ver: optionalText(load.ver),
    clean_cache: load.clean_cache === true,
  };
  return { ok: true, value };
}

/** A map with its text keys only: no grain or pillar key that can be asked for is anything else. */
function textKeyed(value: WireValue | undefined): WireMap | undefined {
  if (!(value instanceof Map)) return isWireMap(value) ? value : undefined;
  const map = emptyWireMap();
  for (const [key, item] of value) if (typeof key === 'string') map[key] = item;
  return map;
}

/** The load of a publication [WIRE 11.2]. */
export type PublicationLoad = WireMap & {
  fun: string | string[];
  /** For several functions a list of lists. Keywords come last, as a map with `__kwarg__`. */
  arg: WireValue[];
  /** A list for `list`; text or a list for `compound`. */
  tgt: string | string[];
  /** Absent means `glob`. */
  tgt_type?: string;
  jid: string;
  /** Returner names with commas between them. */
  ret?: string;
  user?: string;
  /** Timeout in seconds for lower masters. */
  to?: number;
  /** Only where it is not `:`. */
  delimiter?: string;
  /** The minion that asked for it. */
  id?: string;
  master_id?: string;
  metadata?: WireMap;
  ret_config?: string;
  ret_kwargs?: WireMap;
  module_executors?: WireValue[];
  executor_opts?: WireMap;
  auth_list?: WireValue[];
  /** Minions of 3008 and later fire `salt/job/<jid>/start/<id>` before they begin. */
  start_event?: boolean;
};

function optionalText(value: WireValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function textOr(value: WireValue | undefined, fallback: string): string {
  return typeof value === 'string' ? value : fallback;
}
