/**
 * Identity of a site: the file `<state_dir>/site/identity.json`. It contains the keys of the site,
 * its centre, and the trusted root. Each change replaces the whole file, so that a crash leaves the
 * former identity or the new one.
 */

import { createPrivateKey, type KeyObject } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import Type, { type Static } from 'typebox';
import {
  type BeforeStep,
  compileSchema,
  Mutex,
  makeDirectory,
  readTextIfPresent,
  writeFileAtomically,
} from '#runtime';
import { EdgeError } from '../errors.ts';
import { generateKey, keyBytes } from './ed25519.ts';

/** Maximum number of former keys that a site stores: more than a year of renewals. */
const maxFormerKeys = 16;

const strict = { additionalProperties: false };
const Time = Type.Integer({ minimum: 0 });
/** Private key in PKCS #8, DER, base64. */
const PrivateKey = Type.String({ minLength: 1, maxLength: 256 });

const Rehomed = Type.Object(
  {
    /**
     * Time at which the former centre signed the statement that names the present centre, in
     * milliseconds since 1970.
     */
    issuedAt: Time,
    /** Time at which the site changed its centre, in milliseconds since 1970. */
    at: Time,
    /** Id of the former centre. */
    from: Type.String(),
    /** Addresses of the HTTP API of the present centre. */
    addresses: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }),
    /** CA of the certificate of the centre, PEM. Default: the option `ca` of the site. */
    ca: Type.Optional(Type.String()),
    behindProxy: Type.Boolean(),
    /**
     * Value of the option `centre` when the site changed its centre. While the option still has
     * this value, the site uses `addresses` instead of the option.
     */
    replaced: Type.String(),
    /**
     * Signed notification that the site has left its former centre, with the addresses of that
     * centre. Absent if the present centre has the same id as the former one.
     */
    leave: Type.Optional(
      Type.Object(
        {
          signature: Type.String(),
          addresses: Type.Array(Type.String({ minLength: 1 })),
          ca: Type.Optional(Type.String()),
        },
        strict,
      ),
    ),
  },
  strict,
);

const Identity = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 63 }),
    /**
     * Address of the centre's HTTP API, from the ticket or from the statement that moved the site
     * to this centre.
     */
    centre: Type.String({ minLength: 1, maxLength: 1024 }),
    /** Public online key of the centre, in base64url. */
    centreKey: Type.String({ minLength: 43, maxLength: 43 }),
    joinedAt: Time,
    /** Time at which the key of the site was created, in milliseconds since 1970. */
    keyCreatedAt: Time,
    key: PrivateKey,
    nextKey: Type.Optional(PrivateKey),
    formerKeys: Type.Array(PrivateKey, { maxItems: maxFormerKeys }),
    /** Root metadata that the site trusts, in base64. */
    root: Type.Optional(Type.String()),
    generation: Type.Integer({ minimum: 0, maximum: 2 ** 20 }),
    rehomed: Type.Optional(Rehomed),
    statement: Type.Optional(Type.String()),
    statementFloor: Time,
  },
  strict,
);
const checkIdentity = compileSchema(Identity);

/** Content of `identity.json`. */
type StoredIdentity = Readonly<Static<typeof Identity>>;

/**
 * Record of the change to the present centre. Exists only if a signed statement has caused the
 * change.
 */
export type RehomedSite = Readonly<Static<typeof Rehomed>>;

/** Identity of a site: its name and keys, its centre, and the statement about its next centre. */
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
  /**
   * Former keys of the site, latest first. They are stored because the next centre may still know
   * the site by one of them.
   */
  readonly formerKeys: readonly KeyObject[];
  /** Root metadata that the site received from its centre. */
  readonly root: Uint8Array | undefined;
  /**
   * Number of times that the site has moved to a centre with another id. Versions of bundles are
   * comparable only if they have the same generation.
   */
  readonly generation: number;
  readonly rehomed: RehomedSite | undefined;
  /** Signed statement that moves this site to the next centre, or `undefined`. */
  readonly statement: string | undefined;
  /**
   * Time of issue of the latest statement (order to change the centre) that the site has accepted.
   * In milliseconds since 1970, or 0. The site refuses earlier statements.
   */
  readonly statementFloor: number;
}

/** Returns the directory for the files of a site, `<state_dir>/site`. */
export function siteDirectory(stateDir: string): string {
  return path.join(stateDir, 'site');
}

/** Reads and replaces the file with the identity of a site. */
export class SiteIdentityFile {
  readonly #directory: string;
  readonly #beforeStep: BeforeStep;
  readonly #mutex = new Mutex();

  /**
   * @param directory - directory for the files of the site
   * @param beforeStep - called before each file operation, so that tests can interrupt it
   */
  constructor(directory: string, beforeStep: BeforeStep = () => {}) {
    this.#directory = directory;
    this.#beforeStep = beforeStep;
  }

  get #file(): string {
    return path.join(this.#directory, 'identity.json');
  }

  /**
   * Reads the identity, after a change in progress has ended.
   * @returns `undefined` if the site has not joined
   * @throws EdgeError ERR_SITE_STATE if the file is damaged
   */
  read(): Promise<SiteIdentity | undefined> {
    return this.#mutex.run(() => this.#read());
  }

  async #read(): Promise<SiteIdentity | undefined> {
    const text = await readTextIfPresent(this.#file);
    if (text === undefined) return undefined;
    try {
      return decode(checkIdentity.Parse(JSON.parse(text)));
    } catch {
      // Do not add the error, because it may contain parts of the private key.
      const problem = 'the file identity.json is malformed';
      const action = 'stop the master, remove this directory, and join the site again';
      throw new EdgeError('ERR_SITE_STATE', `${this.#directory}: ${problem}; ${action}`);
    }
  }

  /** Writes the identity. A former identity is replaced. */
  write(identity: SiteIdentity): Promise<void> {
    return this.#mutex.run(() => this.#write(identity));
  }

  /**
   * Replaces the identity by the result of a function, and returns this result. Writes nothing if
   * the function returns its argument.
   * @throws EdgeError ERR_SITE_NOT_JOINED if the site has not joined
   */
  change(change: (identity: SiteIdentity) => SiteIdentity): Promise<SiteIdentity> {
    return this.#mutex.run(async () => {
      const identity = await this.#read();
      if (identity === undefined) {
        throw new EdgeError('ERR_SITE_NOT_JOINED', 'this site has not joined a centre');
      }
      const changed = change(identity);
      if (changed !== identity) await this.#write(changed);
      return changed;
    });
  }

  async #write(identity: SiteIdentity): Promise<void> {
    await makeDirectory(this.#directory, 0o700);
    await this.#removeIncomplete();
    const text = `${JSON.stringify(encode(identity), null, 2)}\n`;
    await writeFileAtomically(this.#file, text, 0o600, this.#beforeStep);
  }

  /** Removes the temporary files of writes that a crash has interrupted. They contain keys. */
  async #removeIncomplete(): Promise<void> {
    const prefix = `${path.basename(this.#file)}.`;
    for (const name of await readdir(this.#directory)) {
      const isIncomplete = name.startsWith(prefix) && name.endsWith('.tmp');
      if (isIncomplete) await rm(path.join(this.#directory, name), { force: true });
    }
  }
}

/**
 * Returns the key that will replace the present key of the site. If there is none yet, creates and
 * stores it.
 */
export async function createNextKey(file: SiteIdentityFile): Promise<KeyObject> {
  const created = generateKey();
  const { nextKey = created } = await file.change((identity) =>
    identity.nextKey === undefined ? { ...identity, nextKey: created } : identity,
  );
  return nextKey;
}

/** Makes `nextKey` the key of the site. Adds the present key to the former keys. */
export async function adoptNextKey(file: SiteIdentityFile, now: number): Promise<void> {
  await file.change((identity) => {
    const { key, nextKey, formerKeys } = identity;
    if (nextKey === undefined) return identity;
    const others = formerKeys.filter((it) => !it.equals(nextKey) && !it.equals(key));
    return {
      ...identity,
      key: nextKey,
      nextKey: undefined,
      keyCreatedAt: now,
      formerKeys: [key, ...others].slice(0, maxFormerKeys),
    };
  });
}

function encode(identity: SiteIdentity): StoredIdentity {
  const { centreKey, key, nextKey, formerKeys, root, rehomed, statement, ...rest } = identity;
  return {
    ...rest,
    centreKey: Buffer.from(centreKey).toString('base64url'),
    key: encodeKey(key),
    ...(nextKey === undefined ? {} : { nextKey: encodeKey(nextKey) }),
    formerKeys: formerKeys.map(encodeKey),
    ...(root === undefined ? {} : { root: Buffer.from(root).toString('base64') }),
    ...(rehomed === undefined ? {} : { rehomed }),
    ...(statement === undefined ? {} : { statement }),
  };
}

function decode(stored: StoredIdentity): SiteIdentity {
  const { centreKey: text, key, nextKey, formerKeys, root, rehomed, statement, ...rest } = stored;
  const centreKey = Buffer.from(text, 'base64url');
  if (centreKey.length !== keyBytes)
    throw new TypeError('the stored public key of the centre is malformed');
  return {
    ...rest,
    centreKey,
    key: decodeKey(key),
    nextKey: nextKey === undefined ? undefined : decodeKey(nextKey),
    formerKeys: formerKeys.map(decodeKey),
    root: root === undefined ? undefined : Buffer.from(root, 'base64'),
    rehomed,
    statement,
  };
}

function encodeKey(key: KeyObject): string {
  return key.export({ format: 'der', type: 'pkcs8' }).toString('base64');
}

function decodeKey(text: string): KeyObject {
  const der = Buffer.from(text, 'base64');
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  if (key.asymmetricKeyType !== 'ed25519')
    throw new TypeError('the stored key of this site is not an Ed25519 key');
  return key;
}
