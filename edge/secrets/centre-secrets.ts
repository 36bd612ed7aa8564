/** Part of a centre that gives each site its own secrets. */

import Type from 'typebox';
import { extensionMethod } from '#master';
import { codeOf, errorMessage, TokenBuckets } from '#runtime';
import { EdgeError } from '../errors.ts';
import { signedForm } from '../identity/ed25519.ts';
import { seal } from '../identity/sealed-box.ts';
import { edgeLimits } from '../limits.ts';
import type { CentreContext, CentrePartContribution } from '../parts.ts';
import { readSecretFile } from './secret-file.ts';
import {
  digestOfSecrets,
  isRequestSignedBy,
  type SecretsReply,
  secretsChangedMessage,
  secretsMessage,
  secretsPurpose,
  signedSecrets,
} from './secret-messages.ts';

/**
 * Kind of the message with which a member notifies other members of the cluster that the secrets of
 * a site have changed.
 */
const changedKind = 'secrets changed';

/** Result of notifying a site that its secrets have changed. */
export interface SiteSecretsState {
  readonly site: string;
  /**
   * `none`: the centre has no secrets for this site. `notified`: the site reads them now. `away`:
   * the site reads them when it connects. `invalid`: the file of the site cannot be used.
   */
  readonly state: 'none' | 'notified' | 'away' | 'invalid';
  /** Reason why the file cannot be used. */
  readonly reason?: string;
}

/** Opens the part of a centre that gives each site its own secrets. */
export function openCentreSecrets(context: CentreContext): CentrePartContribution {
  const { host, links, options, sites, sign } = context;
  const read = async (site: string): Promise<Buffer | undefined> =>
    options.secrets === undefined ? undefined : readSecretFile(options.secrets, site);
  const reads = new TokenBuckets(edgeLimits.secretReads);
  // The name of the site is the authenticated name of the connection.
  links.handle(secretsMessage, async ({ sealKey, nonce, have, proof }, { site }) => {
    if (!reads.tryTake(site)) {
      const problem = 'secrets refused: the site requests them too often; retry later';
      throw new EdgeError('ERR_SITE_LINK', problem);
    }
    const request = { sealKey, nonce, proof };
    await sites.requireKey(site, (key) => isRequestSignedBy(key, site, request));
    const at = host.now();
    const signed = <T extends Omit<SecretsReply, 'at'>>(
      content: T,
    ): T & { readonly at: number; readonly signature: Uint8Array } => {
      const reply = { ...content, at };
      const signature = sign(signedForm(secretsPurpose, signedSecrets(site, nonce, reply)));
      return { ...reply, signature };
    };
    const content = await read(site);
    if (content === undefined) return signed({});
    const digest = digestOfSecrets(site, content);
    if (digest === have) return signed({ digest });
    const box = sealFor(site, content, sealKey);
    host.audit.append({
      who: { kind: 'service', name: `site ${site}` },
      action: 'site.secrets',
      what: site,
      outcome: 'done',
    });
    return signed({ digest, box });
  });
  const notifyHere = (site: string): void => {
    links
      .callerOf(site)
      ?.call(secretsChangedMessage, {}, host.closing)
      .catch((err: unknown) => {
        host.logger.info({ site, err }, 'cannot notify a site that its secrets have changed');
      });
  };
  const { cluster } = host.shared;
  cluster?.onMessage(changedKind, ({ site }) => {
    if (typeof site === 'string') notifyHere(site);
  });
  const notify = async (site: string): Promise<SiteSecretsState> => {
    const content = await read(site);
    notifyHere(site);
    // The site may be connected to another member of the cluster.
    cluster?.send(changedKind, { site });
    if (content === undefined) return { site, state: 'none' };
    return { site, state: links.isConnected(site) ? 'notified' : 'away' };
  };
  const tryNotify = async (site: string): Promise<SiteSecretsState> => {
    try {
      return await notify(site);
    } catch (error) {
      if (codeOf(error) !== 'ERR_SITE_SECRETS') throw error;
      return { site, state: 'invalid', reason: errorMessage(error) };
    }
  };
  return {
    rpc: {
      secrets: extensionMethod({
        parameters: Type.Object(
          { name: Type.Optional(Type.String({ minLength: 1, maxLength: 63 })) },
          { additionalProperties: false },
        ),
        call: async (_api, { name }) => {
          if (options.secrets === undefined) {
            const problem = 'this master has no secrets of sites; set saltbridge: sites: secrets';
            throw new EdgeError('ERR_SITE_SECRETS', problem);
          }
          if (name !== undefined) {
            await sites.show(name);
            return [await notify(name)];
          }
          const states: SiteSecretsState[] = [];
          for (const site of sites.joined) states.push(await tryNotify(site));
          return states;
        },
        audit: { action: 'site.secrets', done: ({ name }) => ({ what: name ?? 'all sites' }) },
      }),
    },
  };
}

/**
 * Encrypts secrets for the key in the request of a site.
 * @throws EdgeError ERR_SITE_MESSAGE if the key is not a usable X25519 key, for example because all
 * its bytes are zero
 */
function sealFor(site: string, content: Uint8Array, key: Uint8Array): Buffer {
  try {
    return seal(content, key, site);
  } catch (cause) {
    const problem = 'secrets refused: the key in the request is not a usable X25519 key';
    throw new EdgeError('ERR_SITE_MESSAGE', problem, { cause });
  }
}
