/** Files of a site: its identity and its private key, below `<state_dir>/site`. */

import { createPrivateKey, type KeyObject } from 'node:crypto';
import { rename } from 'node:fs/promises';
import path from 'node:path';
import Type, { type Static } from 'typebox';
import {
  compileSchema,
  isMissing,
  makeDirectory,
  readTextIfPresent,
  writeFileAtomically,
} from '#runtime';
import { EdgeError } from '../errors.ts';
import { generateKey, keyBytes } from './ed25519.ts';

const Identity = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 63 }),
    /** Address of the centre's HTTP API, as in the ticket. */
    centre: Type.String({ minLength: 1, maxLength: 1024 }),
    /** Public online key of the centre, in base64url. */
    centreKey: Type.String({ minLength: 43, maxLength: 43 }),
    joinedAt: Type.Integer({ minimum: 0 }),
    /** Time at which the key of the site was created, in milliseconds since 1970. */
    keyCreatedAt: Type.Integer({ minimum: 0 }),
  },
  { additionalProperties: false },
);
const checkIdentity = compileSchema(Identity);

/** Content of `identity.json`. */
type StoredIdentity = Readonly<Static<typeof Identity>>;

/** Identity of a site. */
export interface SiteIdentity {
  readonly name: string;
  readonly centre: string;
  /** Public online key of the centre: 32 bytes of Ed25519. */
  readonly centreKey: Uint8Array;
  readonly joinedAt: number;
  readonly keyCreatedAt: number;
  readonly key: KeyObject;
  /**
   * Key that the site has offered to the centre. It replaces `key` when the centre has accepted it.
   */
  readonly nextKey: KeyObject | undefined;
}

/** Returns the directory of the files of a site. */
export function siteDirectory(stateDir: string): string {
  return path.join(stateDir, 'site');
}

/**
 * Reads the identity of a site.
 * @returns `undefined` if the site has not joined
 * @throws EdgeError ERR_SITE_STATE if the files are damaged
 */
export async function readIdentity(directory: string): Promise<SiteIdentity | undefined> {
  const text = await readTextIfPresent(path.join(directory, 'identity.json'));
  if (text === undefined) return undefined;
  const { centreKey, ...rest } = parseIdentity(directory, text);
  const key = await readKey(directory, 'key');
  if (key === undefined) throw damaged(directory, 'the file key is missing');
  const publicKey = Buffer.from(centreKey, 'base64url');
  if (publicKey.length !== keyBytes) throw damaged(directory, 'the key of the centre is malformed');
  return { ...rest, centreKey: publicKey, key, nextKey: await readKey(directory, 'key.next') };
}

/** Writes the identity of a site that has joined. A former identity is replaced. */
export async function writeIdentity(
  directory: string,
  { key, centreKey, ...rest }: Omit<SiteIdentity, 'nextKey'>,
): Promise<void> {
  await makeDirectory(directory, 0o700);
  const identity: StoredIdentity = {
    ...rest,
    centreKey: Buffer.from(centreKey).toString('base64url'),
  };
  await writeKey(directory, 'key', key);
  await writeFileAtomically(
    path.join(directory, 'identity.json'),
    `${JSON.stringify(identity, null, 2)}\n`,
    0o600,
  );
}

/** Returns the next key of the site. Creates it if it does not exist. */
export async function createNextKey(directory: string): Promise<KeyObject> {
  const known = await readKey(directory, 'key.next');
  if (known !== undefined) return known;
  const key = generateKey();
  await writeKey(directory, 'key.next', key);
  return key;
}

/** Replaces the key of the site by its next key. */
export async function adoptNextKey(directory: string, now: number): Promise<void> {
  const identity = await readIdentity(directory);
  if (identity?.nextKey === undefined) return;
  const { nextKey: key, ...rest } = identity;
  await writeIdentity(directory, { ...rest, key, keyCreatedAt: now });
  await rename(path.join(directory, 'key.next'), path.join(directory, 'key')).catch(
    (error: unknown) => {
      if (!isMissing(error)) throw error;
    },
  );
}

/** Reads the private key in a file, or returns `undefined` if the file does not exist. */
export async function readKey(directory: string, name: string): Promise<KeyObject | undefined> {
  const text = await readTextIfPresent(path.join(directory, name));
  if (text === undefined) return undefined;
  try {
    const key = createPrivateKey(text);
    if (key.asymmetricKeyType === 'ed25519') return key;
  } catch {
    // Do not add the error of OpenSSL, because it may contain parts of the private key.
  }
  throw damaged(directory, `the file ${name} contains no Ed25519 key`);
}

/** Writes a private key to a file of mode 0600. */
export async function writeKey(directory: string, name: string, key: KeyObject): Promise<void> {
  await makeDirectory(directory, 0o700);
  const text = key.export({ format: 'pem', type: 'pkcs8' });
  await writeFileAtomically(path.join(directory, name), text, 0o600);
}

function parseIdentity(directory: string, text: string): StoredIdentity {
  try {
    return checkIdentity.Parse(JSON.parse(text));
  } catch (cause) {
    throw damaged(directory, 'the file identity.json is malformed', cause);
  }
}

function damaged(directory: string, problem: string, cause?: unknown): EdgeError {
  const options = cause === undefined ? {} : { cause };
  return new EdgeError('ERR_SITE_STATE', `${directory}: ${problem}; join the site again`, options);
}
