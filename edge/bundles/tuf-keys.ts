/** Ed25519 keys that sign the metadata of releases. */

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hash,
  type KeyObject,
  sign,
} from 'node:crypto';
import Type, { type Static } from 'typebox';
import { compileSchema } from '#runtime';
import { EdgeError } from '../errors.ts';

/**
 * Roles of The Update Framework. The centre does not store the private keys of `root` and
 * `targets`.
 */
export const tufRoles = ['root', 'targets', 'snapshot', 'timestamp'] as const;

export type TufRole = (typeof tufRoles)[number];

/** Key pair that signs the metadata of a role. */
export interface SigningKey {
  readonly keyId: string;
  /** Public key in hexadecimal digits. */
  readonly publicKey: string;
  readonly privateKey: KeyObject;
}

/** Creates an Ed25519 key pair. */
export function createSigningKey(): SigningKey {
  return toSigningKey(generateKeyPairSync('ed25519').privateKey);
}

/** Signs bytes and returns the signature in hexadecimal digits. */
export function signWith(key: SigningKey, bytes: Uint8Array): string {
  return sign(null, bytes, key.privateKey).toString('hex');
}

/** Returns the id of a public key: the digest of its canonical JSON. */
export function keyIdOf(publicKey: string): string {
  const text = `{"keytype":"ed25519","keyval":{"public":"${publicKey}"},"scheme":"ed25519"}`;
  return hash('sha256', text);
}

const KeyFileSchema = Type.Object(
  {
    type: Type.Literal('saltbridge release key'),
    role: Type.Enum([...tufRoles]),
    centre: Type.String(),
    /** Private key in PKCS #8, DER, base64. */
    private: Type.String(),
  },
  { additionalProperties: false },
);

const isKeyFile = compileSchema(KeyFileSchema);

/** Content of a key file: the key of one role. */
export interface RoleKey {
  readonly role: TufRole;
  /** Id of the centre to which the key belongs. */
  readonly centre: string;
  readonly key: SigningKey;
}

/** Encodes a key as the text of its file. */
export function encodeRoleKey({ role, centre, key }: RoleKey): string {
  const file: Static<typeof KeyFileSchema> = {
    type: 'saltbridge release key',
    role,
    centre,
    private: key.privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64'),
  };
  return `${JSON.stringify(file, undefined, 2)}\n`;
}

/**
 * Decodes the text of a key file.
 * @param name - name of the file, for messages
 * @throws EdgeError ERR_BUNDLE_KEYS if it is not a key file
 */
export function decodeRoleKey(text: string, name: string): RoleKey {
  try {
    const value: unknown = JSON.parse(text);
    if (isKeyFile.Check(value)) {
      const der = Buffer.from(value.private, 'base64');
      const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
      if (privateKey.asymmetricKeyType === 'ed25519') {
        return { role: value.role, centre: value.centre, key: toSigningKey(privateKey) };
      }
    }
  } catch {
    // Do not add the parse error, because its message may contain parts of the private key.
  }
  throw new EdgeError(
    'ERR_BUNDLE_KEYS',
    `${name} is not a key file for releases; \`saltbridge site keys\` creates key files`,
  );
}

function toSigningKey(privateKey: KeyObject): SigningKey {
  const der = createPublicKey(privateKey).export({ format: 'der', type: 'spki' });
  const publicKey = der.subarray(-32).toString('hex');
  return { keyId: keyIdOf(publicKey), publicKey, privateKey };
}
