/**
 * Stores and lists the key claims of sites at the centre. With a key claim, a site reports a minion
 * key that the site has accepted but that its bundle lacks. An operator of the centre can add such
 * keys to a release.
 */

import { createHash } from 'node:crypto';
import Type from 'typebox';
import type { StateArea, StateOperation } from '#master';
import { isValidMinionId } from '#minion-protocol';
import { compileSchema } from '#runtime';
import { defineRow, type RowOf } from '#store';
import { EdgeError } from '../errors.ts';
import type { LogEntry, LogIngest } from '../log/log.ts';

const ClaimSchema = Type.Object(
  {
    id: Type.Refine(Type.String({ maxLength: 128 }), isValidMinionId),
    publicKey: Type.String({ maxLength: 4096 }),
    fingerprint: Type.String({ maxLength: 256 }),
  },
  { additionalProperties: false },
);
const isClaim = compileSchema(ClaimSchema);

const claimRow = defineRow({
  name: 'claim of a key',
  schema: Type.Object({
    site: Type.String(),
    id: Type.String(),
    publicKey: Type.String(),
    fingerprint: Type.String(),
    /** Time of the report in milliseconds since 1970, by the clock of the site. */
    at: Type.Number(),
  }),
});

/** Minion key that a site has accepted and reported to the centre. */
export type KeyClaim = RowOf<typeof claimRow>;

const prefix = ['bundle', 'claim'];

/**
 * Maximum number of stored claims of a site. A hash of the minion id assigns one of this many slots
 * to each claim. A new claim replaces the claim in the same slot.
 */
const claimsPerSite = 4096;

/** Maximum number of claims that {@link listKeyClaims} returns. */
const maxListed = 10_000;

/** Registers the log handler that stores the key claims of sites. */
export function storeKeyClaims(ingest: LogIngest): void {
  ingest.on('key-claim', { operations: (entry) => [toOperation(entry)] });
}

function toOperation({ site, value, at }: LogEntry): StateOperation {
  if (!isClaim.Check(value)) {
    throw new EdgeError('ERR_SITE_MESSAGE', 'the fields of a key claim are malformed');
  }
  const claim: KeyClaim = { ...value, site, at: at.ms };
  return { op: 'put', key: [...prefix, site, placeOf(value.id)], value: claimRow.encode(claim) };
}

/**
 * Returns the slot for the claim of a minion: a hash of the minion id, below {@link claimsPerSite}.
 * The fixed number of slots prevents a site from filling the store.
 */
function placeOf(id: string): string {
  const digest = createHash('sha256').update(id).digest();
  return String(digest.readUInt32BE() % claimsPerSite);
}

/** Returns the key claims of all sites, at most {@link maxListed}. */
export async function listKeyClaims(rows: Pick<StateArea, 'list'>): Promise<readonly KeyClaim[]> {
  const claims: KeyClaim[] = [];
  for await (const entry of rows.list(prefix, { limit: maxListed })) {
    claims.push(claimRow.decode(entry));
  }
  return claims;
}
