/**
 * The minion's side of `_auth` [WIRE 6.4; salt/crypt.py AsyncAuth]. Gives the caller the master's
 * key, for storage, when all checks have succeeded. Salt's minion stores the key earlier.
 */
import { type KeyObject, randomBytes } from 'node:crypto';
import { aesKeyDigest } from './auth-reply.ts';
import { checkKeyString } from './crypt.ts';
import { encodeRequest } from './encode-request.ts';
import { ProtocolError, type ProtocolErrorCode } from './errors.ts';
import { unpackWire } from './payload.ts';
import { clearLimits } from './payload-limits.ts';
import {
  defaultEncryptionAlgorithm,
  defaultSigningAlgorithm,
  type EncryptionAlgorithm,
  rsaDecrypt,
  rsaEncrypt,
  rsaVerify,
  type SigningAlgorithm,
} from './rsa.ts';
import { cleanKeyText, keyFingerprint, parsePublicKey } from './rsa-keys.ts';
import { isWireMap, type WireMap, type WireValue, wireBytes } from './wire-value.ts';
import { x931Recover } from './x931.ts';

/** Identity of the minion and its stored data about the master. */
export interface MinionHandshakeConfig {
  readonly id: string;
  readonly version: 0 | 2 | 3;
  readonly privateKey: KeyObject;
  /** Public key of the minion, in PEM. */
  readonly publicPem: string;
  /**
   * Random key string of this minion process. The minion sends it encrypted with the master's
   * public key. The master returns it to prove that it has the private key.
   */
  readonly token: string;
  /** Stored public key of the master, in PEM. Absent on first contact. */
  readonly masterPub?: string;
  /** Encryption algorithm. Default: `OAEP-SHA1`; the default is not sent in the request. */
  readonly encAlgo?: EncryptionAlgorithm;
  /** Signing algorithm. Default: `PKCS1v15-SHA1`; the default is not sent in the request. */
  readonly sigAlgo?: SigningAlgorithm;
  readonly autosignGrains?: WireMap;
  /**
   * Expected fingerprint of the master key (Salt's `master_finger`). Default: any fingerprint is
   * accepted.
   */
  readonly masterFinger?: string;
  /** Hash for `masterFinger`. Default: `sha256`. */
  readonly hashType?: string;
  /** Public key for verifying signatures of master keys (Salt's `verify_master_pubkey_sign`). */
  readonly masterSignPub?: KeyObject;
  /** Returns a new nonce of 32 hex digits for each request. Default: random. */
  readonly nonce?: () => string;
}

/** Result of one sign-in attempt. */
export type HandshakeStep =
  | {
      readonly state: 'accepted';
      readonly aes: string;
      /**
       * Session key of the minion as text (a key string) in protocol version 3. `undefined` in
       * older versions.
       */
      readonly session: string | undefined;
      readonly publishPort: number;
      /** Public key of the master in PEM, as sent. Store it if it is new. */
      readonly masterPub: string;
    }
  /** The key is pending. Repeat the sign-in after `acceptance_wait_time`. */
  | { readonly state: 'pending' }
  /** The key was rejected. Salt's minion exits with code 77. */
  | { readonly state: 'refused' }
  /** `max_minions` is reached. Try again later. */
  | { readonly state: 'full' }
  /**
   * The reply is not valid; `code` names the reason. Repeat the sign-in later, except after
   * ERR_MASTER_FINGER: then Salt's minion exits with status 42.
   */
  | { readonly state: 'failed'; readonly code: ProtocolErrorCode };

/** Configuration in which `encAlgo` and `sigAlgo` are set. */
type HandshakeSettings = MinionHandshakeConfig &
  Required<Pick<MinionHandshakeConfig, 'encAlgo' | 'sigAlgo'>>;

/** Object that creates the sign-in requests of one minion and checks the master's replies. */
export type MinionHandshake = ReturnType<typeof createMinionHandshake>;

/**
 * Creates the object that signs a minion in. The caller sends the result of `request` and passes
 * the reply to `step`. The reply determines the state that `step` returns:
 *
 * - If the reply accepts the minion and every check succeeds, the state is `accepted`.
 * - If `ret` is `true`, the state is `pending`.
 * - If `ret` is `false`, the state is `refused`.
 * - If `ret` is `full`, the state is `full`.
 * - If a check fails, or for any other reply, the state is `failed`.
 */
export function createMinionHandshake(config: MinionHandshakeConfig) {
  const settings = {
    encAlgo: defaultEncryptionAlgorithm,
    sigAlgo: defaultSigningAlgorithm,
    ...config,
  };
  const newNonce = config.nonce ?? (() => randomBytes(16).toString('hex'));
  let nonce = '';
  let storedKey: KeyObject | undefined;
  return {
    /** Returns the next request, with a new nonce. */
    request(): Buffer {
      nonce = newNonce();
      // Parse the key once, because parsing takes longer than encrypting with it.
      if (config.masterPub !== undefined) storedKey ??= parsePublicKey(config.masterPub);
      const token =
        storedKey && rsaEncrypt(storedKey, Buffer.from(config.token, 'latin1'), settings.encAlgo);
      return encodeRequest({
        enc: 'clear',
        version: config.version,
        load: authLoad(config, nonce, token),
      });
    },
    /**
     * Checks the reply to the last request. If the reply is not valid, returns the state `failed`
     * and does not throw.
     */
    step(reply: Uint8Array): HandshakeStep {
      try {
        return checkReply(settings, nonce, reply);
      } catch (error) {
        if (error instanceof ProtocolError) return { state: 'failed', code: error.code };
        throw error;
      }
    },
  };
}

function authLoad(config: MinionHandshakeConfig, nonce: string, token?: Buffer): WireMap {
  const { encAlgo, sigAlgo, autosignGrains } = config;
  return {
    cmd: '_auth',
    id: config.id,
    ...(config.version < 2 ? {} : { nonce }),
    ...(encAlgo === undefined ? {} : { enc_algo: encAlgo }),
    ...(sigAlgo === undefined ? {} : { sig_algo: sigAlgo }),
    ...(autosignGrains === undefined ? {} : { autosign_grains: autosignGrains }),
    ...(token === undefined ? {} : { token }),
    pub: cleanKeyText(config.publicPem),
  };
}

function checkReply(config: HandshakeSettings, nonce: string, bytes: Uint8Array): HandshakeStep {
  const reply = unpackMap(bytes);
  const plain = isWireMap(reply.load) ? reply.load : undefined;
  if (plain?.ret === 'bad enc algo' || plain?.ret === 'bad sig algo') fail('ERR_ALGORITHM');
  if (config.version >= 2) return checkSignedReply(config, nonce, reply);
  return reply.pub_key === undefined ? readRet(plain) : accepted(config, reply);
}

function unpackMap(bytes: Uint8Array): WireMap {
  const value: WireValue = unpackWire(bytes, clearLimits);
  if (!isWireMap(value)) return fail('ERR_BAD_REPLY');
  return value;
}

function checkSignedReply(config: HandshakeSettings, nonce: string, reply: WireMap): HandshakeStep {
  const load = wireBytes(reply.load);
  const sig = wireBytes(reply.sig);
  if (load === undefined || sig === undefined) return fail('ERR_BAD_SIGNATURE');
  const map = unpackMap(load);
  const step = map.pub_key === undefined ? readRet(map) : accepted(config, map);
  const signer = step.state === 'accepted' ? step.masterPub : config.masterPub;
  // On first contact, no key is known with which a rejection could be verified.
  if (signer !== undefined && !isSignedBy(config, signer, load, sig)) fail('ERR_BAD_SIGNATURE');
  if (map.nonce !== nonce) fail('ERR_NONCE');
  return step;
}

function isSignedBy(
  config: HandshakeSettings,
  signer: string,
  load: Uint8Array,
  sig: Uint8Array,
): boolean {
  return rsaVerify(parsePublicKey(signer), load, sig, config.sigAlgo);
}

function readRet(map: WireMap | undefined): HandshakeStep {
  switch (map?.ret) {
    case true:
      return { state: 'pending' };
    case false:
      return { state: 'refused' };
    case 'full':
      return { state: 'full' };
    default:
      return fail('ERR_BAD_REPLY');
  }
}

function accepted(config: HandshakeSettings, map: WireMap): HandshakeStep {
  const { pub_key: masterPub, publish_port: publishPort } = map;
  if (typeof masterPub !== 'string' || typeof publishPort !== 'number')
    return fail('ERR_BAD_REPLY');
  const masterKey = parsePublicKey(masterPub);
  const isKnown = checkMasterKey(config, masterPub, map.pub_sig);
  const aes = unsealed(config, map.aes);
  checkProof(masterKey, aes, map.sig);
  if (isKnown) checkToken(config, map.token);
  checkFinger(config, masterPub);
  const session = config.version === 3 ? unsealed(config, map.session) : undefined;
  return { state: 'accepted', aes, session, publishPort, masterPub };
}

/**
 * Checks the public key that the master has sent. If `masterSignPub` is set, every key must have a
 * valid signature. Otherwise, the key must have no signature, and must be the stored key if there
 * is one.
 * @returns whether the key is the stored one
 * @throws ProtocolError ERR_MASTER_KEY if the key is not valid
 */
function checkMasterKey(
  config: HandshakeSettings,
  masterPub: string,
  pubSig: WireValue | undefined,
): boolean {
  const isKnown = config.masterPub !== undefined && isSameKey(config, config.masterPub, masterPub);
  // Either both sides use signed master keys, or neither does [WIRE 6.6].
  if ((config.masterSignPub === undefined) !== (pubSig === undefined)) fail('ERR_MASTER_KEY');
  if (config.masterSignPub === undefined) {
    if (!isKnown && config.masterPub !== undefined) fail('ERR_MASTER_KEY');
  } else if (!hasValidMasterSignature(config, config.masterSignPub, masterPub, pubSig)) {
    fail('ERR_MASTER_KEY');
  }
  return isKnown;
}

/**
 * Whether the sent key equals the stored key. From version 2 on, the sent text must be exactly the
 * result of {@link cleanKeyText} for the stored key, as in Salt since 3006.7. In version 0, both
 * texts are cleaned before the comparison.
 */
function isSameKey(config: HandshakeSettings, stored: string, sent: string): boolean {
  return cleanKeyText(stored) === (config.version < 2 ? cleanKeyText(sent) : sent);
}

function hasValidMasterSignature(
  config: HandshakeSettings,
  signPub: KeyObject,
  masterPub: string,
  pubSig: WireValue | undefined,
): boolean {
  if (typeof pubSig !== 'string') return false;
  const signature = Buffer.from(pubSig, 'base64');
  return rsaVerify(signPub, Buffer.from(masterPub, 'utf8'), signature, config.sigAlgo);
}

/**
 * Decrypts a key string that the master encrypted with this minion's public key.
 * @throws ProtocolError ERR_BAD_REPLY, ERR_DECRYPT, ERR_BAD_KEY_STRING
 */
function unsealed(config: HandshakeSettings, value: WireValue | undefined): string {
  const sealed = wireBytes(value);
  if (sealed === undefined) return fail('ERR_BAD_REPLY');
  return checkKeyString(rsaDecrypt(config.privateKey, sealed, config.encAlgo).toString('latin1'));
}

function checkProof(masterKey: KeyObject, aes: string, sig: WireValue | undefined): void {
  const recovered = x931Recover(masterKey, wireBytes(sig) ?? Buffer.alloc(0));
  if (!recovered?.equals(aesKeyDigest(aes))) fail('ERR_MASTER_KEY');
}

function checkToken(config: HandshakeSettings, value: WireValue | undefined): void {
  const token = wireBytes(value);
  if (token === undefined) fail('ERR_MASTER_KEY');
  const plain = rsaDecrypt(config.privateKey, token, config.encAlgo).toString('latin1');
  if (plain !== config.token) fail('ERR_MASTER_KEY');
}

function checkFinger(config: HandshakeSettings, masterPub: string): void {
  if (config.masterFinger === undefined) return;
  if (keyFingerprint(masterPub, config.hashType) !== config.masterFinger) fail('ERR_MASTER_FINGER');
}

function fail(code: ProtocolErrorCode): never {
  throw new ProtocolError(
    code,
    "sign-in failed: the minion rejected the master's reply; the error code names the reason",
  );
}
