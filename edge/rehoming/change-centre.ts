/**
 * Computes the new identity of a site that moves to another centre. It is computed twice: when the
 * site accepts the statement about its next centre, and when it changes to that centre.
 */

import type { KeyObject } from 'node:crypto';
import { readRoot } from '../bundles/tuf-metadata.ts';
import type { RehomedSite, SiteIdentity } from '../identity/site-identity.ts';
import type { CentreEndpoint } from '../link/centre-endpoint.ts';
import { signLeave } from './leave-message.ts';
import type { Statement } from './statement.ts';

/**
 * Returns the identity of a site after the site has accepted a statement about its next centre.
 * This statement replaces an earlier one.
 */
export function withStatement(
  identity: SiteIdentity,
  text: string,
  { issuedAt }: Pick<Statement, 'issuedAt'>,
): SiteIdentity {
  return { ...identity, statement: text, statementFloor: issuedAt };
}

/**
 * Root metadata that a site will trust after it changes its centre, and whether the id of the
 * centre changes.
 */
export interface NextTrust {
  readonly root: Uint8Array;
  /** Id of the present centre. */
  readonly from: string;
  /**
   * Whether the next centre has a different id. The versions of its bundles cannot then be compared
   * with versions of the present centre.
   */
  readonly isOther: boolean;
}

/**
 * Returns the root metadata that a site trusts after it changes its centre. This is usually the
 * root metadata in the statement. If the id of the centre stays the same, and `trusted` has the
 * same or a later version, it is `trusted`.
 * @param trusted - root metadata that the site trusts now
 */
export async function nextTrust(trusted: Uint8Array, { to }: Statement): Promise<NextTrust> {
  const stated = Buffer.from(to.root, 'base64');
  const [former, next] = await Promise.all([readRoot(trusted), readRoot(stated)]);
  const isOther = former.centre !== next.centre;
  const keeps = !isOther && former.version >= next.version;
  return { root: keeps ? trusted : stated, from: former.centre, isOther };
}

/** Parameters of {@link withNextCentre}. */
export interface ChangeOfCentre {
  readonly statement: Statement;
  readonly trust: NextTrust;
  /** Key of the site that the next centre has accepted: the site's present key or a former one. */
  readonly key: KeyObject;
  /** Value of the option `centre` in the site's configuration. */
  readonly configured: string;
  /** Addresses of the present centre. */
  readonly former: readonly CentreEndpoint[];
  readonly now: number;
}

/**
 * Returns the identity of a site that has changed to the next centre, which the statement
 * describes.
 */
export function withNextCentre(
  identity: SiteIdentity,
  { statement, trust, key, configured, former, now }: ChangeOfCentre,
): SiteIdentity {
  const { to, issuedAt } = statement;
  const { addresses, behindProxy, ca } = to;
  const [centre = configured] = addresses;
  // The next centre may know a former key only. The site then replaces it by its present key, as in
  // any renewal.
  const isPresent = identity.key.equals(key);
  return {
    ...identity,
    centre,
    centreKey: Buffer.from(to.key, 'base64url'),
    key,
    nextKey: isPresent ? identity.nextKey : identity.key,
    root: trust.root,
    generation: identity.generation + (trust.isOther ? 1 : 0),
    rehomed: {
      issuedAt,
      at: now,
      from: trust.from,
      addresses: [...addresses],
      behindProxy,
      replaced: configured,
      ...(trust.isOther ? { leave: leaveOf(identity, trust.from, issuedAt, former) } : {}),
      ...(ca === undefined ? {} : { ca }),
    },
    statement: undefined,
    statementFloor: issuedAt,
  };
}

/**
 * Returns the signed notification for the former centre. Call this function only if the two centres
 * have different ids. If they have the same id, the former address may lead to the next centre, and
 * the notification would reach the wrong centre.
 */
function leaveOf(
  { key, name }: SiteIdentity,
  from: string,
  issuedAt: number,
  former: readonly CentreEndpoint[],
): NonNullable<RehomedSite['leave']> {
  const [ca] = former.map((endpoint) => endpoint.ca);
  return {
    signature: signLeave(key, name, from, issuedAt),
    addresses: former.map((endpoint) => endpoint.centre),
    ...(ca === undefined ? {} : { ca: Buffer.from(ca).toString('utf8') }),
  };
}
