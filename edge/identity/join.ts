/** Joins a centre: presents a ticket to the centre, and writes the identity of the site. */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { SiteOptions } from '#config';
import { readRoot } from '../bundles/tuf-metadata.ts';
import { EdgeError } from '../errors.ts';
import { edgeAddress } from '../link/edge-address.ts';
import { generateKey, isSignedBy, publicBytesOf, signParts } from './ed25519.ts';
import {
  checkJoinReply,
  type JoinReply,
  type JoinRequest,
  joinPurpose,
  signedReply,
} from './join-message.ts';
import { postJson, refusalOf } from './post-json.ts';
import { type SiteIdentity, SiteIdentityFile, siteDirectory } from './site-identity.ts';
import { readTicket } from './tickets.ts';

export interface JoinOptions {
  readonly stateDir: string;
  /** Options of the section `site` in the configuration. */
  readonly site: Pick<SiteOptions, 'ca' | 'centre' | 'name'>;
  readonly now?: () => number;
}

/** Result of joining. */
export interface JoinReceipt {
  readonly name: string;
  readonly centre: string;
  /** Whether the centre has sent its root metadata, which a site needs to verify bundles. */
  readonly hasRoot: boolean;
}

/**
 * Joins the centre that issued a ticket, and writes the identity of the site.
 * @throws EdgeError ERR_SITE_TICKET, ERR_SITE_LINK, ERR_SITE_STATE
 */
export async function joinSite(
  ticketText: string,
  { stateDir, site, now = Date.now }: JoinOptions,
): Promise<JoinReceipt> {
  const text = ticketText.trim();
  const ticket = readTicket(text);
  if (ticket.name !== site.name) {
    const problem = `the ticket is for ${ticket.name}, but site: name is ${site.name}`;
    throw new EdgeError('ERR_SITE_TICKET', problem);
  }
  if (now() > ticket.expiresAt) {
    throw new EdgeError('ERR_SITE_TICKET', 'the ticket has expired; create a new one');
  }
  const file = new SiteIdentityFile(siteDirectory(stateDir));
  // If the former identity is damaged, its generation is unknown. Releases of the centre could then
  // count as older than the bundle in use.
  const former = await file.read();
  const key = generateKey();
  const publicKey = publicBytesOf(key);
  const body: JoinRequest = {
    ticket: text,
    key: publicKey.toString('base64url'),
    proof: signParts(key, joinPurpose, [Buffer.from(text)]).toString('base64url'),
  };
  const url = `${edgeAddress(site.centre)}/join`;
  const ca = site.ca === undefined ? undefined : await readFile(site.ca);
  const { status, value } = await postJson(url, body, ca);
  if (status !== 200 || !checkJoinReply.Check(value)) throw refusalOf(url, status, value);
  const reply: JoinReply = value;
  const root = reply.root === undefined ? undefined : Buffer.from(reply.root, 'base64');
  const signature = Buffer.from(reply.signature, 'base64url');
  if (!isSignedBy(ticket.centreKey, ...signedReply(text, publicKey, root), signature)) {
    throw new EdgeError(
      'ERR_SITE_TICKET',
      'the reply is not signed by the centre that issued the ticket',
    );
  }
  const digest = root && createHash('sha256').update(root).digest('hex');
  if (ticket.root !== digest) {
    throw new EdgeError(
      'ERR_SITE_TICKET',
      'the digest of the root metadata differs from the digest in the ticket',
    );
  }
  const joinedAt = now();
  await file.write({
    name: ticket.name,
    centre: ticket.centre,
    centreKey: ticket.centreKey,
    joinedAt,
    keyCreatedAt: joinedAt,
    key,
    nextKey: undefined,
    formerKeys: [],
    root,
    generation: await generationOf(former, root),
    rehomed: undefined,
    statement: undefined,
    statementFloor: 0,
  });
  return { name: ticket.name, centre: site.centre, hasRoot: root !== undefined };
}

/**
 * Returns the generation of the new identity: the former generation, plus 1 if the site joins a
 * centre with another id.
 */
async function generationOf(
  former: SiteIdentity | undefined,
  root: Uint8Array | undefined,
): Promise<number> {
  if (former?.root === undefined) return former?.generation ?? 0;
  const { centre } = await readRoot(former.root);
  const isSame = root !== undefined && (await readRoot(root)).centre === centre;
  return former.generation + (isSame ? 0 : 1);
}
