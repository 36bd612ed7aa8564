/**
 * Stores and lists the key claims of sites at the centre. With a key claim, a site reports a minion
 * key that the site has accepted but that its bundle lacks. An operator of the centre can add such
 * keys to a release.
 */

import Type, { type Static } from 'typebox';
import type { StateArea } from '#master';
import { cleanKeyText, isValidMinionId, keyFingerprint, parsePublicKey } from '#minion-protocol';
import { codeOf, compileSchema } from '#runtime';
import { defineRow, type RowOf } from '#store';
import { EdgeError } from '../errors.ts';
import type { MinionClaims } from '../facts/minion-claims.ts';
import type { LogEntry, LogIngest } from '../log/log.ts';

const SentClaim = Type.Object(
  {
    id: Type.Refine(Type.String({ maxLength: 128 }), isValidMinionId),
    publicKey: Type.String({ maxLength: 4096 }),
  },
  { additionalProperties: false },
);
const isClaim = compileSchema(SentClaim);

const claimRow = defineRow({
  name: 'claim of a key',
  schema: Type.Object({
    site: Type.String(),
    id: Type.String(),
    publicKey: Type.String(),
    /** SHA-256 fingerprint of the key, as `salt-key -F` prints it. */
    fingerprint: Type.String(),
    /** Time of the report in milliseconds since 1970, by the clock of the site. */
    at: Type.Number(),
  }),
});

/** Minion key that a site has accepted and reported to the centre. */
export type KeyClaim = RowOf<typeof claimRow>;

const prefix = ['bundle', 'claim'];

/** Maximum number of claims that {@link listKeyClaims} returns. */
const claimsPerPage = 1000;

export const ClaimsQuery = Type.Object(
  {
    /** Name of the site. Default: all sites. */
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 63 })),
    /**
     * Last claim that the caller already has. The list starts with the next one. Default: starts
     * with the first claim.
     */
    after: Type.Optional(
      Type.Object(
        { site: Type.String({ maxLength: 63 }), id: Type.String({ maxLength: 128 }) },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
);
export type ClaimsQuery = Static<typeof ClaimsQuery>;

/**
 * Registers the log handler that stores the key claims of sites. The centre refuses a claim for a
 * minion id that the site does not own. A later claim of the same site for the same id replaces the
 * earlier one, so that a site has at most one claim for each of its minions.
 */
export function storeKeyClaims(
  ingest: Pick<LogIngest, 'on'>,
  claims: Pick<MinionClaims, 'claim'>,
): void {
  ingest.on('key-claim', {
    operations: async (entry) => {
      const claim = readClaim(entry);
      const { site, id } = claim;
      const value = claimRow.encode(claim);
      return [...(await claims.claim(site, id)), { op: 'put', key: [...prefix, site, id], value }];
    },
  });
}

/**
 * Parses a log entry in which a site reports that it has accepted a minion key.
 * @throws EdgeError ERR_SITE_MESSAGE if the entry is malformed
 */
function readClaim({ site, value, at }: LogEntry): KeyClaim {
  if (!isClaim.Check(value)) throw malformed('the fields of a key claim are malformed');
  const { id } = value;
  const publicKey = cleanKeyText(value.publicKey);
  try {
    parsePublicKey(publicKey);
  } catch (error) {
    if (codeOf(error) !== 'ERR_BAD_KEY') throw error;
    throw malformed(`the key of the minion ${id} is not a valid RSA public key`);
  }
  return { site, id, publicKey, fingerprint: keyFingerprint(publicKey, 'sha256'), at: at.ms };
}

function malformed(text: string): EdgeError {
  return new EdgeError('ERR_SITE_MESSAGE', text);
}

/** Deletes the key claims of a site: its reports about minion keys that it has accepted. */
export async function forgetKeyClaims(
  { write }: Pick<StateArea, 'write'>,
  site: string,
): Promise<void> {
  await write([{ op: 'delete-prefix', prefix: [...prefix, site] }]);
}

/**
 * Returns one page of the key claims: minion keys that sites have accepted and reported to the
 * centre. They are in the order of sites and minion ids. A page has at most {@link claimsPerPage}.
 */
export async function listKeyClaims(
  { list }: Pick<StateArea, 'list'>,
  { name, after }: ClaimsQuery = {},
): Promise<readonly KeyClaim[]> {
  const claims: KeyClaim[] = [];
  const ofSites = name === undefined ? prefix : [...prefix, name];
  const from = after && { after: [...prefix, after.site, after.id] };
  for await (const entry of list(ofSites, { ...from, limit: claimsPerPage })) {
    claims.push(claimRow.decode(entry));
  }
  return claims;
}
