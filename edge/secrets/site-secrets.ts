/**
 * Part of a site that reads the site's secrets from the centre, and adds them to the pillar of the
 * site's minions. The site stores them on disk in encrypted form only.
 */

import { type KeyObject, randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import Type, { type Static } from 'typebox';
import { defineService, type ServiceKey } from '#master';
import type { WireMap } from '#minion-protocol';
import { compileSchema, Mutex, readTextIfPresent, writeFileAtomically } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import { EdgeError } from '../errors.ts';
import { isSignedBy } from '../identity/ed25519.ts';
import { readKey, writeKey } from '../identity/key-file.ts';
import { generateSealKey, sealKeyOf, unseal } from '../identity/sealed-box.ts';
import type { EdgePart, SiteContext } from '../parts.ts';
import { decodeSecrets, type SiteSecrets } from './secret-file.ts';
import {
  digestOfSecrets,
  nonceBytes,
  secretsChangedMessage,
  secretsMessage,
  secretsPurpose,
  signedSecrets,
  signSecretsRequest,
} from './secret-messages.ts';

/**
 * Service that reads the secrets of this site from the centre again. Other parts of the site call
 * it.
 */
export interface ReadSecrets {
  /**
   * Reads the present secrets from the centre. Resolves when the site has stored them.
   * @param since - time by the clock of the centre, in milliseconds since 1970. Does nothing if the
   * site has read its secrets after this time, over the present connection. Default: always reads
   */
  refresh(since?: number): Promise<void>;
}

/** Service that {@link openSiteSecrets} provides. */
export const siteSecrets: ServiceKey<ReadSecrets> = defineService('site-secrets');

const Stored = Type.Object({ digest: Type.String(), box: Type.String() });
const storedCheck = compileSchema(Stored);

/** Opens the part of a site that reads its secrets from the centre. */
export async function openSiteSecrets(context: SiteContext): Promise<EdgePart> {
  const { host, link } = context;
  const secrets = await StoredSecrets.open(context);
  host.provide(siteSecrets, secrets);
  const refresh = (): void => {
    secrets.refresh().catch((err: unknown) => {
      if (!host.closing.aborted)
        host.logger.warn({ err }, 'cannot read the secrets of this site from the centre');
    });
  };
  link.handle(secretsChangedMessage, async () => {
    refresh();
    return {};
  });
  link.onChange(({ isConnected }) => {
    secrets.forgetTime();
    if (isConnected) refresh();
  });
  return {
    pillar: {
      name: 'site_secrets',
      provide: async ({ id }) => secrets.pillarOf(id),
    },
  };
}

class StoredSecrets implements ReadSecrets {
  readonly #context: SiteContext;
  readonly #key: KeyObject;
  readonly #mutex = new Mutex();
  #digest: string | undefined;
  /**
   * Time at which the centre read the secrets in its last reply over the present connection. In
   * milliseconds since 1970, by the clock of the centre. 0 before the first such reply.
   */
  #readAt = 0;
  #tests: readonly (readonly [test: (id: string) => boolean, pillar: WireMap])[] = [];

  private constructor(context: SiteContext, key: KeyObject) {
    this.#context = context;
    this.#key = key;
  }

  /** Reads the stored secrets. If they are damaged, the site reads them again from the centre. */
  static async open(context: SiteContext): Promise<StoredSecrets> {
    const secrets = new StoredSecrets(context, await openKey(context.directory));
    const text = await readTextIfPresent(secrets.#file);
    if (text === undefined) return secrets;
    try {
      const { digest, box } = storedCheck.Parse(JSON.parse(text));
      secrets.#use(digest, secrets.#open(digest, Buffer.from(box, 'base64')));
    } catch {
      context.host.logger.error(
        'the stored secrets of this site are damaged; the site reads them again from the centre',
      );
    }
    return secrets;
  }

  get #file(): string {
    return path.join(this.#context.directory, 'secrets.json');
  }

  /** Returns the secrets of a minion as pillar, or `undefined` if it has none. */
  pillarOf(id: string): WireMap | undefined {
    const found = this.#tests.filter(([test]) => test(id));
    return found.length === 0 ? undefined : Object.assign({}, ...found.map(([, it]) => it));
  }

  async refresh(since = Infinity): Promise<void> {
    await this.#mutex.run(async () => {
      if (this.#readAt <= since) await this.#refresh();
    });
  }

  /**
   * Ensures that the next call of `refresh` reads the secrets again. Called when the connection
   * changes.
   */
  forgetTime(): void {
    this.#readAt = 0;
  }

  async #refresh(): Promise<void> {
    const { host, link, identity, options } = this.#context;
    const have = this.#digest === undefined ? {} : { have: this.#digest };
    const nonce = randomBytes(nonceBytes);
    const { key } = identity() ?? {};
    if (key === undefined) {
      throw new EdgeError('ERR_SITE_NOT_JOINED', 'this site has not joined a centre');
    }
    const request = { sealKey: sealKeyOf(this.#key), nonce };
    const proof = signSecretsRequest(key, options.name, request);
    const params = { ...request, ...have, proof };
    const reply = await link.call(secretsMessage, params, host.closing);
    const { digest, box, at, signature } = reply;
    const { centreKey } = identity() ?? {};
    const parts = signedSecrets(options.name, nonce, { digest, box, at });
    const isSigned =
      centreKey !== undefined && isSignedBy(centreKey, secretsPurpose, parts, signature);
    if (!isSigned) {
      throw new EdgeError('ERR_SITE_SECRETS', 'the secrets are not signed by the centre');
    }
    await this.#keep(digest, box);
    this.#readAt = at;
  }

  async #keep(digest: string | undefined, box: Uint8Array | undefined): Promise<void> {
    if (digest === this.#digest) return;
    if (digest === undefined) {
      await rm(this.#file, { force: true });
      this.#digest = undefined;
      this.#tests = [];
      return;
    }
    if (box === undefined) throw new EdgeError('ERR_SITE_SECRETS', 'the centre sent no secrets');
    const opened = this.#open(digest, box);
    const stored: Static<typeof Stored> = { digest, box: Buffer.from(box).toString('base64') };
    await writeFileAtomically(this.#file, `${JSON.stringify(stored)}\n`, 0o600);
    this.#use(digest, opened);
    this.#context.host.logger.info(
      { globs: this.#tests.length },
      'received new secrets of this site from the centre',
    );
  }

  /**
   * Decrypts secrets of this site, and verifies their digest.
   * @param box - encrypted secrets, as the centre sent them
   * @throws EdgeError ERR_SITE_SECRETS if they were encrypted for another site, or altered
   */
  #open(digest: string, box: Uint8Array): SiteSecrets {
    const { name } = this.#context.options;
    const content = tryToUnseal(box, this.#key, name);
    if (content !== undefined && digestOfSecrets(name, content) === digest) {
      return decodeSecrets(content);
    }
    throw new EdgeError('ERR_SITE_SECRETS', 'the secrets are sealed to another site, or altered');
  }

  #use(digest: string, secrets: SiteSecrets): void {
    this.#digest = digest;
    this.#tests = Object.entries(secrets).map(
      ([glob, pillar]) => [compileGlob(glob), pillar] as const,
    );
  }
}

function tryToUnseal(box: Uint8Array, key: KeyObject, site: string): Buffer | undefined {
  try {
    return unseal(box, key, site);
  } catch {
    return undefined;
  }
}

/**
 * Reads the private key with which the site decrypts its secrets. Creates the key if it does not
 * exist.
 */
async function openKey(directory: string): Promise<KeyObject> {
  const name = 'seal-key.pem';
  const known = await readKey(directory, name, 'x25519');
  if (known !== undefined) return known;
  const key = generateSealKey();
  await writeKey(directory, name, key);
  return key;
}
